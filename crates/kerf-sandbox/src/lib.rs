//! A whole Kubernetes cluster in one process: API server, workload controllers, scheduler, kubelets, faults, virtual time.
//! It is where newcomers meet Kerf and where every integration test runs. It never depends on the engine: its scheduler is
//! the judge of the engine's predictions.
//!
//! The front door is [`Cluster`]:
//!
//! ```no_run
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! use kerf_runtime::Clock;
//! use kerf_sandbox::{Cluster, ClusterConfig, Timing};
//!
//! let cluster = Cluster::start(ClusterConfig { clock: Clock::system(), seed: 7, timing: Timing::LIFELIKE });
//! cluster.add_nodes(3)?;
//! let client = cluster.api().client_as("kerf"); // a `kube::Client`, no sockets: for everything that runs in this process
//! let serving = cluster.api().serve(0).await?;  // HTTPS on 127.0.0.1, for kubectl and the like
//! std::fs::write("kubeconfig", serving.kubeconfig())?;
//! # drop(client); Ok(())
//! # }
//! ```
//!
//! Inside are an [`ApiServer`], which can also be used alone, the workload controllers, the scheduler and the kubelets. A machine comes into
//! being with a Node object that carries KWOK's annotation `kwok.x-k8s.io/node`, whoever creates it.
//!
//! With a [`kerf_runtime::Clock`] on a paused tokio runtime the same cluster runs in virtual time, and with one seed the same way
//! twice ([`ApiServer::fingerprint`] says whether it did). [`FaultRule`]s make things go wrong at the API and [`CloudRule`]s at the cloud, [`ApiServer::start_audit`] lists who
//! writes what.
//!
//! Whoever has manifests and no cluster can ask [`judge_built_in`] what the server would say of an object.

mod api;
mod audit;
mod cloud;
mod cluster;
mod faults;
mod install;
mod rng;
pub mod sim;

pub use api::{
    ApiServer, ApiServerConfig, Body, ConnectionLost, DryCreateReport, ServeError, ServerHandle, Verb,
    dry_create_built_in,
};
pub use audit::AuditedWrite;
pub use cloud::{Cloud, CloudFault, CloudFaultRule, LaunchError, OfferingRef};
pub use cluster::{
    AddNodeError, Cluster, ClusterConfig, ClusterCost, ClusterEvent, Delay, Scheduler, SimulatedInstances, Timing,
    VolumeController,
};
pub use faults::{Fault, FaultRule};
pub use install::{InstallError, install_crds};
pub use rng::Rng;
