//! The format of scenario files: what happens to a cluster, and when. Reading a file reports all
//! its errors at once. The JSON schema of the format is derived from these types.

mod by_hand;
mod expect;
mod fields;
mod read;
mod steps;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::faults::FaultSetting;
use crate::durations::{self, DurationText};
pub use by_hand::read_aws_step;
pub use expect::{ConditionExpectation, EventExpectation, ExpectStep, LabelExpectation, LogExpectation};
pub use read::ScenarioError;
pub use steps::{
    ClockStep, ControllerName, EditStatusStep, InterruptStep, PatchStep, ScaleStep, ScenarioStep, ScenarioTarget,
    StopStep,
};

/// A timed sequence of steps for a cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario, for the report.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Cloud provider of the controllers. If not set, it is the provider of the node classes that
    /// the objects name. The flag `--provider` wins.
    #[serde(default)]
    pub provider: Option<ScenarioProvider>,
    /// Settings of the controllers.
    #[serde(default)]
    pub controller: ControllerOptions,
    /// Length of the safety phase, at most 8784h.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub until: Duration,
    /// True if instances and pods start and stop without delay.
    #[serde(default)]
    pub instant: bool,
    /// Number of nodes that exist from the start and that no autoscaler manages.
    #[serde(default)]
    #[schemars(range(max = 5_000))]
    pub nodes: u32,
    /// Number of pods that are expected to stay pending. More pending pods at the end are a
    /// violation.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub pending: usize,
    /// Number of replicas of the controller from the start, which elect a leader. One if not set.
    #[serde(default)]
    #[schemars(range(max = 10))]
    pub replicas: Option<u32>,
    /// Faults that are active from the start.
    #[serde(default)]
    pub faults: Vec<FaultSetting>,
    /// Demands a steady cluster from a given time on.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Compares the price of the nodes with that of the best plan, for the report. Not in a
    /// scenario with `steady`, which compares them too.
    #[serde(default)]
    pub plan_comparison: Option<PlanComparison>,
    /// Steps, ordered by time.
    pub steps: Vec<ScenarioStep>,
}

/// A cloud provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ScenarioProvider {
    /// Simulated instances, as Nodes.
    Kwok,
    /// An EC2 in memory.
    Aws,
}

/// Settings of the controllers that a scenario needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControllerOptions {
    /// Feature gates, for example `NodeRepair=true`, instead of `--feature-gates`.
    #[serde(default)]
    pub feature_gates: Option<String>,
    /// True if zonal shifts are honoured, with `provider: aws`.
    #[serde(default)]
    pub enable_zonal_shift: bool,
    /// Name of the interruption queue, with `provider: aws`; that of the cluster if not set, and no
    /// queue if empty.
    #[serde(default)]
    pub interruption_queue: Option<String>,
}

/// Demands that a cluster with constant demand is steady: pods of unchanged workloads are not
/// evicted, and the nodes cost little more than the best plan for the same pods.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Steady {
    /// Time from which the cluster has to be steady, since the start.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub from: Duration,
    /// Interval of the cost comparisons from then on, at least 1s. No comparison is made while a
    /// fault is active and for half an hour afterwards.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub every: Duration,
    /// Age from which a workload counts as unchanged. One hour if not set.
    #[serde(default, deserialize_with = "durations::optional")]
    #[schemars(with = "DurationText")]
    pub unchanged_for: Option<Duration>,
    /// Allowed excess of the nodes' cost over the best plan's cost, in percent.
    #[schemars(range(max = 10_000))]
    pub cost_within_percent: u32,
}

/// Times at which the price of the nodes is compared with the price of the nodes that the engine
/// would launch for the same pods if there were none.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanComparison {
    /// Time of the first comparison, since the start.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub from: Duration,
    /// Interval of the comparisons from then on, at least 1s.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub every: Duration,
}

/// One occurrence of a step.
pub(super) struct TimedStep<'s> {
    /// Time since the start.
    pub(super) at: Duration,
    /// Index of the step in the file, for messages.
    pub(super) index: usize,
    pub(super) step: &'s ScenarioStep,
}

impl Scenario {
    /// Returns the JSON schema of scenario files.
    pub fn json_schema() -> Value {
        schemars::schema_for!(Scenario).to_value()
    }

    /// Returns the times of the cost comparisons: the first, and the interval.
    pub(super) fn comparison_times(&self) -> Option<(Duration, Duration)> {
        let plan = self.plan_comparison.map(|plan| (plan.from, plan.every));
        self.steady.map(|steady| (steady.from, steady.every)).or(plan)
    }

    /// Returns true if the replicas of the controller have to elect a leader: a step changes their
    /// number, or one of them is killed or stopped.
    pub(super) fn needs_leader_election(&self) -> bool {
        let has_process_step =
            |step: &ScenarioStep| step.replicas.is_some() || step.kill.is_some() || step.stop.is_some();
        self.replicas.is_some() || self.steps.iter().any(has_process_step)
    }

    /// Returns all steps until the end, ordered by time. A repeated step occurs once per
    /// repetition.
    pub(super) fn timeline(&self) -> Vec<TimedStep<'_>> {
        let times = |step: &ScenarioStep| match step.every.filter(|every| !every.is_zero()) {
            Some(every) => std::iter::successors(Some(step.at), |at| at.checked_add(every))
                .take_while(|at| *at <= self.until)
                .collect(),
            None => vec![step.at],
        };
        let repetitions = |(index, step)| times(step).into_iter().map(move |at| TimedStep { at, index, step });
        let mut all: Vec<TimedStep<'_>> = self.steps.iter().enumerate().flat_map(repetitions).collect();
        all.sort_by_key(|timed| timed.at);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_step_happens_until_the_end() {
        let text = "{name: x, until: 1h, steps: [{at: 10m, every: 20m, say: a}, {at: 35m, say: b}]}";
        let scenario: Scenario = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let fields = |timed: &TimedStep<'_>| (timed.at.as_secs() / 60, timed.index, timed.step.say.clone());
        let timeline: Vec<(u64, usize, Option<String>)> = scenario.timeline().iter().map(fields).collect();
        let expected = [(10, 0, "a"), (30, 0, "a"), (35, 1, "b"), (50, 0, "a")];
        assert_eq!(timeline, expected.map(|(at, index, text)| (at, index, Some(text.to_owned()))));
    }
}
