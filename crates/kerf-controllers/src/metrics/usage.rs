//! Sums of the requests and limits of the pods on each node, computed when `/metrics` is requested
//! (spec 04 §13.1). A cluster of 100,000 pods costs nothing between two requests, and no sum can
//! differ from the pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::quantity::Quantity;
use kerf_api::slim::{Pod, ResourceList, Str};
use kerf_engine::{pod_limits, pod_requests};

/// Amounts by resource.
pub(super) type Sums = BTreeMap<Str, Quantity>;

/// The requests and limits of the pods on a node.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) requests: Sums,
    pub(super) limits: Sums,
    pub(super) daemon_requests: Sums,
    pub(super) daemon_limits: Sums,
}

/// A gauge of nodes: name, help text, and the function that selects its sums.
pub(super) type UsageGauge = (&'static str, &'static str, fn(&Usage) -> &Sums);

/// All gauges of node usage.
pub(super) const USAGE_GAUGES: [UsageGauge; 4] = [
    ("karpenter_nodes_total_pod_requests", "The resources requested by pods bound to nodes.", |u| &u.requests),
    ("karpenter_nodes_total_pod_limits", "The resources specified by pod limits of pods on nodes.", |u| &u.limits),
    ("karpenter_nodes_total_daemon_requests", "The resources requested by DaemonSet pods on nodes.", |u| {
        &u.daemon_requests
    }),
    ("karpenter_nodes_total_daemon_limits", "The resources specified by limits of DaemonSet pods on nodes.", |u| {
        &u.daemon_limits
    }),
];

/// Returns the usage of each node that has pods. Terminal pods count nothing.
pub(super) fn by_node(pods: &[Arc<Pod>]) -> BTreeMap<&Str, Usage> {
    let mut all: BTreeMap<&Str, Usage> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.is_terminal()) {
        let Some(node) = pod.spec.node_name.as_ref() else { continue };
        let usage = all.entry(node).or_default();
        let (requests, limits) = (pod_requests(pod), pod_limits(pod));
        add(&mut usage.requests, &requests);
        add(&mut usage.limits, &limits);
        if pod.is_owned_by_daemonset() {
            add(&mut usage.daemon_requests, &requests);
            add(&mut usage.daemon_limits, &limits);
        }
    }
    all
}

pub(super) fn merge(sums: &mut Sums, more: &Sums) {
    for (name, amount) in more {
        *sums.entry(name.clone()).or_default() += *amount;
    }
}

pub(super) fn add(sums: &mut Sums, amounts: &ResourceList) {
    for (name, amount) in amounts.iter() {
        *sums.entry(name.clone()).or_default() += amount;
    }
}
