//! The kubelets of all simulated machines. There is no machine behind a Node here: a kubelet adopts a Node object that says it is
//! simulated (`kwok.x-k8s.io/node`, the annotation by which KWOK finds its nodes too, so that one provider serves both), brings it to
//! life after a while, keeps its lease, and runs the pods that are bound to it through their phases.

mod heartbeat;
pub(crate) mod node;
pub(crate) mod pod;
mod status;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use kerf_runtime::Rng;
use smol_str::SmolStr;
use tokio::time::Instant;

use self::heartbeat::HeartbeatTemplate;
use super::objects::Node;
use crate::api::storage::ObjectKey;

/// The annotation of simulated nodes: KWOK's.
pub(crate) const SIMULATED_NODE_ANNOTATION: &str = "kwok.x-k8s.io/node";

/// Whether a kubelet of ours stands behind a Node.
pub(crate) fn is_simulated(node: &Node) -> bool {
    node.metadata.annotations.get(SIMULATED_NODE_ANNOTATION).is_some()
}

/// How far a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstancePhase {
    /// It will be ready then.
    Booting { until: Instant },
    /// It never will.
    NeverReady,
    /// Its kubelet works.
    Running,
    /// Its kubelet has stopped.
    KubeletStopped,
}

/// A machine, by the Node that stands for it.
#[derive(Debug)]
struct SimulatedInstance {
    uid: SmolStr,
    phase: InstancePhase,
    address: Ipv4Addr,
    /// When the node's status was last reported.
    last_reported_at: Instant,
    lease_key: ObjectKey,
    last_lease_write: Option<HeartbeatTemplate>,
    last_report: Option<LastStatusReport>,
}

/// The last report of a node's status, for as long as it can be repeated.
#[derive(Debug)]
struct LastStatusReport {
    template: HeartbeatTemplate,
    /// What it said that may be different the next time, though nobody else has written the Node.
    images: Vec<SmolStr>,
    volumes: Vec<String>,
}

/// One run of a pod, from when its kubelet saw it.
#[derive(Debug)]
struct PodRun {
    uid: SmolStr,
    /// When its containers will be up.
    starts_at: Instant,
    /// When they will have done their work, if they ever do.
    ends_at: Option<Instant>,
    /// When they will have stopped, if they were told to.
    stops_at: Option<Instant>,
    address: Option<Ipv4Addr>,
    /// Since when they are up, as their statuses say it.
    running_since: Option<String>,
    restarts: u32,
}

/// All machines.
#[derive(Debug)]
pub(crate) struct Kubelets {
    instances: BTreeMap<ObjectKey, SimulatedInstance>,
    pod_runs: BTreeMap<ObjectKey, PodRun>,
    rng: Rng,
    /// Machines whose Node will come and that never get anywhere.
    never_ready: std::collections::BTreeSet<SmolStr>,
    ip_allocator: IpAllocator,
}

impl Kubelets {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            instances: BTreeMap::new(),
            pod_runs: BTreeMap::new(),
            rng: Rng::new(seed).fork("kubelets"),
            never_ready: std::collections::BTreeSet::new(),
            ip_allocator: IpAllocator::default(),
        }
    }

    /// Whether the kubelet of a node is at work.
    fn is_kubelet_running(&self, node: &str) -> bool {
        self.instances.get(&ObjectKey::new(None, node)).is_some_and(|machine| machine.phase == InstancePhase::Running)
    }

    fn address_of(&self, node: &str) -> Option<Ipv4Addr> {
        self.instances.get(&ObjectKey::new(None, node)).map(|machine| machine.address)
    }
}

/// Addresses that nobody else has. They are made up: nothing listens there.
#[derive(Debug, Default)]
struct IpAllocator {
    nodes: u32,
    pods: u32,
}

impl IpAllocator {
    /// 10.0.0.1 and on, for nodes.
    fn next_node_ip(&mut self) -> Ipv4Addr {
        self.nodes = (self.nodes + 1) % 0x0020_0000;
        Ipv4Addr::from(0x0a00_0000 + self.nodes)
    }

    /// 10.64.0.1 and on, for pods.
    fn next_pod_ip(&mut self) -> Ipv4Addr {
        self.pods = (self.pods + 1) % 0x0080_0000;
        Ipv4Addr::from(0x0a40_0000 + self.pods)
    }
}
