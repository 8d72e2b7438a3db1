//! The cluster around the API server: workload controllers, scheduler and kubelets, all in one
//! process and on one clock.
//!
//! ```text
//! Cluster ── ApiServer ◄─────── kubectl, kube::Client, Kerf
//!         ├─ ControlPlane: workload controllers and kubelets, one loop
//!         ├─ VolumeController: claims, volumes and their provisioner
//!         └─ Scheduler
//! ```
//!
//! Invariants: no component polls. Two clusters with one seed on a paused clock write the same
//! objects in the same order. Injected faults never affect the components of the cluster, only the
//! clients under test.

mod attachments;
mod autoscaler;
mod cluster_events;
mod component_client;
mod control_plane;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod events;
mod garbage_collector;
mod in_process_client;
mod initial_nodes;
mod instance_commands;
mod job;
mod kind;
mod kubelet;
mod namespace;
mod node_health;
mod object_cache;
mod objects;
mod pod_gc;
mod pods;
mod replicaset;
mod revisions;
mod scheduler;
mod statefulset;
mod taint_eviction;
mod timing;
mod triggers;
mod volumes;
mod work_queue;

use kerf_runtime::Clock;
use smol_str::SmolStr;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use cluster_events::{ClusterCost, ClusterEvent};
pub(crate) use cluster_events::{PRICE_LABEL, parse_micro_dollars};
pub(crate) use component_client::ComponentClient;
pub use initial_nodes::AddNodeError;
pub use instance_commands::SimulatedInstances;
pub use scheduler::Scheduler;
pub use timing::{Delay, Timing};
pub use volumes::VolumeController;

use crate::api::storage::{ObjectKey, TableIx};
use crate::api::{ApiServer, ApiServerConfig, create_default_storage_class};
use crate::cloud::Cloud;

/// Settings of a [`Cluster`].
#[derive(Clone, Copy, Debug)]
pub struct ClusterConfig {
    /// Clock that every component reads.
    pub clock: Clock,
    /// Seed of every random number in the cluster.
    pub seed: u64,
    /// Durations of boots, pod starts and stops, attachments and heartbeats.
    pub timing: Timing,
}

/// Any stored object, identified by its table and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectRef {
    table: TableIx,
    key: ObjectKey,
}

/// One unit of work for the control plane: a controller and the object that it reconciles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkItem {
    Namespace(ObjectKey),
    Garbage(ObjectRef),
    Deployment(ObjectKey),
    ReplicaSet(ObjectKey),
    StatefulSet(ObjectKey),
    DaemonSet(ObjectKey),
    Job(ObjectKey),
    CronJob(ObjectKey),
    Autoscaler(ObjectKey),
    Budget(ObjectKey),
    /// Updates a node's taints, and its conditions if the kubelet stopped sending heartbeats.
    NodeHealth(ObjectKey),
    /// Evicts a pod from a node with `NoExecute` taints.
    TaintEviction(ObjectKey),
    /// Deletes a pod whose node does not exist.
    OrphanedPod(ObjectKey),
    /// Creates and deletes the VolumeAttachments of a node.
    Attachments(ObjectKey),
    /// Marks one VolumeAttachment as attached, as a CSI driver does.
    Attach(ObjectKey),
    /// Boots the simulated instance of a node.
    BootInstance(ObjectKey),
    Heartbeat(ObjectKey),
    /// Kills the kubelet of a node, if the fault still applies.
    KubeletDeath(ObjectKey),
    /// Changes the readiness of a node whose readiness flaps.
    ReadinessFlap(ObjectKey),
    /// Terminates a simulated instance, as a cloud does with spot capacity.
    Interruption(ObjectKey),
    /// Follows the list of instances of the attached cloud.
    CloudInstances,
    /// Registers the Node of an instance of the attached cloud, by provider ID.
    RegisterNode(SmolStr),
    /// Interrupts an instance of the attached cloud, by provider ID.
    CloudInterruption(SmolStr),
    /// Deletes a Node whose instance the attached cloud has terminated.
    CloudNode(ObjectKey),
    /// Advances a pod through its phases, as its kubelet does.
    RunPod(ObjectKey),
}

/// A running cluster. Dropping it stops its tasks.
#[derive(Debug)]
pub struct Cluster {
    server: ApiServer,
    instances: SimulatedInstances,
    cloud: Cloud,
    tasks: Vec<JoinHandle<()>>,
}

impl Cluster {
    /// Starts a cluster without nodes. Must be called on a tokio runtime with time enabled.
    #[allow(clippy::large_types_passed_by_value, reason = "it is written out where a cluster is started")]
    pub fn start(config: ClusterConfig) -> Self {
        Self::start_on_server(new_server(&config), &config, None)
    }

    /// Starts a cluster on an independent copy of another API server's objects and attached cloud.
    /// Later changes of one do not affect the other.
    #[allow(clippy::large_types_passed_by_value, reason = "it is written out where a cluster is started")]
    pub fn start_from(server: &ApiServer, config: ClusterConfig) -> Self {
        Self::start_on_server(server.fork(config.clock), &config, None)
    }

    /// Starts a cluster, and returns a channel that receives its events. Dropping the receiver
    /// stops the reports.
    #[allow(clippy::large_types_passed_by_value, reason = "it is written out where a cluster is started")]
    pub fn start_with_events(config: ClusterConfig) -> (Self, mpsc::UnboundedReceiver<ClusterEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self::start_on_server(new_server(&config), &config, Some(sender)), receiver)
    }

    fn start_on_server(
        server: ApiServer,
        config: &ClusterConfig,
        event_sender: Option<mpsc::UnboundedSender<ClusterEvent>>,
    ) -> Self {
        let (command_sender, commands) = mpsc::unbounded_channel();
        let cloud = Cloud::new(config.clock, config.seed);
        let plane = control_plane::ControlPlane::new(server.clone(), config, cloud.clone(), event_sender);
        let volumes = VolumeController::new(&server, config.timing.volume_attach.base);
        let scheduler = Scheduler::new(&server, config.seed);
        let tasks = vec![tokio::spawn(plane.run(commands)), tokio::spawn(volumes.run()), tokio::spawn(scheduler.run())];
        Self { server, instances: SimulatedInstances::new(command_sender), cloud, tasks }
    }

    /// Returns the API server, which gives access to clients, injected faults and the audit.
    pub fn api(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the simulated cloud, which controls availability and faults of instances.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Returns the handle that kills kubelets and terminates simulated instances.
    pub fn instances(&self) -> &SimulatedInstances {
        &self.instances
    }
}

/// Returns an API server with the objects of a new cluster.
fn new_server(config: &ClusterConfig) -> ApiServer {
    let server = ApiServer::new(ApiServerConfig::new(config.clock, config.seed));
    create_default_storage_class(&server, config.seed);
    server
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
