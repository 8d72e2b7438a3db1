//! Compiles a `CustomResourceDefinition` into resources, one per served version.

use std::sync::Arc;

use kerf_api::admission::{CrdScope, CustomResource};
use serde_json::Value;
use smol_str::SmolStr;

use super::columns::CustomColumn;
use super::{CustomKind, JsonPath};
use crate::api::kinds::{StatusRule, SupportedVerbs};
use crate::api::names::NameRule;
use crate::api::object;
use crate::api::registry::{Resource, ResourceOrigin, ScalePaths, ServedAs};
use crate::api::schema::Schema;
use crate::api::storage::TableIx;

/// Returns the resources of a CRD. A CRD that does not compile has none.
pub(crate) fn resources(crd: &Value, table: TableIx, revision: u64) -> Vec<Resource> {
    let Ok(compiled) = CustomResource::compile(crd) else { return Vec::new() };
    let compiled = Arc::new(compiled);
    let storage = SmolStr::from(&compiled.storage_version().name);
    let is_crd_terminating = object::is_deleting(crd);
    let versions = compiled.versions.iter().filter(|version| version.served);
    versions
        .map(|version| {
            let open_api = open_api_of(crd, &version.name);
            let text = |text: &str| SmolStr::from(text);
            let kind = CustomKind {
                compiled: compiled.clone(),
                version: text(&version.name),
                crd_name: object::name(crd).into(),
                columns: version.columns.iter().map(CustomColumn::new).collect(),
                is_crd_terminating,
                deprecation_warning: version.deprecation_warning.clone(),
                open_api: open_api.cloned(),
            };
            Resource {
                group: text(&compiled.group),
                version: text(&version.name),
                kind: text(&compiled.names.kind),
                list_kind: text(&compiled.names.list_kind),
                plural: text(&compiled.names.plural),
                singular: text(&compiled.names.singular),
                short_names: compiled.names.short_names.iter().map(|name| text(name)).collect(),
                categories: compiled.names.categories.iter().map(|name| text(name)).collect(),
                namespaced: compiled.scope == CrdScope::Namespaced,
                supported_verbs: SupportedVerbs::All,
                status: if version.has_status { StatusRule::Subresource } else { StatusRule::None },
                scale: version.scale.as_ref().map(|scale| ScalePaths {
                    spec_replicas: keys(&scale.spec_replicas_path),
                    status_replicas: keys(&scale.status_replicas_path),
                    selector: Some(scale.label_selector_path.as_deref().map(keys).unwrap_or_default()),
                }),
                subresources: Vec::new(),
                has_generation: true,
                name_rule: NameRule::Subdomain,
                selectable: version
                    .selectable_fields
                    .iter()
                    .map(|path| (path.trim_start_matches('.').into(), SmolStr::default()))
                    .collect(),
                schema: Schema::custom(open_api),
                openapi_definition: openapi_definition_name(&compiled.group, &version.name, &compiled.names.kind),
                table,
                revision,
                served_as: if compiled.versions.len() > 1 { ServedAs::OtherVersion } else { ServedAs::AsStored },
                storage_version: storage.clone(),
                origin: ResourceOrigin::Custom(Arc::new(kind)),
            }
        })
        .collect()
}

fn open_api_of<'a>(crd: &'a Value, version: &str) -> Option<&'a Value> {
    let versions = object::list(crd, &["spec", "versions"]);
    let version = versions.iter().find(|other| object::text(other, &["name"]) == version)?;
    object::at(version, &["schema", "openAPIV3Schema"])
}

/// Splits a path such as `.spec.replicas` into its keys.
fn keys(path: &str) -> Vec<SmolStr> {
    JsonPath::parse(path).map(|path| path.keys()).unwrap_or_default()
}

/// Returns the name of a kind in OpenAPI documents. The parts of the group are in reverse order, as
/// in the real server.
fn openapi_definition_name(group: &str, version: &str, kind: &str) -> SmolStr {
    let backwards: Vec<&str> = group.split('.').rev().collect();
    smol_str::format_smolstr!("{}.{version}.{kind}", backwards.join("."))
}
