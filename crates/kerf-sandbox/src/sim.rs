//! Whole-cluster runs: a scenario says what happens to a cluster and when, the autoscaler under test does what it does, and a report says
//! what came of it. On a paused clock a day takes seconds, and the same seed gives the same day again.
//!
//! ```text
//! Scenario ──steps──► Cluster ◄──── the system under test, whatever it is
//!                        │ every change
//!                     Witness ──► Ledger ──► invariants (at every change), Report (at the end)
//! ```
//! First comes the *safety* phase, in which steps and faults happen and nothing that must not happen may happen; then the *liveness* phase,
//! in which nothing goes wrong any more and everything that was asked for must come true.

mod actor;
mod cost_meter;
mod faults;
mod invariant_checker;
mod invariant_watcher;
mod invariants;
mod report;
mod run;
mod scenario;
mod steady;

pub use faults::NamedFault;
pub use invariant_watcher::InvariantWatcher;
pub use report::{
    Appraisal, CostReport, NodeReport, PodReport, Sample, SimulationReport, SteadyReport, TimesToRun, Violation,
};
pub use run::{ProgressLine, Simulation};
pub use scenario::{
    InterruptStep, PatchStep, ScaleStep, Scenario, ScenarioError, ScenarioStep, ScenarioTarget, Steady,
};
