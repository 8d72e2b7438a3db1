//! Kube-scheduler's default filters: the nodes to which a pod can be bound now, and the reasons
//! against all others.
//!
//! [`PodFilter::new`] prepares everything that is common to all nodes, as kube-scheduler's
//! pre-filter step does. [`PodFilter::check`] then checks one node. The results equal those of
//! `kerf_referee::filters`, which is slow and obvious; a test compares the two on random clusters.

mod affinity;
mod rejection;
mod spread;
mod volumes;

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Taint};
use kerf_referee::selectors::{node_affinity_matches, required_node_affinity_terms};
use kerf_referee::taints::{first_untolerated_taint, tolerates};
use smol_str::SmolStr;

use super::amounts::PODS;
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::view::{NodeIx, View};

pub(super) use rejection::{FilterRejection, Plugin};
pub(super) use spread::{counts_node, selected_classes};
pub(super) use volumes::VolumeBindings;

/// Key of the taint that is equivalent to `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// All filters, prepared for one pod.
pub(super) struct PodFilter<'a> {
    view: &'a View,
    pod: &'a Pod,
    info: &'a PodInfo,
    /// For each node slot, true if the pod's node selector and node affinity match. `None` if the
    /// pod has neither.
    affinity_matches: Option<Vec<bool>>,
    tolerates_unschedulable: bool,
    spread: spread::SpreadFilter<'a>,
    affinity: affinity::AffinityFilter<'a>,
    volumes: volumes::VolumeFilter<'a>,
}

/// The result of the filters that need no node.
#[derive(Debug)]
pub(super) enum PreFilterResult {
    /// Every node must be checked.
    AllNodes,
    /// Only these nodes can be feasible: the pod's node affinity names them.
    Named(BTreeSet<SmolStr>),
    /// No node can be feasible.
    None(FilterRejection),
}

impl<'a> PodFilter<'a> {
    /// Prepares the filters for `pod` on the nodes of `view`.
    pub(super) fn new(view: &'a View, pod: &'a Pod, info: &'a PodInfo) -> Self {
        let spec = pod.spec.as_ref();
        let has_node_rules =
            spec.is_some_and(|spec| spec.node_selector.is_some()) || required_node_affinity_terms(pod).is_some();
        let affinity_matches = has_node_rules.then(|| {
            let mut matches = vec![false; view.slot_count()];
            for node in view.existing_nodes() {
                let info = view.node(node);
                matches[node.index()] = node_affinity_matches(pod, &info.name, &info.labels);
            }
            matches
        });
        let unschedulable_taint =
            Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        Self {
            view,
            pod,
            info,
            spread: spread::SpreadFilter::new(view, pod, affinity_matches.as_deref()),
            affinity: affinity::AffinityFilter::new(view, info),
            volumes: volumes::VolumeFilter::new(view, pod, info),
            affinity_matches,
            tolerates_unschedulable: tolerates(pod, &unschedulable_taint),
        }
    }

    /// Runs the filters that need no node.
    pub(super) fn pre_filter(&self) -> PreFilterResult {
        match named_nodes(self.pod) {
            Some(names) if names.is_empty() => {
                return PreFilterResult::None(FilterRejection::unresolvable(
                    Plugin::NodeAffinity,
                    "pod affinity terms conflict",
                ));
            }
            Some(names) => {
                return match self.volumes.pre_filter() {
                    Some(rejection) => PreFilterResult::None(rejection),
                    None => PreFilterResult::Named(names),
                };
            }
            None => {}
        }
        self.volumes.pre_filter().map_or(PreFilterResult::AllNodes, PreFilterResult::None)
    }

    /// Checks one node. The error is the rejection of the first plug-in that rejects the node.
    pub(super) fn check(&self, node: NodeIx) -> Result<(), FilterRejection> {
        let info = self.view.node(node);
        if info.unschedulable && !self.tolerates_unschedulable {
            return Err(FilterRejection::unresolvable(Plugin::NodeUnschedulable, "node(s) were unschedulable"));
        }
        if !info.taints.is_empty() && first_untolerated_taint(self.pod, &info.taints).is_some() {
            return Err(FilterRejection::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)"));
        }
        if self.affinity_matches.as_ref().is_some_and(|matches| !matches[node.index()]) {
            let reason = "node(s) didn't match Pod's node affinity/selector";
            return Err(FilterRejection::unresolvable(Plugin::NodeAffinity, reason));
        }
        if has_port_conflict(self.info, info) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Err(FilterRejection::resolvable(Plugin::NodePorts, reason));
        }
        self.fits(info)?;
        self.volumes.check(info)?;
        self.spread.check(info)?;
        self.affinity.check(info)
    }

    /// Returns the volume bindings that are needed to run the pod on the node.
    pub(super) fn bindings(&self, node: NodeIx) -> VolumeBindings {
        self.volumes.bindings(self.view.node(node))
    }

    fn fits(&self, node: &NodeInfo) -> Result<(), FilterRejection> {
        let requests = &self.info.requests;
        let mut insufficient = node.allocatable.insufficient(&node.used, requests).peekable();
        if insufficient.peek().is_none() {
            return Ok(());
        }
        let reason = |resource| match resource {
            PODS => Cow::Borrowed("Too many pods"),
            other => Cow::Owned(format!("Insufficient {}", self.view.resource_names.name(other))),
        };
        let is_resolvable = !node.allocatable.is_exceeded_by(requests);
        Err(FilterRejection {
            plugin: Plugin::NodeResourcesFit,
            reasons: insufficient.map(reason).collect(),
            is_resolvable,
        })
    }
}

/// Returns true if a pod on the node uses a host port that conflicts with one of this pod.
fn has_port_conflict(pod: &PodInfo, node: &NodeInfo) -> bool {
    if pod.ports.is_empty() || node.pods_with_host_ports == 0 {
        return false;
    }
    let mut used_ports = node.pods.values().flat_map(|other| &other.ports);
    used_ports.any(|used| pod.ports.iter().any(|port| port.conflicts_with(used)))
}

/// Returns the nodes that the pod's node affinity names. Returns `None` unless every term names
/// nodes.
fn named_nodes(pod: &Pod) -> Option<BTreeSet<SmolStr>> {
    let terms = required_node_affinity_terms(pod).filter(|terms| !terms.is_empty())?;
    let mut names = BTreeSet::new();
    for term in terms {
        let mut term_names: Option<BTreeSet<SmolStr>> = None;
        for field in term.match_fields.iter().flatten() {
            if field.key == "metadata.name" && field.operator == "In" {
                let values: BTreeSet<SmolStr> = field.values.iter().flatten().map(SmolStr::from).collect();
                term_names = Some(match term_names {
                    Some(earlier) => earlier.intersection(&values).cloned().collect(),
                    None => values,
                });
            }
        }
        names.extend(term_names?);
    }
    Some(names)
}
