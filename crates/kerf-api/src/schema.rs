//! Building blocks for the schemas of types: shared patterns, CEL rules, and substitutes for types
//! of other crates.
//!
//! The schema of a field is declared at the field: its type and doc comment give most of it, and
//! `#[schemars(extend(...))]` adds Kubernetes keywords. `crds` converts the result to a structural
//! schema and checks it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Label key with an optional DNS prefix. Also used for taint keys and values.
pub(crate) const QUALIFIED_KEY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Label value; its length is limited separately.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Quantity. The pattern accepts more than the parser (`1e1.5`).
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// Hours, minutes and seconds, in any order and number.
pub(crate) const DURATION: &str = "^([0-9]+(s|m|h))+$";
/// Pattern of [`DURATION`] that also accepts `Never`.
pub(crate) const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";

/// CEL rule for the API server, with the message for the user if the rule is violated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CelRule {
    pub(crate) message: Cow<'static, str>,
    pub(crate) rule: Cow<'static, str>,
}

/// Creates a rule from constant texts.
pub(crate) const fn rule(rule: &'static str, message: &'static str) -> CelRule {
    CelRule { message: Cow::Borrowed(message), rule: Cow::Borrowed(rule) }
}

/// Marks the position of label keys in a schema. The restricted keys depend on the provider, so
/// `crds` inserts the rules when it generates the CRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LabelKeys {
    /// Keys of the labels of a NodePool's template.
    TemplateLabels,
    /// Key of a requirement of a NodePool.
    NodePool,
    /// Key of a requirement of a NodeClaim.
    NodeClaim,
    /// Key of a requirement of a NodeOverlay.
    NodeOverlay,
}

impl LabelKeys {
    /// Schema keyword that holds the mark until the CRD is generated.
    pub(crate) const MARKER: &'static str = "x-kerf-label-keys";
}

/// Declares a type that only stands for a schema, for fields whose Rust type has no suitable
/// schema.
macro_rules! stand_in {
    ($(#[$meta:meta])* $name:ident = $schema:tt) => {
        $(#[$meta])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

stand_in! {
    /// Point in time.
    DateTime = { "type": "string", "format": "date-time" }
}
stand_in! {
    /// Integer without a format; its bounds are given separately.
    Integer = { "type": "integer" }
}
stand_in! {
    /// Label value with its maximum length and pattern.
    LabelValue = { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE }
}
stand_in! {
    /// Object metadata, whose schema the API server adds.
    Metadata = { "type": "object" }
}
stand_in! {
    /// Object whose unknown fields are all kept.
    OpenObject = {
        "type": "object",
        "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-preserve-unknown-fields": true,
    }
}
