//! A Kubernetes cluster in one process: API server, workload controllers, scheduler, kubelets,
//! injected faults and virtual time. `kerf sandbox` runs it, and so does every integration test. It
//! never depends on the engine, because its scheduler checks the engine's predictions.
//!
//! The entry point is [`Cluster`]:
//!
//! ```no_run
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! use kerf_runtime::Clock;
//! use kerf_sandbox::{Cluster, ClusterConfig, Timing};
//!
//! let config = ClusterConfig { clock: Clock::system(), seed: 7, timing: Timing::LIFELIKE };
//! let cluster = Cluster::start(config);
//! cluster.add_nodes(3)?;
//! // A `kube::Client` without sockets, for code in this process.
//! let client = cluster.api().client_as("kerf");
//! // HTTPS on 127.0.0.1, for kubectl and other processes.
//! let serving = cluster.api().serve(0).await?;
//! std::fs::write("kubeconfig", serving.kubeconfig())?;
//! # drop(client); Ok(())
//! # }
//! ```
//!
//! A cluster consists of an [`ApiServer`], which can also be used alone, the workload controllers,
//! the scheduler and the kubelets. Creating a Node object with KWOK's annotation
//! `kwok.x-k8s.io/node` creates a simulated instance, whichever client creates the Node. A
//! [`SimulatedCloud`] has instances of its own, which register their Nodes after they have booted.
//!
//! With a [`kerf_runtime::Clock`] on a paused tokio runtime the cluster runs in virtual time. Two
//! runs with one seed then make the same writes in the same order; [`ApiServer::fingerprint`]
//! verifies it. [`FaultRule`] injects faults into API requests and [`CloudFaultRule`] into the
//! cloud. [`ApiServer::start_audit`] records all writes with their user agents.
//!
//! [`dry_create_built_in`] checks manifests without a cluster: it returns the API server's result
//! for an object.

mod api;
mod audit;
mod aws_step;
mod cloud;
mod cluster;
mod durations;
mod faults;
mod identifiers;
mod install;
pub mod sim;
mod simulated_cloud;

pub use api::{
    ApiServer, ApiServerConfig, Body, ConnectionLost, DryCreateReport, ServeError, ServerHandle, Verb,
    built_in_field_names, dry_create_built_in,
};
pub use audit::AuditedWrite;
pub use aws_step::{
    AwsStep, CallFaultName, CallFaultStep, CapacityTypeName, FailStep, InstanceSelector, LaunchFailureStep,
    PoolSelector, PriceStep, PublishImagesStep, QuotaStep, ReservationStep, Share, SpotMarketStep, StatusCheckName,
    StatusCheckStep, StockOutStep, SubnetAddressesStep, TagsStep, ZonalShiftStep,
};
pub use cloud::{Cloud, CloudFault, CloudFaultRule, LaunchError, OfferingRef};
pub use cluster::{
    AddNodeError, Cluster, ClusterConfig, ClusterCost, ClusterEvent, Delay, Scheduler, SimulatedInstances, Timing,
    VolumeController,
};
pub use faults::{Fault, FaultRule};
pub use install::{InstallError, install_crds};
pub use kerf_runtime::Rng;
pub use simulated_cloud::{CloudChanges, CloudInstance, InstanceList, InstanceState, NodeRegistration, SimulatedCloud};
