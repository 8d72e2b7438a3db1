//! A compiled definition: names, scope and versions, each with its compiled schema. Immutable, so
//! it can be shared.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use serde_json::Value;

use super::cel::CompiledRules;
use super::definition;
use super::error::FieldError;
use super::scale::Scale;
use super::schema::Schema;

/// A custom resource that can be served; the result of compiling a `CustomResourceDefinition`.
#[derive(Debug)]
pub struct CustomResource {
    /// The API group, e.g. `karpenter.sh`.
    pub group: String,
    /// Names of the kind.
    pub names: CrdNames,
    /// Scope of the objects: cluster or namespace.
    pub scope: CrdScope,
    /// The versions, in the definition's order.
    pub versions: Vec<CrdVersion>,
}

/// Names of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdNames {
    /// Plural name, used in URLs: `nodepools`.
    pub plural: String,
    /// Singular name: `nodepool`.
    pub singular: String,
    /// Kind of an object: `NodePool`.
    pub kind: String,
    /// Kind of a list: `NodePoolList`.
    pub list_kind: String,
    /// Abbreviations that `kubectl` accepts; may be empty.
    pub short_names: Vec<String>,
    /// Groups of kinds that `kubectl get` accepts, such as `all`; may be empty.
    pub categories: Vec<String>,
}

/// Scope of the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdScope {
    /// Objects belong to the cluster and have no namespace.
    Cluster,
    /// Every object belongs to a namespace.
    Namespaced,
}

/// One version of a kind.
#[derive(Debug)]
pub struct CrdVersion {
    /// Name of the version, e.g. `v1`.
    pub name: String,
    /// True if the API server answers requests for this version.
    pub served: bool,
    /// True if objects are stored in this version.
    pub storage: bool,
    /// Warning for clients of this version; `None` if it is not deprecated.
    pub deprecation_warning: Option<String>,
    /// Schema of the objects.
    pub schema: Schema,
    /// True if the version has a status subresource.
    pub has_status: bool,
    /// Paths of the scale subresource; `None` if the version has none.
    pub scale: Option<Scale>,
    /// Columns of `kubectl get`, after the name.
    pub columns: Vec<PrinterColumn>,
    /// JSON paths that field selectors may use, in addition to name and namespace.
    pub selectable_fields: Vec<String>,
    pub(crate) rules: Option<CompiledRules>,
}

/// A column of `kubectl get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    /// Heading of the column.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_: String,
    /// Refinement of the type, e.g. `int32`; `None` if there is none.
    pub format: Option<String>,
    /// Explanation of the column for users; `None` if there is none.
    pub description: Option<String>,
    /// Columns with priority 0 are always shown, others only with `-o wide`.
    pub priority: i32,
    /// JSON path of the value, e.g. `.spec.weight`.
    pub json_path: String,
}

impl CustomResource {
    /// Compiles a `CustomResourceDefinition` (`apiextensions.k8s.io/v1`), or returns everything
    /// that is wrong with it.
    pub fn compile(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let spec = definition::decode_and_validate(crd)?.spec;
        let deprecations: Vec<Option<String>> =
            spec.versions.iter().map(|version| deprecation_warning(&spec, version)).collect();
        let names = spec.names;
        Ok(Self {
            group: spec.group,
            names: CrdNames {
                plural: names.plural,
                singular: names.singular.unwrap_or_default(),
                kind: names.kind,
                list_kind: names.list_kind.unwrap_or_default(),
                short_names: names.short_names.unwrap_or_default(),
                categories: names.categories.unwrap_or_default(),
            },
            scope: if spec.scope == "Namespaced" { CrdScope::Namespaced } else { CrdScope::Cluster },
            versions: spec
                .versions
                .into_iter()
                .zip(deprecations)
                .map(|(version, deprecation)| build_version(version, deprecation))
                .collect(),
        })
    }

    /// Returns the version `name`; `None` if the definition does not contain it.
    pub fn version(&self, name: &str) -> Option<&CrdVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the version in which objects are stored.
    pub fn storage_version(&self) -> &CrdVersion {
        self.versions
            .iter()
            .find(|version| version.storage)
            .expect("a compiled definition has exactly one storage version")
    }
}

fn build_version(version: CustomResourceDefinitionVersion, deprecation: Option<String>) -> CrdVersion {
    let schema = definition::schema_of(&version).map(Schema::build).unwrap_or_default();
    let subresources = version.subresources.unwrap_or_default();
    CrdVersion {
        rules: CompiledRules::build(&schema, true),
        schema,
        deprecation_warning: deprecation,
        name: version.name,
        served: version.served,
        storage: version.storage,
        has_status: subresources.status.is_some(),
        scale: subresources.scale.map(|scale| Scale {
            spec_replicas_path: scale.spec_replicas_path,
            status_replicas_path: scale.status_replicas_path,
            label_selector_path: scale.label_selector_path.filter(|path| !path.is_empty()),
        }),
        columns: version
            .additional_printer_columns
            .into_iter()
            .flatten()
            .map(|column| PrinterColumn {
                name: column.name,
                type_: column.type_,
                format: column.format,
                description: column.description,
                priority: column.priority.unwrap_or_default(),
                json_path: column.json_path,
            })
            .collect(),
        selectable_fields: version.selectable_fields.into_iter().flatten().map(|field| field.json_path).collect(),
    }
}

/// Returns the warning of a deprecated version; `None` if the version is not deprecated. If the
/// definition contains no text, the warning names the newest served version that is not deprecated.
fn deprecation_warning(
    spec: &CustomResourceDefinitionSpec,
    version: &CustomResourceDefinitionVersion,
) -> Option<String> {
    if version.deprecated != Some(true) {
        return None;
    }
    if let Some(warning) = &version.deprecation_warning {
        return Some(warning.clone());
    }
    let (group, kind) = (&spec.group, &spec.names.kind);
    let mut warning = format!("{group}/{} {kind} is deprecated", version.name);
    let newest = spec
        .versions
        .iter()
        .filter(|other| {
            other.served
                && other.deprecated != Some(true)
                && version_priority(&other.name) > version_priority(&version.name)
        })
        .max_by_key(|other| version_priority(&other.name));
    if let Some(newest) = newest {
        warning = format!("{warning}; use {group}/{} {kind}", newest.name);
    }
    Some(warning)
}

/// Returns Kubernetes' sort key of a version: `v2 > v1 > v1beta2 > v1beta1 > v1alpha1 >` any other
/// name.
fn version_priority(name: &str) -> (u8, u64, u64) {
    let parsed = || {
        let rest = name.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (major, suffix) = rest.split_at(digits);
        let major: u64 = major.parse().ok()?;
        let (stage, minor) = match suffix {
            "" => return Some((3, major, 0)),
            suffix => suffix
                .strip_prefix("beta")
                .map(|minor| (2, minor))
                .or(suffix.strip_prefix("alpha").map(|minor| (1, minor)))?,
        };
        Some((stage, major, minor.parse().ok()?))
    };
    parsed().unwrap_or((0, 0, 0))
}
