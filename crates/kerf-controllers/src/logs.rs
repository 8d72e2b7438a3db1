//! Log lines as operators read them (spec 07 §7): one JSON object a line, or the same as text for a terminal. Keys and messages are
//! contract. Controllers write `tracing` events inside the span of their reconcile (`span`); this module gives them their form.
//! Invariants: every line of the JSON form is one object with `level`, `time`, `logger` and `message`; a line that repeats too fast is
//! sampled; nothing else of the program's dependencies reaches the log above debug level.

mod layer;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

use kerf_api::slim::Str;
use serde::Serialize;
use tracing::Span;

pub use layer::{Level, LineFormat, LogLayer, LogSettings};

/// A kind as the log names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
}

impl ObjectKind {
    /// The names of a type that knows them.
    pub const fn of<K: k8s_openapi::Resource>() -> Self {
        Self { group: K::GROUP, kind: K::KIND }
    }
}

/// The commit that was built, as far as the build knows.
pub const COMMIT: &str = match option_env!("KERF_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What marks a field's text as JSON for the layer. No text of ours starts with it.
const JSON_MARK: char = '\u{1}';

/// A value of a field that is more than a text: `NodeClaim = %json(…)`.
pub fn json<T: Serialize>(value: T) -> impl fmt::Display {
    Json(value)
}

/// A reference to an object without a namespace.
pub fn reference(name: &str) -> impl fmt::Display {
    json(serde_json::json!({ "name": name }))
}

/// A reference to an object in a namespace.
pub fn namespaced_reference(namespace: &str, name: &str) -> impl fmt::Display {
    json(serde_json::json!({ "name": name, "namespace": namespace }))
}

/// A reference to an object by its key, `namespace/name` or a name alone.
pub fn key_reference(key: &str) -> impl fmt::Display {
    match key.split_once('/') {
        Some((namespace, name)) => json(serde_json::json!({ "name": name, "namespace": namespace })),
        None => json(serde_json::json!({ "name": key })),
    }
}

/// `a, b, c, d, e and 2 other(s)`.
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
        // What cannot be written as JSON is shown as nothing rather than as half of something.
        write!(f, "{JSON_MARK}{}", serde_json::to_string(&self.0).unwrap_or_else(|_| "null".to_owned()))
    }
}

/// The span of one reconcile: every line inside says whose it is.
pub(crate) fn span(controller: &'static str, kind: Option<ObjectKind>, key: &Str, reconcile_id: &str) -> Span {
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
