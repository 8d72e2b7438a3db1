//! Log lines for operators (spec 07 §7): one JSON object per line, or text for a terminal. Keys and
//! messages must not change: users parse them. Controllers write `tracing` events inside the span
//! of their reconcile (`span`); this module formats them.
//! Invariants: every JSON line is one object with `level`, `time`, `logger` and `message`. Lines
//! that repeat too fast are sampled. Events of dependencies are logged at debug level only.

mod capture;
mod layer;
#[cfg(test)]
mod tests;

use std::fmt;

use kerf_api::slim::Str;
use serde::Serialize;
use tracing::Span;

use crate::controller::ControllerName;
pub use crate::controller::ObjectKind;

pub use capture::{CapturedLog, capturing_subscriber};
pub use layer::{Level, LineFormat, LogLayer, LogSettings};

/// The commit that was built; `unknown` if the build script did not set it.
pub const COMMIT: &str = match option_env!("KERF_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Name of the field whose JSON object the layer writes as separate fields. `tracing` knows only
/// fields whose names are constants, and the fields of an error are not.
pub(crate) const EXTRA_FIELDS: &str = "extra-fields";

/// Prefix that marks a field's text as JSON for the layer. No logged text starts with it.
const JSON_MARK: char = '\u{1}';

/// Wraps a value that is logged as JSON instead of as a string: `NodeClaim = %json(…)`.
pub fn json<T: Serialize>(value: T) -> impl fmt::Display {
    Json(value)
}

/// Returns a log field that refers to a cluster-scoped object.
pub fn reference(name: &str) -> impl fmt::Display {
    json(serde_json::json!({ "name": name }))
}

/// Returns a log field that refers to a namespaced object.
pub fn namespaced_reference(namespace: &str, name: &str) -> impl fmt::Display {
    json(serde_json::json!({ "name": name, "namespace": namespace }))
}

/// Returns a log field that refers to an object by its key, `namespace/name` or `name`.
pub fn key_reference(key: &str) -> impl fmt::Display {
    match key.split_once('/') {
        Some((namespace, name)) => json(serde_json::json!({ "name": name, "namespace": namespace })),
        None => json(serde_json::json!({ "name": key })),
    }
}

/// Joins at most `max` names and counts the rest: `a, b, c, d, e and 2 other(s)`.
pub fn join_names_truncated(names: &[&str], max: usize) -> String {
    let listed = names[..names.len().min(max)].join(", ");
    match names.len().saturating_sub(max) {
        0 => listed,
        more => format!("{listed} and {more} other(s)"),
    }
}

struct Json<T>(T);

impl<T: Serialize> fmt::Display for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value that cannot be serialized is logged as null rather than as incomplete JSON.
        write!(f, "{JSON_MARK}{}", serde_json::to_string(&self.0).unwrap_or_else(|_| "null".to_owned()))
    }
}

/// Creates the span of one reconcile. Every line inside it names the controller and the object.
pub(crate) fn span(controller: ControllerName, key: &Str, reconcile_id: &str) -> Span {
    let ControllerName { name: controller, kind } = controller;
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    match kind {
        Some(ObjectKind { group, kind }) => tracing::error_span!(
            "reconcile",
            controller,
            controllerGroup = group,
            controllerKind = kind,
            namespace,
            name,
            reconcileID = reconcile_id
        ),
        None => tracing::error_span!("reconcile", controller, namespace = "", name = "", reconcileID = reconcile_id),
    }
}
