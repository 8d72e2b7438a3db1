//! `disruption` and `disruption.queue`: nodes that are empty, not what their pool says any more, or dearer than need be are taken away or
//! replaced, under budgets and without losing a pod (spec 03).
//!
//! `pass` looks at the cluster and decides, or rather lets the engine decide; `queue` carries decisions out. Between them they
//! share the commands under way, the memory of what did not work, and the history that `/decisions` serves. A rule about which node may
//! go does not live here: it would be the engine's.

mod balanced_policy;
mod churn_backoff;
mod consolidation_timestamp;
mod decision;
mod history;
mod low_value_moves;
mod next_change;
mod pass;
mod queue;
mod report;
mod start;
mod step_times;
mod taint;
mod triggers;

pub(crate) use churn_backoff::DriftBackoffs;
pub use history::DecisionHistory;
pub(crate) use pass::{CHANGE_COALESCE_DELAY, DisruptionController};
pub(crate) use queue::CommandQueue;
pub(crate) use report::remove_pool_metrics;
pub(crate) use triggers::DisruptionTrigger;
