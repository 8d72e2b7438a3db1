//! Label selectors and node selectors, as the Kubernetes documentation defines them.
//!
//! A selector is evaluated on the labels of one object. Sets of values are never intersected here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object: value by key.
pub type Labels = BTreeMap<String, String>;

/// Returns true if the label selector selects an object with these labels. An absent selector
/// selects nothing, an empty selector selects everything. A selector with an unknown operator
/// selects nothing.
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

/// Returns true if a label value satisfies one expression of a node selector; `None` means that the
/// label is absent. `Gt`, `Lt`, `Gte` and `Lte` compare integers: a label or bound that is not an
/// integer fails. `Gte` and `Lte` exist only in the requirements of NodePools and NodeClaims.
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

/// Returns true if the labels satisfy one expression of a node selector.
pub fn expression_matches(expression: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let label = labels.get(&expression.key).map(String::as_str);
    satisfies(label, &expression.operator, expression.values.as_deref().unwrap_or_default())
}

/// Returns true if a node matches a node selector term: all its expressions on labels and all its
/// expressions on fields match. The only field is `metadata.name`. An empty term matches no node.
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

/// Returns the terms of the pod's required node affinity, of which a node must match at least one.
/// Returns `None` if the pod requires no node affinity.
pub fn required_node_affinity_terms(pod: &Pod) -> Option<&[NodeSelectorTerm]> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let selector = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(&selector.node_selector_terms)
}

/// Returns true if a node with this name and these labels has every label of the pod's
/// `nodeSelector` and matches at least one term of its required node affinity, if it has one.
pub fn node_affinity_matches(pod: &Pod, name: &str, labels: &Labels) -> bool {
    node_selector(pod).all(|(key, value)| labels.get(key) == Some(value))
        && required_node_affinity_terms(pod)
            .is_none_or(|terms| terms.iter().any(|term| term_matches(term, name, labels)))
}

/// Returns the key-value pairs of the pod's `nodeSelector`.
pub fn node_selector(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.spec.as_ref().and_then(|spec| spec.node_selector.as_ref()).into_iter().flatten()
}

/// Returns the pod's labels, empty if it has none.
pub fn pod_labels(pod: &Pod) -> &Labels {
    labels_or_empty(pod.metadata.labels.as_ref())
}

/// Returns the node's labels, empty if it has none.
pub fn node_labels(node: &Node) -> &Labels {
    labels_or_empty(node.metadata.labels.as_ref())
}

/// Returns the labels, or an empty map for `None`.
pub fn labels_or_empty(labels: Option<&Labels>) -> &Labels {
    static NONE: Labels = Labels::new();
    labels.unwrap_or(&NONE)
}

#[cfg(test)]
mod tests;
