//! Events, which are served as `v1` and as `events.k8s.io/v1` from one table. An Event that was
//! written in one version can be read in the other. Events are stored in the form of `v1`.

use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::{KindStrategy, NO_OP_STRATEGY};
use crate::api::field;
use crate::api::object;

pub(super) const CORE_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.kind", ""),
    ("involvedObject.namespace", ""),
    ("involvedObject.name", ""),
    ("involvedObject.uid", ""),
    ("involvedObject.apiVersion", ""),
    ("involvedObject.resourceVersion", ""),
    ("involvedObject.fieldPath", ""),
    ("reason", ""),
    ("reportingComponent", ""),
    ("type", ""),
    ("source", ""),
];

/// The fields of [`CORE_FIELDS`] under their names in `events.k8s.io/v1`, which has no name for the
/// last one. The order must be equal: selectors match by position.
pub(super) const EVENTS_V1_FIELDS: &[(&str, &str)] = &[
    ("regarding.kind", ""),
    ("regarding.namespace", ""),
    ("regarding.name", ""),
    ("regarding.uid", ""),
    ("regarding.apiVersion", ""),
    ("regarding.resourceVersion", ""),
    ("regarding.fieldPath", ""),
    ("reason", ""),
    ("reportingController", ""),
    ("type", ""),
];

pub(super) const CORE_EVENT: KindStrategy = KindStrategy {
    default: default_core,
    validate: |event, _, errors| {
        let (event_namespace, involved_namespace) =
            (object::namespace(event), object::text(event, &["involvedObject", "namespace"]));
        // Events about cluster-scoped objects are in the namespace `default`.
        if involved_namespace != event_namespace && !(involved_namespace.is_empty() && event_namespace == "default") {
            errors.push(field::invalid(
                "involvedObject.namespace",
                involved_namespace,
                "does not match event.namespace",
            ));
        }
    },
    ..NO_OP_STRATEGY
};
pub(super) const EVENTS_V1_EVENT: KindStrategy = NO_OP_STRATEGY;

/// Field names in `v1` and the corresponding names in `events.k8s.io/v1`.
const CORE_TO_EVENTS_V1_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("action", "action"),
    ("eventTime", "eventTime"),
    ("reason", "reason"),
    ("related", "related"),
    ("series", "series"),
    ("type", "type"),
    ("metadata", "metadata"),
];

fn default_core(event: &mut Value) {
    let event = object::ensure_object(event, &[]);
    event.entry("reportingComponent").or_insert_with(|| "".into());
    event.entry("reportingInstance").or_insert_with(|| "".into());
}

/// Returns the values of [`CORE_FIELDS`] of a stored Event, in whichever version it was written.
pub(crate) fn selectable_values(stored: &Value) -> impl Iterator<Item = SmolStr> + '_ {
    CORE_FIELDS.iter().map(move |(path, missing)| {
        let text = match *path {
            "source" => match object::text(stored, &["source", "component"]) {
                "" => object::text(stored, &["reportingComponent"]),
                component => component,
            },
            path => {
                path.split('.').try_fold(stored, |value, key| value.get(key)).and_then(Value::as_str).unwrap_or(missing)
            }
        };
        text.into()
    })
}

/// Converts a stored Event to `events.k8s.io/v1`.
pub(crate) fn core_event_to_events_v1(event: &Value) -> Value {
    let mut served = rename(event, CORE_TO_EVENTS_V1_FIELDS.iter().copied());
    served.insert("apiVersion".into(), "events.k8s.io/v1".into());
    served.insert("kind".into(), "Event".into());
    for key in ["reportingController", "reportingInstance"] {
        if served.get(key).is_some_and(|value| value == "") {
            served.remove(key);
        }
    }
    served.into()
}

/// Converts an Event of `events.k8s.io/v1` to the stored form.
pub(crate) fn events_v1_event_to_core(event: &Value) -> Value {
    let mut stored = rename(event, CORE_TO_EVENTS_V1_FIELDS.iter().map(|(core, other)| (*other, *core)));
    stored.insert("apiVersion".into(), "v1".into());
    stored.insert("kind".into(), "Event".into());
    for key in ["involvedObject", "source"] {
        stored.entry(key).or_insert_with(|| json!({}));
    }
    stored.into()
}

fn rename<'a>(event: &Value, names: impl Iterator<Item = (&'a str, &'a str)>) -> Map<String, Value> {
    names.filter_map(|(from, to)| Some((to.to_string(), event.get(from)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_the_same_in_both_api_versions() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"},
            "note": "hello", "reason": "Started", "type": "Normal", "reportingController": "kubelet", "reportingInstance": "n1",
            "deprecatedSource": {}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Start",
        });
        let stored = events_v1_event_to_core(&new);
        assert_eq!(stored["involvedObject"]["name"], "p");
        assert_eq!(stored["message"], "hello");
        assert_eq!(core_event_to_events_v1(&stored), new);
    }

    #[test]
    fn both_api_versions_name_the_same_selectable_fields() {
        for ((core, _), (newer, _)) in CORE_FIELDS.iter().zip(EVENTS_V1_FIELDS) {
            let (first, rest) = core.split_once('.').unwrap_or((core, ""));
            let renamed = CORE_TO_EVENTS_V1_FIELDS.iter().find(|(from, _)| *from == first).map(|(_, to)| *to);
            let expected = renamed.map(|to| if rest.is_empty() { to.to_owned() } else { format!("{to}.{rest}") });
            assert_eq!(expected.as_deref(), Some(*newer), "{core}");
        }
        assert_eq!(CORE_FIELDS.len(), EVENTS_V1_FIELDS.len() + 1);
    }
}
