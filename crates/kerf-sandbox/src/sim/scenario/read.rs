//! Reads scenario files. All errors are reported at once, each with its path.

use std::fmt;
use std::time::Duration;

use kerf_api::yaml::{self, YamlError};
use serde_json::{Map, Value};

use super::super::faults::FaultSetting;
use super::fields::field_errors;
use super::{Scenario, ScenarioStep, ScenarioTarget};

/// Names of all expectations, for messages.
const EXPECTATIONS: &str = "podsRunning, podsPending, nodes, nodeClaims, instances, log, logLacks, events, conditions, \
                            labels, metrics";

/// Statuses of conditions; empty for a condition that is missing.
const CONDITION_STATUSES: [&str; 4] = ["", "True", "False", "Unknown"];

/// Kinds of which a NodePool has objects.
const KINDS_OF_POOLS: [&str; 2] = ["Node", "NodeClaim"];

/// Longest scenario, and longest duration in one: a leap year.
pub(super) const LONGEST_DURATION: Duration = Duration::from_hours(366 * 24);
/// Shortest interval of repetitions.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of times that the steps of a scenario happen, and of its cost comparisons.
const OCCURRENCES_MAX: u128 = 500_000;
/// Maximum of the sum of all jumps of the clock: ten years.
const LONGEST_JUMPS: Duration = Duration::from_hours(10 * 366 * 24);
/// Maximum number of replicas of a workload.
pub(super) const WORKLOAD_REPLICAS_MAX: u64 = 50_000;

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ScenarioError {
    /// Line of the field, from 1; `None` if the scenario was not read from a text.
    pub line: Option<u32>,
    /// Path of the field, such as `steps[0].at`. Steps are counted from 0. Empty for an error of
    /// the whole file.
    pub path: String,
    /// Description of the error.
    pub why: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.why)
    }
}

impl Scenario {
    /// Reads a scenario from YAML, by the rules that kubectl has for manifests. Fails with all
    /// errors in it, each with its line.
    pub fn parse(text: &str) -> Result<Self, Vec<ScenarioError>> {
        let unreadable =
            |error: &YamlError| ScenarioError { line: Some(error.line), path: String::new(), why: error.to_string() };
        let lines = yaml::value_lines(text).map_err(|error| vec![unreadable(&error)])?;
        let tree = yaml::parse(text).map_err(|errors| errors.iter().map(unreadable).collect::<Vec<_>>())?;
        let duplicates = lines.duplicate_fields.iter().map(|(path, line)| ScenarioError {
            line: Some(*line),
            path: path.clone(),
            why: "the object has this field twice: remove one of them".to_owned(),
        });
        let mut errors: Vec<ScenarioError> = duplicates.collect();
        match Self::read(tree) {
            Ok(scenario) if errors.is_empty() => return Ok(scenario),
            Ok(_) => {}
            Err(others) => errors.extend(others.into_iter().map(|error| {
                let line = lines.line_of(&error.path).or(Some(1));
                ScenarioError { line, ..error }
            })),
        }
        errors.sort_by_key(|error| error.line);
        Err(errors)
    }

    /// Reads a scenario. Fails with all errors in it.
    pub fn read(tree: Value) -> Result<Self, Vec<ScenarioError>> {
        let errors = field_errors(&tree);
        if !errors.is_empty() {
            return Err(errors);
        }
        let scenario: Self = serde_json::from_value(tree)
            .map_err(|cause| vec![ScenarioError { line: None, path: "scenario".to_owned(), why: cause.to_string() }])?;
        let errors = scenario.validation_errors();
        if errors.is_empty() { Ok(scenario) } else { Err(errors) }
    }

    /// Replaces `until`, and removes the steps that would happen later. Fails with all reasons why
    /// the scenario cannot have this length; it then stays as it is.
    pub fn set_length(&mut self, until: Duration) -> Result<(), Vec<String>> {
        check_length(until).map_err(|why| vec![why])?;
        let mut changed = Self { until, ..self.clone() };
        changed.steps.retain(|step| step.at <= until);
        let mut errors = Vec::new();
        changed.add_bound_errors(&mut |path, why| errors.push(format!("{path}: {why}")));
        if !errors.is_empty() {
            return Err(errors);
        }
        *self = changed;
        Ok(())
    }

    /// Returns all errors in values that have the right type, such as steps in the wrong order.
    fn validation_errors(&self) -> Vec<ScenarioError> {
        let mut errors = Vec::new();
        let mut add_error = |path: String, why: String| errors.push(ScenarioError { line: None, path, why });
        if let Err(why) = check_length(self.until) {
            add_error("until".to_owned(), why);
        }
        self.add_fault_errors(&self.faults, "faults", Duration::ZERO, &mut add_error);
        let mut last = Duration::ZERO;
        for (index, step) in self.steps.iter().enumerate() {
            let path = format!("steps[{index}]");
            let mut add_step_error = |field: &str, why: &str| {
                let separator = if field.is_empty() { "" } else { "." };
                add_error(format!("{path}{separator}{field}"), why.to_owned());
            };
            if step.at < last {
                add_step_error("at", "must not be earlier than `at` of the previous step");
            }
            if step.at > self.until {
                add_step_error("at", "must not be later than `until`, the end of the scenario");
            }
            last = last.max(step.at);
            step.add_errors(&mut add_step_error);
            let faults = step.faults.as_deref().unwrap_or_default();
            self.add_fault_errors(faults, &format!("{path}.faults"), step.at, &mut add_error);
        }
        self.add_comparison_errors(&mut add_error);
        self.add_bound_errors(&mut add_error);
        errors
    }

    /// Reports the bounds that the scenario exceeds because of its length.
    fn add_bound_errors(&self, add_error: &mut impl FnMut(String, String)) {
        if let Some((from, every)) = self.comparison_times().filter(|(_, every)| *every >= SHORTEST_INTERVAL)
            && self.until.saturating_sub(from).as_nanos() / every.as_nanos() > OCCURRENCES_MAX
        {
            let why = format!("compares the cost too often, at most {OCCURRENCES_MAX} times are possible");
            add_error(format!("{}.every", self.comparison_field()), why);
        }
        let occurrences: u128 = self.steps.iter().map(|step| self.occurrences(step)).sum();
        if occurrences > OCCURRENCES_MAX {
            let why =
                format!("happen {occurrences} times, at most {OCCURRENCES_MAX} are possible: repeat them less often");
            add_error("steps".to_owned(), why);
        }
        let jumps = self.steps.iter().filter_map(|step| Some((step.clock?.jump, self.occurrences(step))));
        let seconds: u128 = jumps.map(|(jump, times)| u128::from(jump.as_secs()).saturating_mul(times)).sum();
        if seconds > u128::from(LONGEST_JUMPS.as_secs()) {
            add_error("steps".to_owned(), "the jumps of the clock together must not exceed ten years".to_owned());
        }
    }

    /// Returns the number of times that a step happens.
    fn occurrences(&self, step: &ScenarioStep) -> u128 {
        let left = self.until.saturating_sub(step.at).as_nanos();
        step.every.filter(|every| !every.is_zero()).map_or(1, |every| left / every.as_nanos() + 1)
    }

    /// Returns the field that sets the times of the cost comparisons.
    fn comparison_field(&self) -> &'static str {
        if self.steady.is_some() { "steady" } else { "planComparison" }
    }

    fn add_comparison_errors(&self, add_error: &mut impl FnMut(String, String)) {
        if self.steady.is_some() && self.plan_comparison.is_some() {
            let why = "must not stand beside steady, which compares the cost too: remove one of them";
            add_error("planComparison".to_owned(), why.to_owned());
        }
        let field = self.comparison_field();
        if let Some((from, every)) = self.comparison_times() {
            if from > self.until {
                let why = "must not be later than `until`, the end of the scenario";
                add_error(format!("{field}.from"), why.to_owned());
            }
            if every < SHORTEST_INTERVAL {
                add_error(format!("{field}.every"), "must be at least 1s, for example 1h".to_owned());
            }
        }
        if let Some(Err(why)) = self.steady.and_then(|steady| steady.unchanged_for).map(check_longest) {
            add_error("steady.unchangedFor".to_owned(), why);
        }
    }

    /// Reports faults that would never be active, because their window is not part of the run.
    /// `since` is the time from which they are set.
    fn add_fault_errors(
        &self,
        faults: &[FaultSetting],
        path: &str,
        since: Duration,
        add_error: &mut impl FnMut(String, String),
    ) {
        for (index, fault) in faults.iter().enumerate() {
            if let Err(why) = fault.check_active(since, self.until) {
                add_error(format!("{path}[{index}]"), why);
            }
        }
    }
}

/// Fails for a length that a scenario cannot have.
fn check_length(length: Duration) -> Result<(), String> {
    if length.is_zero() {
        return Err("must be longer than 0s".to_owned());
    }
    check_longest(length)
}

/// Fails for a duration that is too long for a scenario.
fn check_longest(duration: Duration) -> Result<(), String> {
    if duration > LONGEST_DURATION {
        return Err(format!("must be at most {}h, a year", LONGEST_DURATION.as_secs() / 3600));
    }
    Ok(())
}

impl ScenarioStep {
    /// Reports the errors of one step that do not depend on other steps. `add_error` takes the
    /// field, which is empty for the whole step.
    fn add_errors(&self, add_error: &mut impl FnMut(&str, &str)) {
        if self.every.is_some_and(|every| every < SHORTEST_INTERVAL) {
            add_error("every", "must be at least 1s");
        }
        if !self.has_action() {
            add_error("", &format!("the step has no action: add one of {}", Self::ACTIONS));
        }
        for (index, object) in self.apply.iter().enumerate() {
            let name = object.get("metadata").and_then(|metadata| metadata.get("name"));
            for (field, value) in
                [("apiVersion", object.get("apiVersion")), ("kind", object.get("kind")), ("metadata.name", name)]
            {
                if value.and_then(Value::as_str).is_none_or(str::is_empty) {
                    add_error(&format!("apply[{index}].{field}"), "is missing, or is not a text");
                }
            }
            if has_too_many_replicas(object) {
                add_error(
                    &format!("apply[{index}].spec.replicas"),
                    &format!("must be at most {WORKLOAD_REPLICAS_MAX} in a scenario"),
                );
            }
        }
        if self.patch.as_ref().is_some_and(|patch| has_too_many_replicas(&patch.merge)) {
            add_error("patch.merge.spec.replicas", &format!("must be at most {WORKLOAD_REPLICAS_MAX} in a scenario"));
        }
        for (action, target) in self.targets() {
            target.add_errors(action, add_error);
        }
        let conditions = self.expect.iter().flat_map(|expect| &expect.conditions);
        for (index, own) in conditions.enumerate() {
            let path = format!("expect.conditions[{index}]");
            own.target().add_errors(&path, add_error);
            for (field, text) in [("kind", &own.kind), ("type", &own.condition)] {
                if text.is_empty() {
                    add_error(&format!("{path}.{field}"), "is empty");
                }
            }
            if !CONDITION_STATUSES.contains(&own.status.as_str()) {
                let why = "must be \"True\", \"False\" or \"Unknown\", or empty for a condition that is missing";
                add_error(&format!("{path}.status"), why);
            }
        }
        let events = self.expect.iter().flat_map(|expect| &expect.events);
        for (index, own) in events.enumerate() {
            // Two Events of Karpenter have no reason; they are known by their object or their text.
            if own.reason.is_empty() && own.kind.is_none() && own.message.is_none() {
                add_error(
                    &format!("expect.events[{index}]"),
                    "is empty: add a reason, a kind or a part of the message",
                );
            }
        }
        let labels = self.expect.iter().flat_map(|expect| &expect.labels);
        for (index, own) in labels.enumerate() {
            let path = format!("expect.labels[{index}]");
            own.target().add_errors(&path, add_error);
            if own.labels.is_empty() {
                add_error(&format!("{path}.labels"), "is empty: add a label and its value");
            }
        }
        if let Some(edit) = &self.edit_status {
            if edit.status.is_some() && edit.merge.is_some() {
                add_error("editStatus", "has `status` and `merge`: remove one of them");
            } else if edit.status().is_none() {
                add_error("editStatus", "lacks `status`, the new fields, for example status: {phase: Failed}");
            }
            if edit.merge.as_ref().is_some_and(|merge| merge.keys().any(|key| key != "status")) {
                add_error("editStatus.merge", "only `status` can be edited: use the action `patch` for other fields");
            }
        }
        if self.expect.as_ref().is_some_and(|expect| *expect == super::ExpectStep::default()) {
            add_error("expect", &format!("has no fact: add one of {EXPECTATIONS}"));
        }
        if let Some(aws) = &self.aws {
            aws.add_errors(&mut |field, why| add_error(&format!("aws{field}"), why));
        }
        let durations = [
            ("stop.controller", self.stop.map(|stop| stop.controller)),
            ("clock.jump", self.clock.map(|clock| clock.jump)),
        ];
        for (field, duration) in durations {
            if let Some(Err(why)) = duration.map(check_length) {
                add_error(field, &why);
            }
        }
        if self.stop.is_some() && self.kill.is_some() {
            add_error("", "one step cannot both kill and stop the controller: use two steps");
        }
    }
}

impl ScenarioTarget {
    /// Reports a target that names no object, or names it twice. `field` is its field.
    fn add_errors(&self, field: &str, add_error: &mut impl FnMut(&str, &str)) {
        match (&self.name, &self.pool) {
            (Some(_), None) => {}
            (None, Some(_)) if KINDS_OF_POOLS.contains(&self.kind.as_str()) => {}
            (None, Some(_)) => add_error(
                &format!("{field}.pool"),
                &format!("a NodePool has no objects of kind {}: use kind Node or NodeClaim, or `name`", self.kind),
            ),
            (Some(_), Some(_)) => add_error(field, "has `name` and `pool`: remove one of them"),
            (None, None) => add_error(field, "lacks `name`, or `pool` for some Node or NodeClaim of a NodePool"),
        }
    }
}

/// Returns true if an object or a patch sets more replicas than a scenario can have.
fn has_too_many_replicas(object: &Map<String, Value>) -> bool {
    let replicas = object.get("spec").and_then(|spec| spec.get("replicas"));
    replicas.and_then(Value::as_f64).is_some_and(|replicas| replicas > WORKLOAD_REPLICAS_MAX as f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::faults::NamedFault;
    use super::*;

    fn errors_of(text: &str) -> Vec<String> {
        Scenario::parse(text).map(drop).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_errors_are_reported() {
        let text = "{name: x, until: 1m, steps: [{at: 2m, say: a}, {at: 30s},\n {at: 40s, apply: [{kind: Pod}]}]}";
        assert_eq!(
            errors_of(text),
            [
                "line 1: steps[0].at: must not be later than `until`, the end of the scenario",
                "line 1: steps[1].at: must not be earlier than `at` of the previous step",
                "line 1: steps[1]: the step has no action: add one of apply, scale, restart, patch, editStatus, delete, \
                 interrupt, aws, faults, kill, stop, replicas, clock, expect, say",
                "line 2: steps[2].at: must not be earlier than `at` of the previous step",
                "line 2: steps[2].apply[0].apiVersion: is missing, or is not a text",
                "line 2: steps[2].apply[0].metadata.name: is missing, or is not a text",
            ]
        );
    }

    #[test]
    fn errors_of_targets_and_process_steps_say_what_to_write() {
        let text = "
name: x
until: 1m
steps:
  - {at: 0s, delete: {kind: Node}, patch: {kind: Node, name: a, pool: b, merge: {}}}
  - {at: 0s, restart: {kind: Deployment, pool: b}, expect: {}}
  - {at: 0s, editStatus: {kind: Node, pool: b}}
  - {at: 0s, editStatus: {kind: Node, pool: b, merge: {spec: {}, status: {phase: Failed}}}}
  - {at: 0s, editStatus: {kind: Node, pool: b, status: {}, merge: {status: {}}}}
  - {at: 0s, kill: controller, stop: {controller: 0s}, clock: {jump: 0s}}
";
        assert_eq!(
            errors_of(text),
            [
                "line 5: steps[0].patch: has `name` and `pool`: remove one of them",
                "line 5: steps[0].delete: lacks `name`, or `pool` for some Node or NodeClaim of a NodePool",
                "line 6: steps[1].restart.pool: a NodePool has no objects of kind Deployment: use kind Node or \
                 NodeClaim, or `name`",
                "line 6: steps[1].expect: has no fact: add one of podsRunning, podsPending, nodes, nodeClaims, instances, \
                 log, logLacks, events, conditions, labels, metrics",
                "line 7: steps[2].editStatus: lacks `status`, the new fields, for example status: {phase: Failed}",
                "line 8: steps[3].editStatus.merge: only `status` can be edited: use the action `patch` for other \
                 fields",
                "line 9: steps[4].editStatus: has `status` and `merge`: remove one of them",
                "line 10: steps[5].stop.controller: must be longer than 0s",
                "line 10: steps[5].clock.jump: must be longer than 0s",
                "line 10: steps[5]: one step cannot both kill and stop the controller: use two steps",
            ]
        );
    }

    #[test]
    fn changes_of_the_account_that_change_nothing_are_errors() {
        let text = "
name: x
until: 1h
provider: aws
steps:
  - {at: 0s, aws: {stockOut: {for: 0s}, emptyFleets: 0, fail: {instances: {}, reason: ''}}}
  - {at: 0s, aws: {addReservation: {id: foo, instanceType: m5.large, zone: us-west-2a, count: 1}}}
  - {at: 0s, aws: {tags: {resources: '*', add: {'aws:x': b}, remove: ['']}}}
  - {at: 0s, aws: {publishImages: {release: '20261399', bottlerocket: v1}}}
  - {at: 0s, aws: {callFault: {fault: throttled, rate: 0%}, zonalShift: {zone: us-west-2a, for: 99999h}}}
  - {at: 0s, aws: {callFault: {fault: throttled, rate: half}}}
  - {at: 0s, expect: {conditions: [{kind: Node, pool: a, type: Ready, status: maybe}], events: [{reason: ''}]}}
";
        let errors = |text: &str| -> Vec<String> {
            Scenario::parse(text).map(drop).unwrap_err().iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            errors(text),
            ["line 11: steps[5].aws.callFault.rate: \"half\" is not between 0 and 1; write for example 0.05 or 5%"]
        );
        assert_eq!(
            errors(&text.replace("half", "30%")),
            [
                "line 6: steps[0].aws.emptyFleets: must be at least 1",
                "line 6: steps[0].aws.fail.reason: is empty: write the code of a reason, such as Server.InternalError",
                "line 6: steps[0].aws.stockOut.for: must be longer than 0s",
                "line 7: steps[1].aws.addReservation.id: must be `cr-` and hexadecimal digits, for example \
                 cr-0000000000000abcd",
                "line 8: steps[2].aws.tags.add: nobody can change a tag with the key \"aws:x\"",
                "line 8: steps[2].aws.tags.remove: nobody can change a tag with the key \"\"",
                "line 9: steps[3].aws.publishImages.release: must be a date without separators, for example \
                 \"20260115\"",
                "line 9: steps[3].aws.publishImages.bottlerocket: must be a version without `v`, for example 1.53.0",
                "line 10: steps[4].aws.callFault.rate: is 0, so no call fails",
                "line 10: steps[4].aws.zonalShift.for: must be at most 8784h, a year",
                "line 12: steps[6].expect.conditions[0].status: must be \"True\", \"False\" or \"Unknown\", or empty for \
                 a condition that is missing",
                "line 12: steps[6].expect.events[0]: is empty: add a reason, a kind or a part of the message",
            ]
        );
        let valid =
            "{name: x, until: 1h, provider: aws, steps: [{at: 0s, aws: {callFault: {fault: throttled, rate: 30%}}}]}";
        let scenario = Scenario::parse(valid).unwrap();
        let fault = scenario.steps[0].aws.as_ref().and_then(|step| step.call_fault.as_ref());
        assert_eq!(fault.and_then(|fault| fault.rate).map(crate::Share::per_million), Some(300_000));
    }

    #[test]
    fn every_action_is_read() {
        let text = "
name: x
until: 1h
replicas: 2
steps:
  - {at: 0s, kill: controller}
  - {at: 1s, stop: {controller: 20s}, replicas: 2, clock: {jump: 1h}}
  - {at: 2s, editStatus: {kind: Node, pool: a, status: {phase: Failed}}, delete: {kind: NodeClaim, pool: a}}
  - {at: 3s, interrupt: {pool: a, count: 1}, expect: {podsRunning: 40, podsPending: 0, nodes: 1, nodeClaims: 1}}
";
        let scenario = Scenario::parse(text).unwrap();
        assert!(scenario.needs_leader_election());
        assert_eq!(scenario.steps[1].stop.map(|stop| stop.controller), Some(Duration::from_secs(20)));
        assert_eq!(scenario.steps[2].targets().len(), 2);
        let expect = scenario.steps[3].expect.as_ref().unwrap();
        assert_eq!((expect.pods_running, expect.node_claims), (Some(40), Some(1)));
    }

    #[test]
    fn another_length_keeps_the_bounds() {
        let text = "
name: x
until: 1h
planComparison: {from: 0s, every: 10s}
steps: [{at: 0s, every: 1s, say: a}, {at: 1s, every: 1h, clock: {jump: 8784h}}, {at: 30m, say: b}]
";
        let mut scenario = Scenario::parse(text).unwrap();
        assert_eq!(
            scenario.set_length(LONGEST_DURATION).unwrap_err(),
            [
                "planComparison.every: compares the cost too often, at most 500000 times are possible",
                "steps: happen 31631186 times, at most 500000 are possible: repeat them less often",
                "steps: the jumps of the clock together must not exceed ten years",
            ]
        );
        assert_eq!(scenario.set_length(Duration::ZERO).unwrap_err(), ["must be longer than 0s"]);
        assert_eq!((scenario.until, scenario.steps.len()), (Duration::from_hours(1), 3), "unchanged");
        scenario.set_length(Duration::from_mins(10)).unwrap();
        assert_eq!((scenario.until, scenario.steps.len()), (Duration::from_mins(10), 2));
    }

    #[test]
    fn a_steady_check_without_an_interval_is_rejected() {
        let read = |every: &str| {
            let steady = json!({"from": "1h", "every": every, "costWithinPercent": 3});
            Scenario::read(json!({"name": "x", "until": "2h", "steady": steady, "steps": []}))
        };
        let errors = read("0s").map(drop).unwrap_err();
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["steady.every: must be at least 1s, for example 1h"]
        );
        assert!(read("1s").is_ok());
    }

    #[test]
    fn a_plan_comparison_stands_alone_and_within_the_run() {
        let errors = |fields: Value| -> Vec<String> {
            let mut tree = json!({"name": "x", "until": "2h", "steps": []});
            tree.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let errors = Scenario::read(tree).map(drop).err().unwrap_or_default();
            errors.iter().map(ToString::to_string).collect()
        };
        let plan = |from: &str, every: &str| json!({"from": from, "every": every});
        assert_eq!(errors(json!({"planComparison": plan("1h", "1h")})), [""; 0]);
        assert_eq!(
            errors(json!({"planComparison": plan("3h", "0s")})),
            [
                "planComparison.from: must not be later than `until`, the end of the scenario",
                "planComparison.every: must be at least 1s, for example 1h"
            ]
        );
        let steady = json!({"from": "1h", "every": "1h", "costWithinPercent": 3});
        assert_eq!(
            errors(json!({"planComparison": plan("1h", "1h"), "steady": steady})),
            ["planComparison: must not stand beside steady, which compares the cost too: remove one of them"]
        );
    }

    #[test]
    fn unknown_fields_and_values_are_rejected() {
        for (text, part) in [
            (
                "{name: x, until: 1m, steps: [], untill: 2m}",
                "untill: there is no such field; the fields are controller, faults, instant, name,",
            ),
            ("{name: x, until: soon, steps: []}", "until: time: invalid duration \"soon\""),
            (
                "{name: x, until: 1m, steps: [{at: 1s, kill: all}]}",
                "steps[0].kill: must be one of controller, is the text \"all\"",
            ),
            (
                "{name: x, until: 1m, steps: [{at: 1s, stop: {controller: 1s, kubelet: 1s}}]}",
                "steps[0].stop.kubelet: there is no such field; the fields are controller",
            ),
            (
                "{name: x, until: 1m, steps: [{at: 1s, clock: 1h}]}",
                "steps[0].clock: must be an object with fields, is the text \"1h\"",
            ),
        ] {
            let errors = errors_of(text);
            assert!(errors.len() == 1 && errors[0].contains(part), "{text}: {errors:?}");
        }
    }

    #[test]
    fn errors_of_values_name_what_is_possible() {
        let tree =
            json!({"name": "x", "until": "soon", "faults": ["rain"], "steps": [{"at": "1s", "faults": ["hail"]}]});
        let errors: Vec<String> = Scenario::read(tree).unwrap_err().iter().map(ToString::to_string).collect();
        let known = "use one of: conflict, error, lost-response, hung-request, dropped-watch, silent-watch, \
                     expired-watch, stale-read, stockout, throttling, never-joins, never-ready, slow-boot, \
                     interruption, kubelet-death, flapping-readiness";
        assert_eq!(
            errors,
            [
                format!("faults[0]: unknown fault \"rain\"; {known}"),
                format!("steps[0].faults[0]: unknown fault \"hail\"; {known}"),
                "until: time: invalid duration \"soon\"; write for example 10m or 1h30m".to_owned(),
            ]
        );
    }

    #[test]
    fn every_fault_is_read_by_its_name_on_the_command_line() {
        for (name, fault) in NamedFault::ALL {
            let tree = json!({"name": "x", "until": "1m", "faults": [name], "steps": []});
            assert_eq!(Scenario::read(tree).unwrap().faults, [fault.into()], "{name}");
            assert_eq!(name.parse(), Ok(FaultSetting::from(fault)), "{name}");
            assert_eq!(serde_json::from_value::<NamedFault>(json!(name)).unwrap(), fault, "{name}");
        }
    }
}
