//! The cluster around the API server: workload controllers, scheduler, kubelets, all in this process and on one clock.
//!
//! ```text
//! Cluster ── ApiServer ◄─────── kubectl, kube::Client, Kerf
//!         ├─ plane: controllers (deployment, replicaset, ...) and kubelets, one loop
//!         ├─ volumes: claims, volumes and what makes them
//!         └─ scheduler
//! ```
//! What always holds: nothing here polls; two clusters with one seed on a paused clock write the same things in the same order; the
//! parts of the cluster see no faults, because faults are for those who are tried on it.

mod attachments;
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
use crate::api::{ApiServer, ApiServerConfig};
use crate::cloud::Cloud;

/// What a cluster is made with.
#[derive(Clone, Copy, Debug)]
pub struct ClusterConfig {
    /// The clock that everything in it reads.
    pub clock: Clock,
    /// Where all its chance comes from.
    pub seed: u64,
    /// How long things take.
    pub timing: Timing,
}

/// Any object, by its place in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectRef {
    table: TableIx,
    key: ObjectKey,
}

/// A piece of work for the control plane: which controller, and which object.
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
    Budget(ObjectKey),
    /// A node's silence and its taints.
    NodeHealth(ObjectKey),
    /// A pod on a node with `NoExecute` taints.
    TaintEviction(ObjectKey),
    /// A pod whose node is gone.
    OrphanedPod(ObjectKey),
    /// The volumes of a node.
    Attachments(ObjectKey),
    /// One attachment: the driver's part.
    Attach(ObjectKey),
    /// A machine's boot.
    Machine(ObjectKey),
    Heartbeat(ObjectKey),
    /// The cloud takes a machine away.
    Interruption(ObjectKey),
    /// A pod, by its kubelet.
    RunPod(ObjectKey),
}

/// A running cluster. Dropping it ends it.
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
        Self::start_on_server(ApiServer::new(ApiServerConfig::new(config.clock, config.seed)), &config, None)
    }

    /// Starts a cluster with what another API server holds: a copy of it, which goes its own way.
    #[allow(clippy::large_types_passed_by_value, reason = "it is written out where a cluster is started")]
    pub fn start_from(furnished: &ApiServer, config: ClusterConfig) -> Self {
        Self::start_on_server(furnished.fork(config.clock), &config, None)
    }

    /// Starts a cluster, and tells what happens in it. Whoever stops listening costs nothing.
    #[allow(clippy::large_types_passed_by_value, reason = "it is written out where a cluster is started")]
    pub fn start_with_events(config: ClusterConfig) -> (Self, mpsc::UnboundedReceiver<ClusterEvent>) {
        let (reporter, news) = mpsc::unbounded_channel();
        (
            Self::start_on_server(
                ApiServer::new(ApiServerConfig::new(config.clock, config.seed)),
                &config,
                Some(reporter),
            ),
            news,
        )
    }

    fn start_on_server(
        server: ApiServer,
        config: &ClusterConfig,
        reporter: Option<mpsc::UnboundedSender<ClusterEvent>>,
    ) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let cloud = Cloud::new(config.clock, config.seed);
        let plane = control_plane::ControlPlane::new(server.clone(), config, cloud.clone(), reporter);
        let volumes = VolumeController::new(&server, config.timing.volume_attach.base);
        let scheduler = Scheduler::new(&server, config.seed);
        let tasks = vec![tokio::spawn(plane.run(inbox)), tokio::spawn(volumes.run()), tokio::spawn(scheduler.run())];
        Self { server, instances: SimulatedInstances::new(orders), cloud, tasks }
    }

    /// Its API server: clients, faults, the audit.
    pub fn api(&self) -> &ApiServer {
        &self.server
    }

    /// The cloud that its machines come from: what can be had there, and what goes wrong.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Its simulated machines.
    pub fn instances(&self) -> &SimulatedInstances {
        &self.instances
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
