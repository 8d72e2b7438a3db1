//! Events have two faces, `v1` and `events.k8s.io/v1`, over one store: written through one they are read through the other. They
//! are kept in the form of `v1`.

use serde_json::{Map, Value, json};

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
    ("source", ""),
    ("type", ""),
];

/// The same fields in the same order, as the other face calls them: selectors are matched by place.
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
    ("deprecatedSource", ""),
    ("type", ""),
];

pub(super) const CORE_EVENT: KindStrategy = KindStrategy {
    default: default_core,
    validate: |event, _, errors| {
        let (own, regarded) = (object::namespace(event), object::text(event, &["involvedObject", "namespace"]));
        // What belongs to no namespace is told of in the default one.
        if regarded != own && !(regarded.is_empty() && own == "default") {
            errors.push(field::invalid("involvedObject.namespace", regarded, "does not match event.namespace"));
        }
    },
    ..NO_OP_STRATEGY
};
pub(super) const EVENTS_V1_EVENT: KindStrategy = NO_OP_STRATEGY;

/// How the fields of the two faces correspond, `v1` first.
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

/// An event as `events.k8s.io/v1` shows it.
pub(crate) fn core_event_to_events_v1(event: &Value) -> Value {
    let mut shown = rename(event, CORE_TO_EVENTS_V1_FIELDS.iter().copied());
    shown.insert("apiVersion".into(), "events.k8s.io/v1".into());
    shown.insert("kind".into(), "Event".into());
    for key in ["reportingController", "reportingInstance"] {
        if shown.get(key).is_some_and(|value| value == "") {
            shown.remove(key);
        }
    }
    shown.into()
}

/// An event as it is kept.
pub(crate) fn events_v1_event_to_core(event: &Value) -> Value {
    let mut kept = rename(event, CORE_TO_EVENTS_V1_FIELDS.iter().map(|(core, other)| (*other, *core)));
    kept.insert("apiVersion".into(), "v1".into());
    kept.insert("kind".into(), "Event".into());
    for key in ["involvedObject", "source"] {
        kept.entry(key).or_insert_with(|| json!({}));
    }
    kept.into()
}

fn rename<'a>(event: &Value, names: impl Iterator<Item = (&'a str, &'a str)>) -> Map<String, Value> {
    names.filter_map(|(from, to)| Some((to.to_string(), event.get(from)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reads_the_same_through_both_faces() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"},
            "note": "hello", "reason": "Started", "type": "Normal", "reportingController": "kubelet", "reportingInstance": "n1",
            "deprecatedSource": {}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Start",
        });
        let kept = events_v1_event_to_core(&new);
        assert_eq!(kept["involvedObject"]["name"], "p");
        assert_eq!(kept["message"], "hello");
        assert_eq!(core_event_to_events_v1(&kept), new);
    }
}
