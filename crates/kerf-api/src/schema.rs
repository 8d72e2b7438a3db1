//! The vocabulary in which the types describe their schema: shared patterns, CEL rules, and stand-ins for foreign types.
//!
//! Every field's schema stands at the field: its type and doc comment say most of it, `#[schemars(extend(...))]` adds the
//! Kubernetes keywords in their own spelling. `crds` turns the result into a structural schema and checks that it is one.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A label key with an optional DNS prefix. Also used for taint keys and values.
pub(crate) const QUALIFIED_KEY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value, without its length.
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// A quantity; looser than what parses as one (`1e1.5`).
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
/// Hours, minutes and seconds in any order and number.
pub(crate) const DURATION: &str = "^([0-9]+(s|m|h))+$";
/// [`DURATION`], or `Never`.
pub(crate) const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";

/// A CEL rule that the API server evaluates, with the text that a user reads when it does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CelRule {
    pub(crate) message: Cow<'static, str>,
    pub(crate) rule: Cow<'static, str>,
}

/// A rule of constant text.
pub(crate) const fn rule(rule: &'static str, message: &'static str) -> CelRule {
    CelRule { message: Cow::Borrowed(message), rule: Cow::Borrowed(rule) }
}

/// Marks where label keys stand in a schema. Which keys are refused there depends on the provider, so the rules themselves are
/// put in when the CRD is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LabelKeys {
    /// Keys of a map of labels on a NodePool's template.
    TemplateLabels,
    /// The key of a requirement of a NodePool.
    NodePool,
    /// The key of a requirement of a NodeClaim.
    NodeClaim,
    /// The key of a requirement of a NodeOverlay.
    NodeOverlay,
}

impl LabelKeys {
    /// The keyword under which the mark stands until the CRD is made.
    pub(crate) const MARKER: &'static str = "x-kerf-label-keys";
}

/// Declares a type that only stands for a schema, for fields whose Rust type is foreign or says too much.
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
    /// A point in time.
    DateTime = { "type": "string", "format": "date-time" }
}
stand_in! {
    /// An integer whose bounds say all about its size.
    Integer = { "type": "integer" }
}
stand_in! {
    /// The value of a label.
    LabelValue = { "type": "string", "maxLength": 63, "pattern": LABEL_VALUE }
}
stand_in! {
    /// Metadata, whose schema the API server knows better.
    Metadata = { "type": "object" }
}
stand_in! {
    /// An object of which every field is kept, whatever it is.
    OpenObject = {
        "type": "object",
        "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true },
        "x-kubernetes-preserve-unknown-fields": true,
    }
}
