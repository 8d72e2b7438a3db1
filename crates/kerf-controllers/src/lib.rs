//! All controllers of Kerf, one module each, and the process that they run in. A controller reads
//! cluster state, calls the engine for decisions, and acts on the result.
//!
//! No rule that the engine could hold lives here, and no code here names a concrete cloud provider.

mod actions;
mod context;
mod controllers;
mod disruption;
mod error;
pub mod events;
pub mod metrics;
mod node;
mod nodeclaim;
mod nodepool;
mod process;
mod provisioning;
mod static_capacity;

pub use context::{Context, Settings};
pub use controllers::Controllers;
pub use disruption::DecisionHistory;
pub use error::Error;
pub use metrics::Metrics;
pub use process::{LeaderElection, ProcessSettings, RunError, metered_client, run};
