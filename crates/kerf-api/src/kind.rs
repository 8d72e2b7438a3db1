//! Defines Kerf's custom kinds: group, version, names, serialization and printer columns.
//!
//! A kind implements `Resource` and `Metadata` of `k8s_openapi`, so that Kubernetes clients can use
//! it. Decoding rejects an object with another `apiVersion` or `kind`. An object without them is
//! accepted, because items of lists have none.

use k8s_openapi::{Metadata, Resource};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Kind that Kerf ships a `CustomResourceDefinition` for.
pub trait CustomKind:
    Resource + Metadata<Ty = ObjectMeta> + JsonSchema + Serialize + DeserializeOwned + Clone + Send + Sync + 'static
{
    /// True if objects of the kind have a namespace.
    const NAMESPACED: bool;
    /// Short names that `kubectl` accepts.
    const SHORT_NAMES: &'static [&'static str];
    /// Categories of the kind, such as `karpenter` in `kubectl get karpenter`.
    const CATEGORIES: &'static [&'static str];
    /// Printer columns of `kubectl get`, in order.
    const COLUMNS: &'static [Column];
    /// The `scale` subresource; `None` if the kind has none.
    const SCALE: Option<ScaleSubresource>;
}

/// Printer column of `kubectl get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Heading of the column.
    pub name: &'static str,
    /// OpenAPI type of the cell.
    pub column_type: &'static str,
    /// JSON path of the value in the object.
    pub json_path: &'static str,
    /// True if the column is shown only with `-o wide`.
    pub is_wide: bool,
}

/// JSON paths of the `scale` subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleSubresource {
    /// Path of the desired number of replicas.
    pub spec_replicas_path: &'static str,
    /// Path of the observed number of replicas.
    pub status_replicas_path: &'static str,
}

/// Returns a column that is always shown.
pub(crate) const fn column(name: &'static str, column_type: &'static str, json_path: &'static str) -> Column {
    Column { name, column_type, json_path, is_wide: false }
}

/// Returns a column that is shown only with `-o wide`.
pub(crate) const fn wide_column(name: &'static str, column_type: &'static str, json_path: &'static str) -> Column {
    Column { name, column_type, json_path, is_wide: true }
}

/// Status of the root condition.
pub(crate) const READY_COLUMN: Column = column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#);
/// Time since the object was created.
pub(crate) const AGE_COLUMN: Column = column("Age", "date", ".metadata.creationTimestamp");

/// Object as it is serialized.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SerializedObject<'a, Spec, Status> {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) metadata: &'a ObjectMeta,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<&'a Spec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'a Status>,
}

/// Object as it is deserialized.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "Spec: Deserialize<'de>, Status: Deserialize<'de>"))]
pub(crate) struct DeserializedObject<Spec, Status> {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
}

impl<Spec, Status> DeserializedObject<Spec, Status> {
    /// Fails if the object declares another API version or kind than `K`.
    pub(crate) fn check_kind<K: Resource, E: Error>(&self) -> Result<(), E> {
        let is_other = |declared: &Option<String>, expected: &str| {
            declared.as_deref().is_some_and(|declared| declared != expected)
        };
        if is_other(&self.api_version, K::API_VERSION) || is_other(&self.kind, K::KIND) {
            let api_version = self.api_version.as_deref().unwrap_or_default();
            let kind = self.kind.as_deref().unwrap_or_default();
            return Err(E::custom(format_args!("expected {} {}, found {api_version} {kind}", K::API_VERSION, K::KIND)));
        }
        Ok(())
    }
}

/// Declares a kind: a struct with `metadata`, `spec` and `status`, its API names, and its JSON
/// form.
macro_rules! kind {
    (@field required $spec:ty) => { $spec };
    (@field optional $spec:ty) => { Option<$spec> };
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(#[$spec_meta:meta])*
            spec: $presence:ident $spec:ty,
            $(#[$status_meta:meta])*
            status: $status:ty,
        }
        $group:literal / $version:literal, $plural:literal, $scope:ident
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, ::schemars::JsonSchema)]
        #[schemars(rename_all = "camelCase")]
        pub struct $name {
            /// Standard object's metadata.
            #[schemars(with = "crate::schema::Metadata")]
            pub metadata: ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            $(#[$spec_meta])*
            pub spec: $crate::kind::kind!(@field $presence $spec),
            $(#[$status_meta])*
            pub status: Option<$status>,
        }

        impl ::k8s_openapi::Resource for $name {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = ::k8s_openapi::$scope;
        }

        impl ::k8s_openapi::ListableResource for $name {
            const LIST_KIND: &'static str = concat!(stringify!($name), "List");
        }

        impl ::k8s_openapi::Metadata for $name {
            type Ty = ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::kind::SerializedObject {
                    api_version: <Self as ::k8s_openapi::Resource>::API_VERSION,
                    kind: <Self as ::k8s_openapi::Resource>::KIND,
                    metadata: &self.metadata,
                    spec: Option::<&$spec>::from(&self.spec),
                    status: self.status.as_ref(),
                }
                .serialize(serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let object = $crate::kind::DeserializedObject::deserialize(deserializer)?;
                object.check_kind::<Self, D::Error>()?;
                Ok(Self { metadata: object.metadata, spec: object.spec, status: object.status })
            }
        }
    };
}

pub(crate) use kind;
