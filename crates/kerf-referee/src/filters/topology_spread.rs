//! Topology spread: the number of matching pods in the node's domain may exceed that of the domain
//! with the fewest by at most `maxSkew`.
//!
//! Domains are those of existing nodes that the constraint includes. A node that lacks the key of
//! any constraint of the pod is included in none. If there are fewer domains than `minDomains`, the
//! minimum is taken as zero.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};

use super::{ClusterView, FilterReason, NodeView};
use crate::placement::{is_terminating, spread_constraints, spread_includes_node, spread_selects};
use crate::selectors::node_labels;
use crate::taints::prevents_scheduling;

/// Matching pods per domain, for each spread constraint of one pod.
#[derive(Debug)]
pub(super) struct TopologySpreadFilter<'a> {
    constraints: Vec<(&'a TopologySpreadConstraint, BTreeMap<String, i64>)>,
}

impl<'a> TopologySpreadFilter<'a> {
    pub(super) fn new(pod: &'a Pod, cluster: &ClusterView<'_>) -> Self {
        let all: Vec<_> = spread_constraints(pod).collect();
        let counts = all.iter().map(|constraint| {
            let mut counts = BTreeMap::new();
            for node in &cluster.nodes {
                let labels = node_labels(node.node);
                let has_all_keys = all.iter().all(|constraint| labels.contains_key(&constraint.topology_key));
                let Some(domain) = labels.get(&constraint.topology_key) else { continue };
                if has_all_keys
                    && spread_includes_node(constraint, pod, node.name(), labels, node.taints(), prevents_scheduling)
                {
                    *counts.entry(domain.clone()).or_insert(0) += count_matching_pods(constraint, pod, node);
                }
            }
            (*constraint, counts)
        });
        Self { constraints: counts.collect() }
    }

    pub(super) fn reason(&self, pod: &Pod, node: &NodeView<'_>) -> Option<FilterReason> {
        let labels = node_labels(node.node);
        self.constraints.iter().find_map(|(constraint, counts)| {
            let key = constraint.topology_key.clone();
            let Some(domain) = labels.get(&key) else { return Some(FilterReason::SpreadLabelMissing { key }) };
            let too_few = counts.len() < usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(0);
            let minimum = if too_few { 0 } else { counts.values().copied().min().unwrap_or(0) };
            let self_count = i64::from(spread_selects(constraint, pod, pod));
            let count = counts.get(domain).copied().unwrap_or(0) + self_count;
            let max_skew = i64::from(constraint.max_skew);
            (count - minimum > max_skew).then(|| FilterReason::TopologySpread {
                key,
                domain: domain.clone(),
                count,
                minimum,
                max_skew,
            })
        })
    }
}

/// Counts the pods of a node that the constraint matches. A constraint that selects everything
/// counts no pod, as in kube-scheduler.
fn count_matching_pods(constraint: &TopologySpreadConstraint, pod: &Pod, node: &NodeView<'_>) -> i64 {
    let selector = constraint.label_selector.as_ref();
    let selects_everything = selector.is_some_and(|selector| {
        selector.match_labels.iter().flatten().next().is_none()
            && selector.match_expressions.iter().flatten().next().is_none()
            && constraint.match_label_keys.iter().flatten().next().is_none()
    });
    if selects_everything {
        return 0;
    }
    let counted = node.live_pods().filter(|other| !is_terminating(other) && spread_selects(constraint, pod, other));
    counted.count() as i64
}
