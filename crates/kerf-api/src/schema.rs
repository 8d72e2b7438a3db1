//! The vocabulary in which the types describe their schema: shared patterns, CEL rules, and stand-ins for foreign types.
//!
//! Every field's schema stands at the field: its type and doc comment say most of it, `#[schemars(extend(...))]` adds the
//! Kubernetes keywords in their own spelling. `crds` turns the result into a structural schema and checks that it is one.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

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
pub(crate) struct Rule {
    pub(crate) message: Cow<'static, str>,
    pub(crate) rule: Cow<'static, str>,
}

/// A rule of constant text.
pub(crate) const fn rule(rule: &'static str, message: &'static str) -> Rule {
    Rule { message: Cow::Borrowed(message), rule: Cow::Borrowed(rule) }
}

/// The schema of a point in time, for fields whose Rust type is not ours.
pub(crate) struct DateTime;

impl JsonSchema for DateTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DateTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
