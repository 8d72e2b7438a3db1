//! `disruption` and `disruption.queue`: nodes that are empty, not what their pool says any more, or dearer than need be are taken away or
//! replaced, under budgets and without losing a pod (spec 03).
//!
//! `pass` looks at the cluster and decides, or rather lets the engine decide; `queue` carries decisions out. Between them they
//! share the commands under way, the memory of what did not work, and the history that `/decisions` serves. A rule about which node may
//! go does not live here: it would be the engine's.

mod balance;
mod decision;
mod history;
mod memo;
mod memory;
mod news;
mod pass;
mod queue;
mod report;
mod rest;
mod runs;
mod start;
mod taint;
mod wake;

pub use history::History;
pub(crate) use memory::Memory;
pub(crate) use news::News;
pub(crate) use pass::{Disruption, SOON};
pub(crate) use queue::Orchestration;
pub(crate) use report::forget_pool;
