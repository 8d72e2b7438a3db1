//! Validates a definition itself (apiextensions.k8s.io/v1) as the API server does when a CRD is
//! created. All code that uses a schema relies on these checks, so a definition becomes a
//! `CustomResource` only if it has no errors.
//!
//! Paths are those of the API server: parts that all versions share are named `spec.validation…`,
//! other parts `spec.versions[0].schema…`.

mod defaults;
mod names;
mod openapi;
mod structural;
mod version;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, JSONSchemaProps,
};
use serde::Deserialize as _;
use serde_json::Value;

use super::error::FieldError;
use super::names::{dns1035_label, dns1123_subdomain};
use super::objectmeta::{self, NameRule};
use super::path::Path;
use super::{text, url};

const APPROVED_ANNOTATION: &str = "api-approved.kubernetes.io";

/// Decodes a definition and fills in the defaults of the API server, or returns everything that is
/// wrong with it.
pub(crate) fn decode_and_validate(crd: &Value) -> Result<CustomResourceDefinition, Vec<FieldError>> {
    let malformed = |detail: String| vec![FieldError::invalid(&Path::ROOT, Value::Null, detail)];
    let metadata = objectmeta::decode(crd.get("metadata").unwrap_or(&Value::Null)).map_err(malformed)?.metadata;
    // k8s-openapi requires metadata and decodes it with its own rules, so it gets the metadata that
    // `objectmeta` decoded.
    let mut input = crd.clone();
    if let Some(fields) = input.as_object_mut() {
        fields.insert("metadata".to_owned(), Value::Object(metadata.clone()));
        fields.remove("status");
    }
    let mut definition = CustomResourceDefinition::deserialize(&input)
        .map_err(|error| malformed(format!("is not a CustomResourceDefinition: {error}")))?;
    set_defaults(&mut definition.spec);
    let spec = &definition.spec;

    let at = Path::ROOT.child("metadata");
    let mut errors = objectmeta::validate(&at, &metadata, false, NameRule::Subdomain);
    let name = definition.metadata.name.as_deref().unwrap_or_default();
    if !name.is_empty() && name != format!("{}.{}", spec.names.plural, spec.group) {
        errors.push(FieldError::invalid(&at.child("name"), name, "must be spec.names.plural+\".\"+spec.group"));
    }
    errors.extend(validate_spec(spec));
    if !spec.versions.iter().any(|version| version.storage) {
        // The API server derives `storedVersions` from the storage version, so it reports both as
        // missing.
        let at = Path::ROOT.child("status");
        errors.push(FieldError::invalid(
            &at.child("storedVersions"),
            Value::Null,
            "must have at least one stored version",
        ));
    }
    let mut storage = spec.versions.iter().filter(|version| version.storage).map(|version| version.name.as_str());
    if let Some(first) = storage.next() {
        let at = Path::ROOT.child("status");
        for other in storage.filter(|other| *other != first) {
            let detail = format!("must have the storage version {other}");
            errors.push(FieldError::invalid(&at.child("storedVersions"), vec![first], detail));
        }
    }
    errors.extend(approval_error(&definition));
    if spec.preserve_unknown_fields == Some(true) {
        let at = Path::ROOT.child("spec");
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&at.child("preserveUnknownFields"), true, detail));
    }
    if errors.is_empty() { Ok(definition) } else { Err(errors) }
}

fn set_defaults(spec: &mut CustomResourceDefinitionSpec) {
    let names = &mut spec.names;
    if names.singular.as_deref().unwrap_or_default().is_empty() {
        names.singular = Some(names.kind.to_lowercase());
    }
    if names.list_kind.as_deref().unwrap_or_default().is_empty() && !names.kind.is_empty() {
        names.list_kind = Some(format!("{}List", names.kind));
    }
}

fn validate_spec(spec: &CustomResourceDefinitionSpec) -> Vec<FieldError> {
    let at = Path::ROOT.child("spec");
    let mut errors = Vec::new();
    validate_group(&at.child("group"), &spec.group, &mut errors);
    let scope_at = at.child("scope");
    match spec.scope.as_str() {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(FieldError::required(&scope_at, "")),
        other => errors.push(FieldError::not_supported(&scope_at, other, &["Cluster", "Namespaced"])),
    }
    let versions_at = at.child("versions");
    let shared_schema = shared_by_all_versions(&spec.versions, |version| &version.schema);
    if shared_schema.is_none_or(|schema| schema.open_api_v3_schema.is_none()) {
        for (i, _) in spec.versions.iter().enumerate().filter(|(_, version)| schema_of(version).is_none()) {
            errors.push(FieldError::required(&versions_at.index(i).child("schema").child("openAPIV3Schema"), ""));
        }
    }
    let preserves_unknown_fields = spec.preserve_unknown_fields == Some(true);
    if preserves_unknown_fields && spec.versions.iter().filter_map(schema_of).any(has_defaults) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&at.child("preserveUnknownFields"), true, detail));
    }
    validate_versions(&versions_at, spec, &mut errors);
    names::validate_required(&at.child("names"), &spec.names, &mut errors);
    names::validate(&at.child("names"), &spec.names, &mut errors);
    if let Some(first) = spec.versions.first() {
        version::validate_shared(&at, first, &spec.versions, &mut errors);
    }
    validate_conversion(&at.child("conversion"), spec, preserves_unknown_fields, &mut errors);
    errors
}

fn validate_group(at: &Path<'_>, group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    let details = dns1123_subdomain(group);
    if !details.is_empty() {
        errors.push(FieldError::invalid(at, group, details.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(at, group, "should be a domain with at least one dot"));
    }
}

fn validate_versions(at: &Path<'_>, spec: &CustomResourceDefinitionSpec, errors: &mut Vec<FieldError>) {
    for (i, version) in spec.versions.iter().enumerate() {
        let at = at.index(i);
        let details = dns1035_label(&version.name);
        if !details.is_empty() {
            errors.push(FieldError::invalid(&at.child("name"), version.name.as_str(), details.join(",")));
        }
        version::validate(&at, version, &spec.versions, errors);
    }
    let names: std::collections::BTreeSet<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
    if names.len() != spec.versions.len() {
        errors.push(FieldError::invalid_with_display(at, format_versions(spec), "must contain unique version names"));
    }
    if spec.versions.iter().filter(|version| version.storage).count() != 1 {
        errors.push(FieldError::invalid_with_display(
            at,
            format_versions(spec),
            "must have exactly one version marked as storage version",
        ));
    }
    if let Some(first) = spec.versions.first() {
        let details = dns1035_label(&first.name);
        if !first.name.is_empty() && !details.is_empty() {
            let at = Path::ROOT.child("spec");
            errors.push(FieldError::invalid(&at.child("version"), first.name.as_str(), details.join(",")));
        }
    }
}

/// Formats the versions as the API server prints its internal Go type, without the parts that all
/// versions share.
fn format_versions(spec: &CustomResourceDefinitionSpec) -> String {
    let versions: Vec<String> = spec
        .versions
        .iter()
        .map(|version| {
            let warning = version.deprecation_warning.as_deref().map_or(Value::Null, Value::from);
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\
                 \"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
                text::json(&Value::from(version.name.as_str())),
                version.served,
                version.storage,
                version.deprecated.unwrap_or_default(),
                text::json(&warning),
            )
        })
        .collect();
    format!("[{}]", versions.join(","))
}

fn validate_conversion(
    at: &Path<'_>,
    spec: &CustomResourceDefinitionSpec,
    preserves_unknown_fields: bool,
    errors: &mut Vec<FieldError>,
) {
    let Some(conversion) = &spec.conversion else { return };
    let strategy_at = at.child("strategy");
    if preserves_unknown_fields && conversion.strategy != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&strategy_at, conversion.strategy.as_str(), detail));
    }
    let client = conversion.webhook.as_ref().and_then(|webhook| webhook.client_config.as_ref());
    let review_versions =
        conversion.webhook.as_ref().map(|webhook| webhook.conversion_review_versions.as_slice()).unwrap_or_default();
    match conversion.strategy.as_str() {
        "" => errors.push(FieldError::required(&strategy_at, "")),
        "Webhook" => {
            match client {
                None => errors.push(FieldError::required(
                    &at.child("webhookClientConfig"),
                    "required when strategy is set to Webhook",
                )),
                Some(client) if client.url.is_some() == client.service.is_some() => errors.push(FieldError::required(
                    &at.child("webhookClientConfig"),
                    "exactly one of url or service is required",
                )),
                Some(_) => {}
            }
            let at = at.child("conversionReviewVersions");
            if review_versions.is_empty() {
                errors.push(FieldError::required(&at, ""));
            } else if !review_versions.iter().any(|version| matches!(version.as_str(), "v1" | "v1beta1")) {
                errors.push(FieldError::invalid(
                    &at,
                    review_versions.to_vec(),
                    "must include at least one of v1, v1beta1",
                ));
            }
        }
        other => {
            if other != "None" {
                errors.push(FieldError::not_supported(&strategy_at, other, &["None", "Webhook"]));
            }
            let detail = "should not be set when strategy is not set to Webhook";
            if client.is_some() {
                errors.push(FieldError::forbidden(&at.child("webhookClientConfig"), detail));
            }
            if !review_versions.is_empty() {
                errors.push(FieldError::forbidden(&at.child("conversionReviewVersions"), detail));
            }
        }
    }
}

/// Groups under `k8s.io` and `kubernetes.io` are protected and need an approval annotation.
fn approval_error(definition: &CustomResourceDefinition) -> Option<FieldError> {
    let group = &definition.spec.group;
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.')));
    if !protected {
        return None;
    }
    let approval = definition
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(APPROVED_ANNOTATION))
        .map_or("", String::as_str);
    let annotation = text::quote(APPROVED_ANNOTATION);
    let hint = "see https://github.com/kubernetes/enhancements/pull/1111";
    let metadata = Path::ROOT.child("metadata");
    let annotations = metadata.child("annotations");
    let at = annotations.key(APPROVED_ANNOTATION);
    if approval.is_empty() {
        return Some(FieldError::required(
            &at,
            format!("protected groups must have approval annotation {annotation}, {hint}"),
        ));
    }
    let is_url = url::Url::parse(approval).is_some_and(|url| !url.host.is_empty() && !url.scheme.is_empty());
    if approval.starts_with("unapproved") || is_url {
        return None;
    }
    let detail = format!(
        "protected groups must have approval annotation {annotation} with either a URL or a reason starting with \"unapproved\", {hint}"
    );
    Some(FieldError::invalid(&at, approval, detail))
}

/// Returns a part of the version if it is equal in all versions; otherwise `None`. The API server
/// reports errors of shared parts at another path.
pub(crate) fn shared_by_all_versions<T: PartialEq>(
    versions: &[CustomResourceDefinitionVersion],
    part: impl Fn(&CustomResourceDefinitionVersion) -> &Option<T>,
) -> Option<&T> {
    let first = part(versions.first()?).as_ref();
    if versions.iter().all(|version| part(version).as_ref() == first) { first } else { None }
}

pub(crate) fn schema_of(version: &CustomResourceDefinitionVersion) -> Option<&JSONSchemaProps> {
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn has_defaults(schema: &JSONSchemaProps) -> bool {
    schema.default.is_some()
        || super::schema::properties(schema).any(|(_, property)| has_defaults(property))
        || super::schema::items(schema).is_some_and(has_defaults)
        || super::schema::additional_schema(schema).is_some_and(has_defaults)
}
