//! Kube-scheduler's default filters: whether a pod may be bound to a node now, and if not, why.
//!
//! [`Filters::new`] reads the whole cluster once for one pod, as the scheduler's pre-filter step
//! does. [`Filters::reasons`] then checks one node. The results are those of kube-scheduler 1.36
//! with its default plug-ins, and a [`FilterReason`] prints with its texts. No state is kept
//! between two pods: after binding a pod, the caller adds it to its node's `pods` and creates new
//! filters.
//!
//! Not implemented, because nothing in the project needs them: ports of init containers,
//! `ReadWriteOncePod`, static volumes that wait to be matched (`kubernetes.io/no-provisioner`),
//! storage capacity, and dynamic resources.

mod pod_affinity;
mod reason;
mod topology_spread;
mod volumes;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::api::storage::v1::CSINode;

use crate::placement::{Namespaces, is_terminal};
use crate::ports;
use crate::resources::{PODS, Resources, pod_requests, sum_of_requests};
use crate::selectors::node_affinity_matches;
use crate::storage::VolumeObjects;
use crate::taints::{first_untolerated_taint, tolerates};

pub use self::reason::{FilterPlugin, FilterReason};
pub(crate) use self::volumes::volume_claims_by_driver;

/// A node and the pods that are bound to it.
#[derive(Debug, Clone)]
pub struct NodeView<'a> {
    /// The Node object.
    pub node: &'a Node,
    /// Pods bound to the node. Terminal pods are ignored.
    pub pods: Vec<&'a Pod>,
    /// Volume drivers of the node and their limits; `None` if there is no `CSINode`.
    pub csi: Option<&'a CSINode>,
}

impl NodeView<'_> {
    /// Returns the node's name.
    pub fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    fn live_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().copied().filter(|pod| !is_terminal(pod))
    }

    fn taints(&self) -> &[Taint] {
        self.node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }
}

/// All objects that the filters read.
#[derive(Debug, Clone, Default)]
pub struct ClusterView<'a> {
    /// All nodes with their pods.
    pub nodes: Vec<NodeView<'a>>,
    /// Labels of the namespaces.
    pub namespaces: Namespaces,
    /// Volumes, volume claims and storage classes.
    pub storage: VolumeObjects<'a>,
}

/// The filters, prepared for one pod.
#[derive(Debug)]
pub struct Filters<'a> {
    pod: &'a Pod,
    requests: Resources,
    affinity: pod_affinity::PodAffinityFilter<'a>,
    spread: topology_spread::TopologySpreadFilter<'a>,
    volumes: volumes::VolumeFilter<'a>,
}

impl<'a> Filters<'a> {
    /// Prepares the filters for one pod that is to be bound.
    pub fn new(pod: &'a Pod, cluster: &ClusterView<'a>) -> Self {
        Self {
            pod,
            requests: pod_requests(pod),
            affinity: pod_affinity::PodAffinityFilter::new(pod, cluster),
            spread: topology_spread::TopologySpreadFilter::new(pod, cluster),
            volumes: volumes::VolumeFilter::new(pod, cluster),
        }
    }

    /// Returns all reasons why the pod may not be bound to the node, in the order of the plug-ins.
    /// Empty if it may be bound.
    pub fn reasons(&self, node: &NodeView<'_>) -> Vec<FilterReason> {
        let mut reasons = Vec::new();
        reasons.extend(unschedulable(self.pod, node));
        reasons.extend(taint_toleration(self.pod, node));
        reasons.extend(node_affinity(self.pod, node));
        reasons.extend(node_ports(self.pod, node));
        reasons.extend(resources_fit(&self.requests, node));
        reasons.extend(self.volumes.reasons(node));
        reasons.extend(self.spread.reason(self.pod, node));
        reasons.extend(self.affinity.reason(node));
        reasons
    }

    /// Returns the reasons that kube-scheduler reports: those of the first plug-in that rejects the
    /// node.
    pub fn reported_reasons(&self, node: &NodeView<'_>) -> Vec<FilterReason> {
        let mut reasons = self.reasons(node);
        if let Some(first) = reasons.first().map(FilterReason::plugin) {
            reasons.retain(|reason| reason.plugin() == first);
        }
        reasons
    }
}

/// Rejects a cordoned node unless the pod tolerates the taint `node.kubernetes.io/unschedulable`.
fn unschedulable(pod: &Pod, node: &NodeView<'_>) -> Option<FilterReason> {
    let is_cordoned = node.node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    (is_cordoned && !tolerates(pod, &taint)).then_some(FilterReason::Unschedulable)
}

fn taint_toleration(pod: &Pod, node: &NodeView<'_>) -> Option<FilterReason> {
    let taint = first_untolerated_taint(pod, node.taints())?;
    Some(FilterReason::UntoleratedTaint { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default() })
}

fn node_affinity(pod: &Pod, node: &NodeView<'_>) -> Option<FilterReason> {
    (!node_affinity_matches(pod, node.name(), crate::selectors::node_labels(node.node)))
        .then_some(FilterReason::NodeAffinity)
}

fn node_ports(pod: &Pod, node: &NodeView<'_>) -> Option<FilterReason> {
    let port_conflict = node.live_pods().find_map(|other| ports::conflict(pod, other));
    port_conflict.map(|(wanted, _)| FilterReason::NodePorts { wanted })
}

/// Rejects the node if the requests of all pods, the new pod included, exceed its allocatable
/// resources. Resources that the new pod does not request are not checked.
fn resources_fit(requests: &Resources, node: &NodeView<'_>) -> Vec<FilterReason> {
    let allocatable =
        Resources::from_quantities(node.node.status.as_ref().and_then(|status| status.allocatable.as_ref()));
    let used = sum_of_requests(node.live_pods());
    let zero = kerf_api::quantity::Quantity::ZERO;
    let requested = requests.iter().filter(|(_, amount)| *amount > zero);
    let short = requested.filter(|(name, amount)| *amount + used.get(name) > allocatable.get(name));
    short
        .map(|(name, requested)| match name {
            PODS => FilterReason::TooManyPods,
            name => FilterReason::Insufficient {
                resource: name.to_owned(),
                requested,
                used: used.get(name),
                allocatable: allocatable.get(name),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests;
