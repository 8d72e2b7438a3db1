//! `disruption` and `disruption.queue`: delete or replace nodes that are empty, that differ from
//! what their NodePool specifies, or that cost more than necessary. NodePool budgets and
//! PodDisruptionBudgets are respected (spec 03).
//!
//! `pass` takes a snapshot of the cluster and lets the engine decide; `queue` carries decisions
//! out. They share the active commands, the back-offs after failures, and the history that
//! `/decisions` serves. No rule about which node may be disrupted lives here; such rules belong to
//! the engine.

mod balanced_policy;
mod churn_backoff;
mod consolidation_timestamp;
mod decision;
mod fresh_view;
mod held_commands;
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
pub(crate) use fresh_view::FRESH_KINDS;
pub use history::DecisionHistory;
pub(crate) use pass::{CHANGE_COALESCE_DELAY, DisruptionController};
pub(crate) use queue::CommandQueue;
pub(crate) use report::remove_pool_metrics;
pub(crate) use triggers::DisruptionTrigger;
