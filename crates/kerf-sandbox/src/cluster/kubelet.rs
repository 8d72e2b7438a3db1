//! The kubelets of all simulated instances. No instance runs behind a Node here. A kubelet adopts
//! each Node with the annotation `kwok.x-k8s.io/node`, by which KWOK finds its nodes too, so that
//! one provider serves both. It makes the Node ready after its boot time, renews its Lease, and
//! moves the pods that are bound to it through their phases. The kubelet of an instance of an
//! attached cloud registers its Node itself, after the boot.

pub(crate) mod faults;
mod heartbeat;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod registration;
mod status;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use kerf_runtime::Rng;
use smol_str::SmolStr;
use tokio::time::Instant;

use self::heartbeat::RepeatableWrite;
use self::registration::CloudInstanceRecords;
use super::objects::Node;
use crate::api::storage::ObjectKey;
use crate::cloud::FlapTimes;

/// Annotation of simulated nodes, which is KWOK's.
pub(crate) const SIMULATED_NODE_ANNOTATION: &str = "kwok.x-k8s.io/node";

/// State of a simulated instance and its kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InstancePhase {
    /// The instance is booting, and becomes ready at `until`.
    Booting { until: Instant },
    /// The instance never becomes ready.
    NeverReady,
    /// The kubelet is running.
    Running,
    /// The kubelet has stopped.
    KubeletStopped,
}

/// The readiness that a running kubelet reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// The network plugin is not initialized, and never will be.
    NeverReady,
    /// Ready now, and not ready from time to time.
    FlappingReady(FlapTimes),
    /// Not ready now, and ready later.
    FlappingNotReady(FlapTimes),
}

impl Readiness {
    fn is_ready(self) -> bool {
        match self {
            Self::Ready | Self::FlappingReady(_) => true,
            Self::NeverReady | Self::FlappingNotReady(_) => false,
        }
    }
}

/// The simulated instance behind a Node.
#[derive(Debug)]
struct SimulatedInstance {
    uid: SmolStr,
    phase: InstancePhase,
    /// The `Ready` condition that the kubelet reports while it runs.
    readiness: Readiness,
    address: Ipv4Addr,
    /// Time of the last write of the node's status.
    last_reported_at: Instant,
    lease_key: ObjectKey,
    last_lease_write: Option<RepeatableWrite>,
    last_report: Option<LastStatusReport>,
}

/// The last write of a node's status, kept while it can be repeated.
#[derive(Debug)]
struct LastStatusReport {
    write: RepeatableWrite,
    /// Inputs of that write that may change although no other client writes the Node.
    images: Vec<SmolStr>,
    volumes: Vec<String>,
}

/// One run of a pod, from the moment at which its kubelet first saw it.
#[derive(Debug)]
struct PodRun {
    uid: SmolStr,
    /// Time at which its containers will be running.
    starts_at: Instant,
    /// Time at which its containers will complete; `None` if they run until they are stopped.
    ends_at: Option<Instant>,
    /// Time at which its containers will have stopped; `None` if the pod is not being deleted.
    stops_at: Option<Instant>,
    address: Option<Ipv4Addr>,
    /// Start time of its containers, as their statuses print it.
    running_since: Option<String>,
    restarts: u32,
}

/// All simulated instances and the pods on them.
#[derive(Debug)]
pub(crate) struct Kubelets {
    instances: BTreeMap<ObjectKey, SimulatedInstance>,
    pod_runs: BTreeMap<ObjectKey, PodRun>,
    rng: Rng,
    /// Names of Nodes that do not exist yet and whose instances must never become ready.
    never_ready: std::collections::BTreeSet<SmolStr>,
    ip_allocator: IpAllocator,
    /// Instances of the attached cloud, with and without a Node.
    pub(crate) cloud_instances: CloudInstanceRecords,
}

impl Kubelets {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            instances: BTreeMap::new(),
            pod_runs: BTreeMap::new(),
            rng: Rng::new(seed).fork("kubelets"),
            never_ready: std::collections::BTreeSet::new(),
            ip_allocator: IpAllocator::default(),
            cloud_instances: CloudInstanceRecords::default(),
        }
    }

    /// Returns true if a simulated kubelet manages the Node.
    pub(crate) fn manages(&self, node: &Node) -> bool {
        node.metadata.annotations.get(SIMULATED_NODE_ANNOTATION).is_some() || self.cloud_instances.has_kubelet_of(node)
    }

    /// Returns true if the kubelet of a node is running.
    fn is_kubelet_running(&self, node: &str) -> bool {
        self.instances.get(&ObjectKey::new(None, node)).is_some_and(|instance| instance.phase == InstancePhase::Running)
    }

    fn address_of(&self, node: &str) -> Option<Ipv4Addr> {
        self.instances.get(&ObjectKey::new(None, node)).map(|instance| instance.address)
    }
}

/// Allocates distinct IP addresses. They are fictitious: nothing listens there.
#[derive(Debug, Default)]
struct IpAllocator {
    nodes: u32,
    pods: u32,
}

impl IpAllocator {
    /// Returns the next node address: 10.0.0.1 and up.
    fn next_node_ip(&mut self) -> Ipv4Addr {
        self.nodes = (self.nodes + 1) % 0x0020_0000;
        Ipv4Addr::from(0x0a00_0000 + self.nodes)
    }

    /// Returns the next pod address: 10.64.0.1 and up.
    fn next_pod_ip(&mut self) -> Ipv4Addr {
        self.pods = (self.pods + 1) % 0x0080_0000;
        Ipv4Addr::from(0x0a40_0000 + self.pods)
    }
}
