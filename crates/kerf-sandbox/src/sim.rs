//! Whole-cluster simulations. A scenario states what happens to a cluster and when, an autoscaler
//! under test reacts, and a report states the outcome. On a paused clock a day takes seconds, and
//! the same seed repeats the same day.
//!
//! ```text
//! Scenario ──steps──► Cluster ◄──── the system under test
//!                        │ every change
//!                  InvariantWatcher ──► InvariantChecker ──► violations, SimulationReport
//!                        ▲ every change
//!                  SimulatedCloud, if one is attached
//! ```
//!
//! In the *safety* phase, steps and faults happen, and no invariant may be violated. In the
//! *liveness* phase, faults are off, and the cluster must reach the desired state.

mod actor;
mod cost_meter;
mod expectations;
mod expected_log;
mod faults;
mod invariant_checker;
mod invariant_watcher;
mod invariants;
mod node_instances;
mod replicas;
mod report;
mod run;
mod scenario;
mod steady;

pub use expectations::ControllerOutput;
pub use expected_log::ExpectedLog;
pub use faults::{FaultSetting, NamedFault};
pub use invariant_watcher::InvariantWatcher;
pub use replicas::ReplicaStart;
pub use report::{
    CostComparison, CostReport, NodeReport, PlanComparisonReport, PodReport, Sample, SimulationReport, SteadyReport,
    TimesToRun, Violation,
};
pub use run::{ProgressLine, Simulation};
pub use scenario::{
    ClockStep, ConditionExpectation, ControllerName, ControllerOptions, EditStatusStep, EventExpectation, ExpectStep,
    InterruptStep, LabelExpectation, LogExpectation, PatchStep, PlanComparison, ScaleStep, Scenario, ScenarioError,
    ScenarioProvider, ScenarioStep, ScenarioTarget, Steady, StopStep, read_aws_step,
};
