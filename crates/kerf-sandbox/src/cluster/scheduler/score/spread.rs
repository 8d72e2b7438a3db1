//! Scores of soft topology spread constraints (`ScheduleAnyway`). Pods of a Service or an owner
//! without constraints of their own get kube-scheduler's defaults: `maxSkew` 3 per host and 5 per
//! zone. Fewer selected pods in a node's domains are better. Keys with few domains weigh less.

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kerf_referee::placement::namespace;
use kerf_referee::selectors::{node_affinity_matches, required_node_affinity_terms};
use rustc_hash::FxHashMap;

use super::MAX_NODE_SCORE;
use crate::cluster::scheduler::filter::{counts_node, selected_classes};
use crate::cluster::scheduler::node::{HOSTNAME, NodeInfo, ZONE};
use crate::cluster::scheduler::view::{NodeIx, View};

struct SoftConstraint<'a> {
    key: &'a str,
    max_skew: i64,
    weight: f64,
    /// Number of selected pods in each domain of the candidate nodes. Unused if the key is the
    /// hostname.
    domains: FxHashMap<&'a str, i64>,
    /// Number of selected pods by node slot.
    on_node: Vec<i64>,
}

/// Returns the score of each node; `None` if the pod has no soft constraint.
pub(super) fn scores(view: &View, pod: &Pod, nodes: &[NodeIx]) -> Option<Vec<i64>> {
    let own = pod.spec.as_ref().and_then(|spec| spec.topology_spread_constraints.as_deref()).unwrap_or_default();
    let defaults = if own.is_empty() { default_constraints(view, pod) } else { Vec::new() };
    let has_own_constraints = !own.is_empty();
    let constraints: Vec<&TopologySpreadConstraint> =
        own.iter().chain(&defaults).filter(|c| c.when_unsatisfiable == "ScheduleAnyway").collect();
    if constraints.is_empty() {
        return None;
    }
    // Nodes without one of the keys are not scored, unless the constraints are the defaults.
    let scored =
        |node: &NodeInfo| !has_own_constraints || constraints.iter().all(|c| node.labels.contains_key(&c.topology_key));
    let candidates = nodes.iter().filter(|node| scored(view.node(**node))).count();
    let affinity_matches = affinity_matches(view, pod);
    let soft_constraints: Vec<SoftConstraint<'_>> = constraints
        .iter()
        .map(|constraint| {
            let mut soft = soft_constraint(view, pod, nodes, constraint, &scored, affinity_matches.as_deref());
            let size = if constraint.topology_key == HOSTNAME { candidates } else { soft.domains.len() };
            soft.weight = ((size + 2) as f64).ln();
            soft
        })
        .collect();
    let raw: Vec<Option<i64>> = nodes
        .iter()
        .map(|node| scored(view.node(*node)).then(|| spread_penalty(&soft_constraints, *node, view.node(*node))))
        .collect();
    let lowest = raw.iter().flatten().copied().min().unwrap_or_default();
    let highest = raw.iter().flatten().copied().max().unwrap_or_default();
    let score = |raw: Option<i64>| match raw {
        None => 0,
        Some(_) if highest == 0 => MAX_NODE_SCORE,
        Some(raw) => MAX_NODE_SCORE * (highest + lowest - raw) / highest,
    };
    Some(raw.into_iter().map(score).collect())
}

fn spread_penalty(soft_constraints: &[SoftConstraint<'_>], node_ix: NodeIx, node: &NodeInfo) -> i64 {
    let mut sum = 0.0;
    for soft in soft_constraints {
        let Some(domain) = node.labels.get(soft.key) else { continue };
        let count = if soft.key == HOSTNAME {
            soft.on_node[node_ix.index()]
        } else {
            soft.domains.get(domain.as_str()).copied().unwrap_or_default()
        };
        sum += count as f64 * soft.weight + (soft.max_skew - 1) as f64;
    }
    sum.round() as i64
}

fn soft_constraint<'a>(
    view: &'a View,
    pod: &Pod,
    nodes: &[NodeIx],
    constraint: &'a TopologySpreadConstraint,
    scored: &dyn Fn(&NodeInfo) -> bool,
    affinity_matches: Option<&[bool]>,
) -> SoftConstraint<'a> {
    let key = constraint.topology_key.as_str();
    let mut domains: FxHashMap<&'a str, i64> = FxHashMap::default();
    if key != HOSTNAME {
        for node in nodes.iter().map(|node| view.node(*node)).filter(|node| scored(node)) {
            domains.entry(node.labels.get(key).map_or("", String::as_str)).or_default();
        }
    }
    let mut on_node = vec![0; view.slot_count()];
    for class in selected_classes(view, namespace(pod), constraint.label_selector.as_ref()) {
        for (node, count) in &class.nodes {
            let info = view.node(*node);
            let not_deleting = i64::from(count.not_deleting);
            on_node[node.index()] += not_deleting;
            if key != HOSTNAME
                && info.exists
                && scored(info)
                && counts_node(constraint, pod, *node, info, affinity_matches)
            {
                let domain = info.labels.get(key).map_or("", String::as_str);
                if let Some(count) = domains.get_mut(domain) {
                    *count += not_deleting;
                }
            }
        }
    }
    SoftConstraint { key, max_skew: i64::from(constraint.max_skew), weight: 0.0, domains, on_node }
}

fn affinity_matches(view: &View, pod: &Pod) -> Option<Vec<bool>> {
    let has_node_rules = pod.spec.as_ref().is_some_and(|spec| spec.node_selector.is_some())
        || required_node_affinity_terms(pod).is_some();
    has_node_rules.then(|| {
        let mut matches = vec![false; view.slot_count()];
        for node in view.existing_nodes() {
            let info = view.node(node);
            matches[node.index()] = node_affinity_matches(pod, &info.name, &info.labels);
        }
        matches
    })
}

/// Returns the default constraints of a pod that belongs to a Service or an owner.
fn default_constraints(view: &View, pod: &Pod) -> Vec<TopologySpreadConstraint> {
    let Some(selector) = view.workloads.default_spread_selector(pod) else { return Vec::new() };
    let default_constraint = |key: &str, max_skew: i32, selector: LabelSelector| TopologySpreadConstraint {
        topology_key: key.to_owned(),
        max_skew,
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(selector),
        ..TopologySpreadConstraint::default()
    };
    vec![default_constraint(HOSTNAME, 3, selector.clone()), default_constraint(ZONE, 5, selector)]
}
