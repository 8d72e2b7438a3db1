//! Events for a person watching the sandbox: pending pods, running pods, nodes and cost. These
//! are not Kubernetes Events; [`super::events`] publishes those.

use std::fmt;

use serde_json::Value;
use smol_str::SmolStr;
use tokio::sync::mpsc;

use super::control_plane::ControlPlane;
use super::object_cache::CacheChange;
use super::objects::{Node, Pod, find_condition};
use crate::api::object;
use crate::api::storage::ObjectKey;

/// Label in which providers record a node's price: US dollars per hour with six decimals.
pub(crate) const PRICE_LABEL: &str = "eks-node-viewer/instance-price";
const MICRO_DOLLARS_PER_DOLLAR: u64 = 1_000_000;
/// Reasons of the Events that report failed launches.
const LAUNCH_FAILURE_REASONS: [&str; 2] = ["InsufficientCapacityError", "LaunchFailed"];

/// A change that a person watching the sandbox should see. `Display` prints one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// The scheduler found no node for a pod.
    PodPending {
        /// The pod's `namespace/name`.
        pod: String,
        /// Message of the pod's condition `PodScheduled`.
        why: String,
    },
    /// A pod reached the phase `Running`.
    PodRunning {
        /// The pod's `namespace/name`.
        pod: String,
        /// Name of the pod's node.
        node: String,
    },
    /// An autoscaler created a NodeClaim.
    ClaimCreated {
        /// The NodeClaim's name.
        claim: String,
        /// The NodePool of the claim; empty if its label is missing.
        pool: String,
    },
    /// The launch of a NodeClaim's instance failed, for example because its pools are out of stock.
    LaunchFailed {
        /// The NodeClaim's name.
        claim: String,
        /// Message of the Event.
        why: String,
    },
    /// A node became ready.
    NodeReady {
        /// The node's name.
        node: String,
        /// The node's instance type; empty if its label is missing.
        instance_type: String,
        /// Cost of all ready nodes, this one included.
        cost: ClusterCost,
    },
    /// An instance runs and does not join the cluster.
    InstanceNotJoined {
        /// The provider ID of the instance.
        instance: String,
        /// Reason, for example wrong user data.
        why: String,
    },
    /// A node is no longer ready.
    NodeNotReady {
        /// The node's name.
        node: String,
    },
    /// A node was deleted.
    NodeRemoved {
        /// The node's name.
        node: String,
        /// Cost of the remaining ready nodes.
        cost: ClusterCost,
    },
}

/// Number and total price of nodes, from their price labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCost {
    /// Number of nodes.
    pub nodes: usize,
    /// Total price in millionths of a US dollar per hour.
    pub micro_dollars_per_hour: u64,
}

impl fmt::Display for ClusterCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.nodes == 1 { "node" } else { "nodes" };
        // Round to the nearest hundredth of a cent.
        let price = (self.micro_dollars_per_hour + 50) / 100;
        write!(f, "{} {plural}, ${}.{:04}/h", self.nodes, price / 10_000, price % 10_000)
    }
}

impl fmt::Display for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodPending { pod, why } => write!(f, "pod {pod} is pending: {why}"),
            Self::PodRunning { pod, node } => write!(f, "pod {pod} runs on {node}"),
            Self::ClaimCreated { claim, pool } if pool.is_empty() => write!(f, "claim {claim} created"),
            Self::ClaimCreated { claim, pool } => write!(f, "claim {claim} created for pool {pool}"),
            Self::LaunchFailed { claim, why } => write!(f, "claim {claim} is not launched: {why}"),
            Self::NodeReady { node, instance_type, cost } if instance_type.is_empty() => {
                write!(f, "node {node} is ready ({cost})")
            }
            Self::NodeReady { node, instance_type, cost } => {
                write!(f, "node {node} ({instance_type}) is ready ({cost})")
            }
            Self::InstanceNotJoined { instance, why } => {
                write!(f, "instance {instance} does not join the cluster: {why}")
            }
            Self::NodeNotReady { node } => write!(f, "node {node} is not ready"),
            Self::NodeRemoved { node, cost } => write!(f, "node {node} is removed ({cost})"),
        }
    }
}

/// Sends cluster events, and holds the state that is needed to detect them.
#[derive(Debug, Default)]
pub(crate) struct ClusterEventSender {
    sender: Option<mpsc::UnboundedSender<ClusterEvent>>,
    /// Price of each ready node in millionths of a dollar per hour.
    ready_node_prices: std::collections::BTreeMap<ObjectKey, u64>,
}

impl ClusterEventSender {
    pub(crate) fn new(sender: Option<mpsc::UnboundedSender<ClusterEvent>>) -> Self {
        Self { sender, ready_node_prices: std::collections::BTreeMap::new() }
    }

    fn send(&mut self, event: ClusterEvent) {
        // The receiver was dropped: stop sending.
        if self.sender.as_ref().is_some_and(|sender| sender.send(event).is_err()) {
            self.sender = None;
        }
    }

    fn total_cost(&self) -> ClusterCost {
        ClusterCost {
            nodes: self.ready_node_prices.len(),
            micro_dollars_per_hour: self.ready_node_prices.values().sum(),
        }
    }
}

/// Parses a price label into millionths of a dollar. A text that is not a price counts as zero.
pub(crate) fn parse_micro_dollars(text: &str) -> u64 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let whole: u64 = whole.parse().unwrap_or_default();
    whole.saturating_mul(MICRO_DOLLARS_PER_DOLLAR).saturating_add(digits.parse().unwrap_or_default())
}

impl ControlPlane {
    pub(super) fn report_pod(&mut self, changed: &CacheChange<Pod>) {
        if self.event_sender.sender.is_none() {
            return;
        }
        let Some(now) = &changed.now else { return };
        let pod = format!("{}/{}", now.metadata.namespace, now.metadata.name);
        let why = |pod: &Pod| {
            find_condition(&pod.status.conditions, "PodScheduled")
                .filter(|condition| condition.status == "False" && condition.reason == "Unschedulable")
                .map(|condition| condition.message.clone())
        };
        let before = changed.before.as_deref();
        if now.status.phase == "Running" && before.is_none_or(|pod| pod.status.phase != "Running") {
            self.event_sender.send(ClusterEvent::PodRunning { pod, node: now.spec.node_name.to_string() });
        } else if let Some(reason) = why(now)
            && before.is_none_or(|pod| why(pod).is_none())
        {
            self.event_sender.send(ClusterEvent::PodPending { pod, why: reason.to_string() });
        }
    }

    pub(super) fn report_node(&mut self, key: &ObjectKey, changed: &CacheChange<Node>) {
        if self.event_sender.sender.is_none() {
            return;
        }
        let is_ready = |node: &Node| node.ready().is_some_and(|ready| ready.status == "True");
        let node = key.name().to_string();
        let was_ready = self.event_sender.ready_node_prices.contains_key(key);
        match changed.now.as_deref() {
            None => {
                self.event_sender.ready_node_prices.remove(key);
                let cost = self.event_sender.total_cost();
                self.event_sender.send(ClusterEvent::NodeRemoved { node, cost });
            }
            Some(now) if is_ready(now) && !was_ready => {
                let labels = &now.metadata.labels;
                let instance_price = self.kubelets.cloud_instances.micro_dollars_per_hour(&now.spec.provider_id);
                let price = labels.get(PRICE_LABEL).map(parse_micro_dollars).or(instance_price);
                self.event_sender.ready_node_prices.insert(key.clone(), price.unwrap_or_default());
                let instance_type = labels.get("node.kubernetes.io/instance-type").unwrap_or_default().to_string();
                let cost = self.event_sender.total_cost();
                self.event_sender.send(ClusterEvent::NodeReady { node, instance_type, cost });
            }
            Some(now) if !is_ready(now) && was_ready => {
                self.event_sender.ready_node_prices.remove(key);
                self.event_sender.send(ClusterEvent::NodeNotReady { node });
            }
            Some(_) => {}
        }
    }

    /// Sends an event for an instance that cannot join the cluster.
    pub(super) fn report_instance_outside(&mut self, provider_id: &str, why: String) {
        self.event_sender.send(ClusterEvent::InstanceNotJoined { instance: provider_id.to_owned(), why });
    }

    /// Sends an event for a new Event object that reports a failed launch.
    pub(super) fn report_launch_failure(&mut self, object: &[u8]) {
        if self.event_sender.sender.is_none() {
            return;
        }
        let event: Value = serde_json::from_slice(object).unwrap_or_default();
        let reason = object::text(&event, &["reason"]);
        let involved = |field: &str| object::text(&event, &["involvedObject", field]);
        if !LAUNCH_FAILURE_REASONS.contains(&reason) || involved("kind") != "NodeClaim" {
            return;
        }
        let claim = involved("name").to_owned();
        let message = object::text(&event, &["message"]);
        let why = message.strip_prefix(&format!("NodeClaim {claim} event: ")).unwrap_or(message).to_owned();
        self.event_sender.send(ClusterEvent::LaunchFailed { claim, why });
    }

    /// Sends an event for a new NodeClaim, which is how an autoscaler requests a node.
    pub(super) fn report_custom(&mut self, plural: &str, object: &[u8]) {
        if plural != "nodeclaims" || self.event_sender.sender.is_none() {
            return;
        }
        let claim: Value = serde_json::from_slice(object).unwrap_or_default();
        let pool: SmolStr = object::text(&claim, &["metadata", "labels", "karpenter.sh/nodepool"]).into();
        self.event_sender
            .send(ClusterEvent::ClaimCreated { claim: object::name(&claim).to_string(), pool: pool.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_parsed_and_printed_exactly() {
        for (label, micro) in [("0.027147", 27_147), ("1.5", 1_500_000), ("12", 12_000_000), ("cheap", 0), ("", 0)] {
            assert_eq!(parse_micro_dollars(label), micro, "{label}");
        }
        let cost = ClusterCost { nodes: 2, micro_dollars_per_hour: 1_527_147 };
        assert_eq!(cost.to_string(), "2 nodes, $1.5271/h");
        assert_eq!(ClusterCost { nodes: 1, ..ClusterCost::default() }.to_string(), "1 node, $0.0000/h");
    }

    #[test]
    fn events_are_printed_as_sentences() {
        let event =
            ClusterEvent::NodeReady { node: "n1".into(), instance_type: "c-4x".into(), cost: ClusterCost::default() };
        assert_eq!(event.to_string(), "node n1 (c-4x) is ready (0 nodes, $0.0000/h)");
        let event = ClusterEvent::LaunchFailed { claim: "default-x".into(), why: "out of stock".into() };
        assert_eq!(event.to_string(), "claim default-x is not launched: out of stock");
        let event = ClusterEvent::ClaimCreated { claim: "default-x".into(), pool: "default".into() };
        assert_eq!(event.to_string(), "claim default-x created for pool default");
    }
}
