//! The shell: every controller, one module each, and the process that they run in. Controllers read the cluster's state,
//! ask the engine, and act; a rule that could be in the engine does not live here, and no concrete provider is named.

mod actions;
mod context;
mod controllers;
mod disruption;
mod error;
pub mod events;
pub mod logs;
pub mod metrics;
mod node;
mod nodeclaim;
mod nodepool;
mod process;
mod provisioning;
mod recorder;
mod static_capacity;

pub use context::{Context, Settings, SharedCluster};
pub use controllers::Controllers;
pub use disruption::DecisionHistory;
pub use error::Error;
pub use events::{Event, Publish};
pub use metrics::Metrics;
pub use process::{LeaderElection, ProcessSettings, RunError, metered_client, run};
pub use recorder::Recorder;
