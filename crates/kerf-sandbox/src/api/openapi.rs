//! OpenAPI v3: one document per group and version. kubectl uses the documents to explain fields, to
//! check whether the server validates fields, and to compute strategic merge patches. They contain
//! what clients read: schemas, and operations with their main parameters.
//!
//! The OpenAPI v2 document is empty. kubectl requests it for a `List`, whose items it would
//! validate itself. Kinds that the document does not contain are left to the server, which
//! validates each item.

use std::collections::BTreeSet;
use std::hash::{Hash as _, Hasher as _};

use bytes::Bytes;
use http::Response;
use serde_json::{Map, Value, json};

use super::discovery;
use super::kinds::SupportedVerbs;
use super::registry::{Registry, Resource};
use super::respond::{Body, JSON, respond};
use super::schema::{SCHEMA_REF_PREFIX, annotate, definitions};
use super::status::{ApiResult, StatusError};

/// Handles `/openapi/v3` and the paths below it.
pub(crate) fn handle_v3(registry: &Registry, path: &[&str]) -> ApiResult<Response<Body>> {
    let document = match path {
        [] => index(registry),
        ["api", version] => document(registry, "", version)?,
        ["apis", group, version] => document(registry, group, version)?,
        _ => return Err(StatusError::no_such_api()),
    };
    Ok(respond(200, JSON, Bytes::from(document.to_string()).into(), &[]))
}

/// The media type of OpenAPI v2 in protobuf, and the older name that clients may accept.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OPENAPI_V2_PROTOBUF_LEGACY: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Handles `/openapi/v2`.
pub(crate) fn handle_v2(accept: &str) -> ApiResult<Response<Body>> {
    let (title, version) = ("Kubernetes", discovery::version()["gitVersion"].as_str().unwrap_or_default().to_owned());
    let json = || {
        let document = json!({"swagger": "2.0", "info": {"title": title, "version": version}, "paths": {}});
        respond(200, JSON, Bytes::from(document.to_string()).into(), &[])
    };
    let binary = || {
        let info = [field(1, title.as_bytes()), field(2, version.as_bytes())].concat();
        let document = [field(1, b"2.0"), field(2, &info)].concat();
        respond(200, PROTOBUF, Bytes::from(document).into(), &[])
    };
    if accept.trim().is_empty() {
        return Ok(json());
    }
    let response = accept.split(',').find_map(|range| match range.split(';').next().unwrap_or_default().trim() {
        JSON | "application/*" | "*/*" => Some(json()),
        PROTOBUF | OPENAPI_V2_PROTOBUF_LEGACY => Some(binary()),
        _ => None,
    });
    response.ok_or_else(|| StatusError::not_acceptable(JSON))
}

/// Encodes a text or a message as a field of a protobuf message. The length is limited to one byte,
/// which is enough for this document.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    const BYTES: u8 = 2;
    debug_assert!(content.len() < 0x80, "a length of more than one byte");
    [&[number << 3 | BYTES, content.len() as u8], content].concat()
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let name = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            // Clients cache documents by this hash, so it changes with the document.
            let mut hasher = rustc_hash::FxHasher::default();
            for resource in registry.resources_in(&group, &version) {
                (resource.plural.as_str(), resource.revision).hash(&mut hasher);
            }
            paths.insert(
                name.clone(),
                json!({"serverRelativeURL": format!("/openapi/v3/{name}?hash={:016X}", hasher.finish())}),
            );
        }
    }
    json!({"paths": paths})
}

fn document(registry: &Registry, group: &str, version: &str) -> ApiResult<Value> {
    let resources: Vec<&Resource> = registry.resources_in(group, version).map(|resource| &**resource).collect();
    if resources.is_empty() {
        return Err(StatusError::no_such_api());
    }
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut pending: BTreeSet<String> = BTreeSet::new();
    for resource in resources {
        describe_paths(resource, &mut paths);
        if let Some(schema) = resource.openapi_schema() {
            collect_references(&schema, &mut pending);
            schemas.insert(resource.openapi_definition.to_string(), with_kind(schema, resource));
        } else if let Some(document) = definitions().json_schemas.get(resource.openapi_definition.as_str()) {
            collect_references(document, &mut pending);
            let document = annotate(&resource.openapi_definition, document);
            schemas.insert(resource.openapi_definition.to_string(), with_kind(document, resource));
        }
    }
    for extra in ["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"] {
        pending.insert(extra.into());
    }
    while let Some(name) = pending.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some(document) = definitions().json_schemas.get(&name) {
            collect_references(document, &mut pending);
            schemas.insert(name.clone(), annotate(&name, document));
        }
    }
    Ok(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": discovery::version()["gitVersion"]},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

fn with_kind(mut schema: Value, resource: &Resource) -> Value {
    schema["x-kubernetes-group-version-kind"] = json!([kind_of(resource)]);
    schema
}

fn kind_of(resource: &Resource) -> Value {
    json!({"group": resource.group.as_str(), "version": resource.version.as_str(), "kind": resource.kind.as_str()})
}

/// Adds the names of all schemas that a schema refers to.
fn collect_references(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(name) = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|reference| reference.strip_prefix(SCHEMA_REF_PREFIX))
            {
                names.insert(name.into());
            }
            fields.values().for_each(|value| collect_references(value, names));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        _ => {}
    }
}

fn describe_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let collection_path = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    };
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> =
            parameters.iter().map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}})).collect();
        json!({
            "operationId": format!("{action}{}{}", resource.version, resource.kind), "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": format!("{SCHEMA_REF_PREFIX}{}", resource.openapi_definition)}}}}},
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind_of(resource),
        })
    };
    const LIST: &[&str] =
        &["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch", "timeoutSeconds"];
    const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
    const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
    if resource.supported_verbs == SupportedVerbs::CreateOnly {
        paths.insert(collection_path, json!({"post": operation("post", WRITE)}));
        return;
    }
    if resource.namespaced {
        paths.insert(format!("{root}/{}", resource.plural), json!({"get": operation("list", LIST)}));
    }
    paths.insert(
        format!("{collection_path}/{{name}}"),
        json!({
            "get": operation("get", &[]), "put": operation("put", WRITE), "patch": operation("patch", PATCH),
            "delete": operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
        }),
    );
    let mut collection = json!({"get": operation("list", LIST), "post": operation("post", WRITE)});
    if resource.supported_verbs == SupportedVerbs::All {
        collection["delete"] = operation("deletecollection", LIST);
    }
    paths.insert(collection_path.clone(), collection);
    if resource.has_status() {
        let change =
            json!({"get": operation("get", &[]), "put": operation("put", WRITE), "patch": operation("patch", PATCH)});
        paths.insert(format!("{collection_path}/{{name}}/status"), change);
    }
}
