//! The parts that all controllers share, those of Kerf (`kerf-controllers`) and those of cloud
//! providers: queues with workers, Events, metrics, logs, and the shared cluster state.
//!
//! A controller implements [`Reconcile`]. [`ControllerSet`] gives it a queue, runs it, counts and
//! times its reconciles, and logs its failures. [`ChangeHandlers`] connects watched kinds with the
//! queues of controllers that are not known here.
//!
//! This crate holds no rule about nodes or pods, and names no controller.

mod change_handlers;
mod cluster;
mod concurrency;
mod controller;
mod controller_set;
pub mod events;
pub mod logs;
pub mod metrics;
mod node_claims;
mod reconcile;
mod recorder;

pub use change_handlers::{ChangeHandler, ChangeHandlers, HandledKind};
pub use cluster::SharedCluster;
pub use concurrency::Concurrency;
pub use controller::{ControllerName, Reconcile, ReconcileError};
pub use controller_set::{ControllerEnvironment, ControllerSet, RegisteredController, SINGLETON_KEY};
pub use events::{Event, EventType, Publish};
pub use metrics::{ControllerMetrics, Registry};
pub use node_claims::delete_claim;
pub use reconcile::{current_controller, instrument_event, instrument_reconcile};
pub use recorder::Recorder;
