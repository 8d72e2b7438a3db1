//! The values of labels that NodePools of EC2 and pending pods name in an input.

use kerf_api::requirement::Operator;
use kerf_api::slim::Str;

use super::is_ec2_node_class;
use crate::input::Objects;

/// Largest number of names in one notice.
const NAMES_MAX: usize = 5;

/// Returns the values that NodePools of EC2 allow for a label.
pub(super) fn of_pools<'o>(objects: &'o Objects, key: &'o str) -> impl Iterator<Item = &'o str> {
    let pools = objects.node_pools.iter().map(|pool| &pool.object.spec.template.spec);
    pools
        .filter(|spec| is_ec2_node_class(&spec.node_class_ref))
        .flat_map(|spec| &spec.requirements)
        .filter(move |requirement| requirement.key == key && requirement.operator == Operator::In)
        .flat_map(|requirement| requirement.values.iter().flatten())
        .map(String::as_str)
}

/// Returns the values that pending pods require for a label, by selector or node affinity.
pub(super) fn of_pending_pods<'o>(objects: &'o Objects, key: &'o str) -> impl Iterator<Item = &'o str> {
    let pods = objects.pods.iter().map(|pod| &pod.object.spec).filter(|spec| spec.node_name.is_none());
    pods.flat_map(move |spec| {
        let affinity = spec.affinity.iter().flat_map(|affinity| affinity.node_affinity.required.iter().flatten());
        let expressions = affinity.flat_map(|term| &term.match_expressions);
        let of_affinity = expressions
            .filter(move |expression| expression.key == key && expression.operator == Operator::In)
            .flat_map(|expression| &expression.values);
        spec.node_selector.get(key).into_iter().chain(of_affinity.map(Str::as_str))
    })
}

/// Returns the names, at most [`NAMES_MAX`] of them, with the number of the others.
pub(super) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let text = names.take(NAMES_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}
