//! The text of a relaxation (spec 02 §6.4): the removed or added field, and its value as in the
//! API.

use kerf_api::slim::{
    LabelSelector, LabelSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
    PreferredSchedulingTerm, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use kerf_engine::Relaxation;
use serde_json::{Map, Value, json};

/// Returns the field that is removed or added, and its value.
pub(super) fn text(relaxation: &Relaxation) -> String {
    match relaxation {
        Relaxation::RequiredNodeAffinityTerm(term) => format!(
            "removing: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]={}",
            node_term(term)
        ),
        Relaxation::PodAffinity(term) => format!(
            "removing: spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={}",
            weighted(term)
        ),
        Relaxation::PodAntiAffinity(term) => format!(
            "removing: spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={}",
            weighted(term)
        ),
        Relaxation::NodeAffinity(PreferredSchedulingTerm { weight, preference }) => format!(
            "removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={}",
            json!({"weight": weight, "preference": node_term(preference)})
        ),
        Relaxation::Spread(constraint) => {
            format!("removing: spec.topologySpreadConstraints = {}", spread(constraint))
        }
        Relaxation::PreferNoSchedule => "adding: toleration for PreferNoSchedule taints".to_owned(),
    }
}

/// Builds an object from the fields that have a value.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<String, Value>>())
}

/// Builds an array. Returns `None` if it would be empty.
fn list(values: impl IntoIterator<Item = Value>) -> Option<Value> {
    let values: Vec<Value> = values.into_iter().collect();
    (!values.is_empty()).then_some(Value::Array(values))
}

fn node_term(term: &NodeSelectorTerm) -> Value {
    let expression = |requirement: &NodeSelectorRequirement| {
        let values = list(requirement.values.iter().map(|value| json!(value)));
        object([
            ("key", Some(json!(requirement.key))),
            ("operator", Some(json!(requirement.operator))),
            ("values", values),
        ])
    };
    object([
        ("matchExpressions", list(term.match_expressions.iter().map(expression))),
        ("matchFields", list(term.match_fields.iter().map(expression))),
    ])
}

fn weighted(term: &WeightedPodAffinityTerm) -> Value {
    json!({"weight": term.weight, "podAffinityTerm": pod_term(&term.pod_affinity_term)})
}

fn pod_term(term: &PodAffinityTerm) -> Value {
    object([
        ("labelSelector", term.label_selector.as_ref().map(selector)),
        ("namespaces", list(term.namespaces.iter().map(|name| json!(name)))),
        ("namespaceSelector", term.namespace_selector.as_ref().map(selector)),
        ("topologyKey", Some(json!(term.topology_key))),
    ])
}

fn spread(constraint: &TopologySpreadConstraint) -> Value {
    object([
        ("maxSkew", Some(json!(constraint.max_skew))),
        ("topologyKey", Some(json!(constraint.topology_key))),
        ("whenUnsatisfiable", Some(json!(format!("{:?}", constraint.when_unsatisfiable)))),
        ("labelSelector", constraint.label_selector.as_ref().map(selector)),
        ("minDomains", constraint.min_domains.map(Value::from)),
        ("nodeAffinityPolicy", constraint.node_affinity_policy.map(|policy| json!(format!("{policy:?}")))),
        ("nodeTaintsPolicy", constraint.node_taints_policy.map(|policy| json!(format!("{policy:?}")))),
        ("matchLabelKeys", list(constraint.match_label_keys.iter().map(|key| json!(key)))),
    ])
}

fn selector(selector: &LabelSelector) -> Value {
    let labels: Map<String, Value> =
        selector.match_labels.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    let expressions = selector.match_expressions.iter().map(|requirement| {
        let values = list(requirement.values.iter().map(|value| json!(value)));
        object([
            ("key", Some(json!(requirement.key))),
            ("operator", Some(json!(operator(&requirement.operator)))),
            ("values", values),
        ])
    });
    let labels = (!labels.is_empty()).then_some(Value::Object(labels));
    object([("matchLabels", labels), ("matchExpressions", list(expressions))])
}

fn operator(operator: &LabelSelectorOperator) -> &str {
    match operator {
        LabelSelectorOperator::In => "In",
        LabelSelectorOperator::NotIn => "NotIn",
        LabelSelectorOperator::Exists => "Exists",
        LabelSelectorOperator::DoesNotExist => "DoesNotExist",
        LabelSelectorOperator::Unsupported(other) => other,
    }
}

#[cfg(test)]
mod tests {
    use kerf_api::slim::{LabelSelectorRequirement, NodeSelectorOperator, Str, WhenUnsatisfiable};

    use super::*;

    // spec 02 §6.4
    #[test]
    fn every_relaxation_names_its_field_and_value() {
        let requirement = |operator, values: &[&'static str]| NodeSelectorRequirement {
            key: Str::new_static("zone"),
            operator,
            values: values.iter().map(|value| Str::new_static(value)).collect(),
        };
        let node = |operator, values: &[&'static str]| NodeSelectorTerm {
            match_expressions: vec![requirement(operator, values)],
            match_fields: Vec::new(),
        };
        let labels = LabelSelector {
            match_labels: [(Str::new_static("app"), Str::new_static("web"))].into_iter().collect(),
            match_expressions: vec![LabelSelectorRequirement {
                key: Str::new_static("tier"),
                operator: LabelSelectorOperator::Exists,
                values: Vec::new(),
            }],
        };
        let affinity = WeightedPodAffinityTerm {
            weight: 7,
            pod_affinity_term: PodAffinityTerm {
                label_selector: Some(labels.clone()),
                topology_key: Str::new_static("host"),
                ..PodAffinityTerm::default()
            },
        };
        let spread = TopologySpreadConstraint {
            max_skew: 1,
            topology_key: Str::new_static("zone"),
            when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
            label_selector: Some(LabelSelector::default()),
            ..TopologySpreadConstraint::default()
        };
        let texts = [
            Relaxation::RequiredNodeAffinityTerm(node(NodeSelectorOperator::In, &["a", "b"])),
            Relaxation::PodAffinity(affinity.clone()),
            Relaxation::PodAntiAffinity(affinity),
            Relaxation::NodeAffinity(PreferredSchedulingTerm {
                weight: 3,
                preference: node(NodeSelectorOperator::DoesNotExist, &[]),
            }),
            Relaxation::Spread(spread),
            Relaxation::PreferNoSchedule,
        ]
        .map(|relaxation| text(&relaxation));
        let term = r#"{"podAffinityTerm":{"labelSelector":{"matchExpressions":[{"key":"tier","operator":"Exists"}],"matchLabels":{"app":"web"}},"topologyKey":"host"},"weight":7}"#;
        assert_eq!(
            texts,
            [
                r#"removing: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]={"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}]}"#.to_owned(),
                format!("removing: spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={term}"),
                format!("removing: spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={term}"),
                r#"removing: spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]={"preference":{"matchExpressions":[{"key":"zone","operator":"DoesNotExist"}]},"weight":3}"#.to_owned(),
                r#"removing: spec.topologySpreadConstraints = {"labelSelector":{},"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}"#.to_owned(),
                "adding: toleration for PreferNoSchedule taints".to_owned(),
            ]
        );
    }
}
