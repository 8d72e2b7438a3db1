//! Discovery: the version, and the groups, versions and resources of the server. The legacy format
//! has one document per group and version. The aggregated format has one document for all, and
//! kubectl requests it first.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::kinds::SupportedVerbs;
use super::registry::{Registry, Resource};
use super::respond::{Body, JSON, respond};
use super::status::{ApiResult, StatusError};
use super::usage_metrics;

/// The minor version of the Kubernetes release whose API the server implements.
const KUBERNETES_MINOR_VERSION: u32 = 36;
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the document at `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": KUBERNETES_MINOR_VERSION.to_string(), "gitVersion": format!("v1.{KUBERNETES_MINOR_VERSION}.0+kerf"), "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "kerf/sandbox",
    })
}

/// Returns the document at `/`.
pub(crate) fn paths(registry: &Registry) -> Value {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(String::from)
            .to_vec();
    for (group, versions) in registry.groups() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
        }
        paths.extend(versions.iter().map(|version| {
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
        }));
    }
    paths.sort();
    json!({"paths": paths})
}

/// Handles `/api`, `/apis` and the paths below them.
pub(crate) fn handle_discovery(registry: &Registry, segments: &[&str], accept: &str) -> ApiResult<Response<Body>> {
    let wants_aggregated = accept.split(',').any(|range| {
        let range = range.replace(' ', "");
        range.contains("g=apidiscovery.k8s.io")
            && range.contains("v=v2")
            && !range.contains("v=v2beta1")
            && range.contains("as=APIGroupDiscoveryList")
    });
    let legacy = |value: Value| Ok(respond(200, JSON, Bytes::from(value.to_string()).into(), &[]));
    match segments {
        ["api" | "apis"] if wants_aggregated => {
            let groups = groups(registry).into_iter().filter(|(group, _)| group.is_empty() == (segments[0] == "api"));
            let items: Vec<Value> =
                groups.map(|(group, versions)| aggregated_group(registry, &group, &versions)).collect();
            let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
            Ok(respond(200, AGGREGATED, Bytes::from(list.to_string()).into(), &[]))
        }
        ["api"] => legacy(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        })),
        ["apis"] => {
            let groups: Vec<Value> = groups(registry)
                .iter()
                .filter(|(group, _)| !group.is_empty())
                .map(|(group, versions)| group_of(group, versions, false))
                .collect();
            legacy(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", group] => {
            let entry = groups(registry).into_iter().find(|(other, _)| other == group && !other.is_empty());
            let (group, versions) = entry.ok_or_else(StatusError::no_such_api)?;
            legacy(group_of(&group, &versions, true))
        }
        ["api", version] => resources(registry, "", version).and_then(legacy),
        ["apis", group, usage_metrics::VERSION] if registry.is_usage_metrics(group) => {
            legacy(usage_metrics::resource_list())
        }
        ["apis", group, version] => resources(registry, group, version).and_then(legacy),
        _ => Err(StatusError::no_such_api()),
    }
}

/// Returns the groups with their versions, the preferred version first. The API of a metrics server
/// is among them, although it has no resources.
fn groups(registry: &Registry) -> Vec<(SmolStr, Vec<SmolStr>)> {
    let mut groups = registry.groups();
    if registry.is_usage_metrics(usage_metrics::GROUP) {
        groups.push((usage_metrics::GROUP.into(), vec![usage_metrics::VERSION.into()]));
    }
    groups
}

fn group_of<V: AsRef<str>>(group: &str, versions: &[V], with_type: bool) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{}", version.as_ref()), "version": version.as_ref()}))
        .collect();
    let mut value = json!({"name": group, "versions": versions, "preferredVersion": versions.first()});
    if with_type {
        value["kind"] = "APIGroup".into();
        value["apiVersion"] = "v1".into();
    }
    value
}

fn resources(registry: &Registry, group: &str, version: &str) -> ApiResult<Value> {
    let mut resources = Vec::new();
    for resource in registry.resources_in(group, version) {
        let mut entry = json!({
            "name": resource.plural.as_str(), "singularName": resource.singular.as_str(), "namespaced": resource.namespaced,
            "kind": resource.kind.as_str(), "verbs": verbs(resource),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = resource.short_names.iter().map(|name| Value::from(name.as_str())).collect();
        }
        if !resource.categories.is_empty() {
            entry["categories"] = resource.categories.iter().map(|name| Value::from(name.as_str())).collect();
        }
        resources.push(entry);
        for (name, group, version, kind, verbs) in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced, "kind": kind, "verbs": verbs,
            });
            if !version.is_empty() {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    if resources.is_empty() {
        return Err(StatusError::no_such_api());
    }
    let api_version = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
    Ok(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}))
}

fn aggregated_group<V: AsRef<str>>(registry: &Registry, group: &str, versions: &[V]) -> Value {
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                registry.resources_in(group, version.as_ref()).map(|resource| aggregated(resource)).collect();
            json!({"version": version.as_ref(), "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated(resource: &Resource) -> Value {
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let mut entry = json!({
        "resource": resource.plural.as_str(), "singularResource": resource.singular.as_str(), "scope": scope, "verbs": verbs(resource),
        "responseKind": {"group": resource.group.as_str(), "version": resource.version.as_str(), "kind": resource.kind.as_str()},
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.iter().map(|name| Value::from(name.as_str())).collect();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.iter().map(|name| Value::from(name.as_str())).collect();
    }
    let subresource_entries: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(name, group, version, kind, verbs)| {
            let (group, version) = if version.is_empty() { (resource.group.as_str(), resource.version.as_str()) } else { (group, version) };
            json!({"subresource": name, "responseKind": {"group": group, "version": version, "kind": kind}, "verbs": verbs})
        })
        .collect();
    if !subresource_entries.is_empty() {
        entry["subresources"] = subresource_entries.into();
    }
    entry
}

fn verbs(resource: &Resource) -> &'static [&'static str] {
    match resource.supported_verbs {
        SupportedVerbs::All => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        SupportedVerbs::NoDeleteCollection => &["create", "delete", "get", "list", "patch", "update", "watch"],
        SupportedVerbs::CreateOnly => &["create"],
    }
}

/// A subresource: its name; the group, version and kind of its bodies (empty for those of the
/// resource); and its verbs.
type SubresourceInfo<'a> = (&'a str, &'a str, &'a str, &'a str, &'static [&'static str]);

fn subresources(resource: &Resource) -> Vec<SubresourceInfo<'_>> {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    let own_kind = resource.kind.as_str();
    let mut infos: Vec<SubresourceInfo<'_>> = Vec::new();
    for name in &resource.subresources {
        infos.push(match name.as_str() {
            "eviction" => ("eviction", "policy", "v1", "Eviction", &["create"]),
            "binding" => ("binding", "", "v1", "Binding", &["create"]),
            "token" => ("token", "authentication.k8s.io", "v1", "TokenRequest", &["create"]),
            "finalize" => ("finalize", "", "", own_kind, &["update"]),
            other => (other, "", "", own_kind, CHANGE),
        });
    }
    if resource.scale.is_some() {
        infos.push(("scale", "autoscaling", "v1", "Scale", CHANGE));
    }
    if resource.has_status() {
        infos.push(("status", "", "", own_kind, CHANGE));
    }
    infos.sort_by_key(|(name, ..)| *name);
    infos
}
