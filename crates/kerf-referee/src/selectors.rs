//! Label selectors and node selectors, as the Kubernetes documentation defines them.
//!
//! A selector is judged on the labels of one object; there is no algebra of sets here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Whether a label selector selects an object with these labels. An absent selector selects nothing, an empty one everything;
/// one with an unknown operator selects nothing.
pub fn selects(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let equal = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    selector.match_labels.iter().flatten().all(equal)
        && selector.match_expressions.iter().flatten().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            let label = labels.get(&expression.key);
            match expression.operator.as_str() {
                "In" => label.is_some_and(|value| values.contains(value)),
                "NotIn" => label.is_none_or(|value| !values.contains(value)),
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}

/// Whether a label (absent: `None`) satisfies one expression of a node selector. `Gt`, `Lt`, `Gte` and `Lte` compare whole
/// numbers; a label or bound that is none fails. `Gte` and `Lte` exist in NodePool and NodeClaim requirements only.
pub fn satisfies(label: Option<&str>, operator: &str, values: &[String]) -> bool {
    let numbers = || Some((label?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match operator {
        "In" => label.is_some_and(|label| values.iter().any(|value| value == label)),
        "NotIn" => label.is_none_or(|label| !values.iter().any(|value| value == label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => numbers().is_some_and(|(label, bound)| label > bound),
        "Lt" => numbers().is_some_and(|(label, bound)| label < bound),
        "Gte" => numbers().is_some_and(|(label, bound)| label >= bound),
        "Lte" => numbers().is_some_and(|(label, bound)| label <= bound),
        _ => false,
    }
}

/// Whether a node satisfies one expression about its labels.
pub fn expression_matches(expression: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let label = labels.get(&expression.key).map(String::as_str);
    satisfies(label, &expression.operator, expression.values.as_deref().unwrap_or_default())
}

/// Whether a node of this name with these labels matches a node selector term: all its expressions on labels and all those on
/// fields (of which there is one, `metadata.name`). A term that says nothing matches no node.
pub fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field_matches = |field: &NodeSelectorRequirement| {
        field.key == "metadata.name"
            && satisfies(Some(name), &field.operator, field.values.as_deref().unwrap_or_default())
    };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|expression| expression_matches(expression, labels))
        && fields.iter().all(field_matches)
}

/// The terms of which a node must match one, if the pod requires any.
pub fn required_node_affinity_terms(pod: &Pod) -> Option<&[NodeSelectorTerm]> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let selector = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(&selector.node_selector_terms)
}

/// Whether a node of this name with these labels is one that the pod asks for: it has every label of `nodeSelector`, and
/// matches at least one term of the required node affinity, if there is one.
pub fn node_affinity_matches(pod: &Pod, name: &str, labels: &Labels) -> bool {
    node_selector(pod).all(|(key, value)| labels.get(key) == Some(value))
        && required_node_affinity_terms(pod)
            .is_none_or(|terms| terms.iter().any(|term| term_matches(term, name, labels)))
}

/// The pairs of the pod's `nodeSelector`.
pub fn node_selector(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()).into_iter().flatten()
}

/// The labels of a pod.
pub fn pod_labels(pod: &Pod) -> &Labels {
    labels_or_empty(pod.metadata.labels.as_ref())
}

/// The labels of a node.
pub fn node_labels(node: &Node) -> &Labels {
    labels_or_empty(node.metadata.labels.as_ref())
}

/// Labels that may be absent as a whole.
pub fn labels_or_empty(labels: Option<&Labels>) -> &Labels {
    static NONE: Labels = Labels::new();
    labels.unwrap_or(&NONE)
}

#[cfg(test)]
mod tests;
