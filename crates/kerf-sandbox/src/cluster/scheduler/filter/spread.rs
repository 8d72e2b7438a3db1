//! Required topology spread constraints. The number of selected pods in the node's domain may
//! exceed that of the domain with the fewest by at most `maxSkew`. With fewer domains than
//! `minDomains` that minimum counts as zero.

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kerf_referee::placement::{namespace, spread_constraints, spread_selects};
use kerf_referee::selectors::selects;
use kerf_referee::taints::first_untolerated_taint;
use rustc_hash::FxHashMap;

use super::{FilterRejection, Plugin};
use crate::cluster::scheduler::classes::PodClass;
use crate::cluster::scheduler::node::NodeInfo;
use crate::cluster::scheduler::view::{NodeIx, View};

/// The required spread constraints of one pod, with the counts of their domains.
pub(super) struct SpreadFilter<'a> {
    constraints: Vec<CountedConstraint<'a>>,
}

struct CountedConstraint<'a> {
    constraint: &'a TopologySpreadConstraint,
    /// Number of selected pods in each domain.
    domains: FxHashMap<&'a str, i64>,
    /// The smallest of these numbers.
    minimum: i64,
    /// 1 if the constraint selects the pod itself, else 0.
    self_match: i64,
}

impl<'a> SpreadFilter<'a> {
    pub(super) fn new(view: &'a View, pod: &'a Pod, affinity_matches: Option<&[bool]>) -> Self {
        let all: Vec<&TopologySpreadConstraint> = spread_constraints(pod).collect();
        let constraints =
            all.iter().map(|constraint| count_constraint(view, pod, affinity_matches, &all, constraint)).collect();
        Self { constraints }
    }

    pub(super) fn check(&self, node: &NodeInfo) -> Result<(), FilterRejection> {
        for counted in &self.constraints {
            let Some(domain) = node.labels.get(&counted.constraint.topology_key) else {
                let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Err(FilterRejection::unresolvable(Plugin::PodTopologySpread, reason));
            };
            let count = counted.domains.get(domain.as_str()).copied().unwrap_or_default();
            if count + counted.self_match - counted.minimum > i64::from(counted.constraint.max_skew) {
                let reason = "node(s) didn't match pod topology spread constraints";
                return Err(FilterRejection::resolvable(Plugin::PodTopologySpread, reason));
            }
        }
        Ok(())
    }
}

fn count_constraint<'a>(
    view: &'a View,
    pod: &'a Pod,
    affinity_matches: Option<&[bool]>,
    all: &[&'a TopologySpreadConstraint],
    constraint: &'a TopologySpreadConstraint,
) -> CountedConstraint<'a> {
    let mut domains: FxHashMap<&'a str, i64> = FxHashMap::default();
    let mut domain_of: Vec<Option<&'a str>> = vec![None; view.slot_count()];
    for node in view.existing_nodes() {
        let info = view.node(node);
        let has_all_keys = all.iter().all(|constraint| info.labels.contains_key(&constraint.topology_key));
        if has_all_keys && counts_node(constraint, pod, node, info, affinity_matches) {
            let domain = info.labels.get(&constraint.topology_key).map(String::as_str);
            domain_of[node.index()] = domain;
            domains.entry(domain.unwrap_or_default()).or_default();
        }
    }
    for class in selected_classes(view, namespace(pod), constraint.label_selector.as_ref()) {
        for (node, count) in &class.nodes {
            if let Some(domain) = domain_of[node.index()] {
                *domains.entry(domain).or_default() += i64::from(count.not_deleting);
            }
        }
    }
    let has_too_few_domains = domains.len() < usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or_default();
    let minimum = if has_too_few_domains { 0 } else { domains.values().copied().min().unwrap_or_default() };
    CountedConstraint { constraint, domains, minimum, self_match: i64::from(spread_selects(constraint, pod, pod)) }
}

/// Returns the classes of a namespace that a constraint counts. A selector that selects everything
/// counts no pods, as in kube-scheduler.
pub(in crate::cluster::scheduler) fn selected_classes<'a>(
    view: &'a View,
    namespace: &str,
    selector: Option<&'a LabelSelector>,
) -> impl Iterator<Item = &'a PodClass> {
    let is_selective = selector.is_some_and(|selector| {
        selector.match_labels.iter().flatten().next().is_some()
            || selector.match_expressions.iter().flatten().next().is_some()
    });
    let classes = view.classes.in_namespace(namespace);
    classes.filter(move |class| is_selective && selects(selector, &class.labels))
}

/// Returns true if the constraint counts pods on the node. By default it counts only nodes that
/// match the pod's node selector and affinity, and ignores taints.
pub(in crate::cluster::scheduler) fn counts_node(
    constraint: &TopologySpreadConstraint,
    pod: &Pod,
    node: NodeIx,
    info: &NodeInfo,
    affinity_matches: Option<&[bool]>,
) -> bool {
    let ignores_affinity = constraint.node_affinity_policy.as_deref() == Some("Ignore");
    let honours_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    (ignores_affinity || affinity_matches.is_none_or(|matches| matches[node.index()]))
        && (!honours_taints || first_untolerated_taint(pod, &info.taints).is_none())
}
