//! A whole Kubernetes cluster in one process: API server, workload controllers, scheduler, kubelets, faults, virtual time.
//! It is where newcomers meet Kerf and where every integration test runs. It never depends on the engine: its scheduler is
//! the judge of the engine's predictions.
//!
//! The front door is [`ApiServer`]:
//!
//! ```no_run
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! use kerf_runtime::Clock;
//! use kerf_sandbox::{ApiServer, Config};
//!
//! let server = ApiServer::new(Config::new(Clock::system(), 7));
//! let client = server.client_as("kube-scheduler"); // a `kube::Client`, no sockets: for everything that runs in this process
//! let serving = server.serve(0).await?;            // HTTPS on 127.0.0.1, for kubectl and the like
//! std::fs::write("kubeconfig", serving.kubeconfig())?;
//! # drop(client); Ok(())
//! # }
//! ```
//!
//! With a [`kerf_runtime::Clock`] on a paused tokio runtime the same server runs in virtual time, and with one seed the same way
//! twice ([`ApiServer::fingerprint`] says whether it did). [`FaultRule`]s make things go wrong, [`ApiServer::start_audit`] lists who
//! writes what.

mod api;
mod audit;
mod cluster;
mod faults;
mod seed;

pub use api::{ApiServer, Body, Config, ConnectionLost, ServeError, Serving, Verb};
pub use audit::Write;
pub use cluster::{Scheduler, VolumeController};
pub use faults::{Fault, FaultRule};
pub use seed::Rng;
