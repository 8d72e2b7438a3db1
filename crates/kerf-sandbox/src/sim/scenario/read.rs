//! Reads scenario files. All errors are reported at once, each with its path.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::faults::FaultSetting;
use super::{Scenario, ScenarioStep};

/// Kinds of which a NodePool has objects.
const KINDS_OF_POOLS: [&str; 2] = ["Node", "NodeClaim"];

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ScenarioError {
    /// Path of the field, such as `steps[0].at`. Steps are counted from 0.
    pub path: String,
    /// Description of the error.
    pub why: String,
}

impl Scenario {
    /// Reads a scenario. Fails with all errors in it.
    pub fn read(tree: Value) -> Result<Self, Vec<ScenarioError>> {
        let errors = decode_errors(&tree);
        if !errors.is_empty() {
            return Err(errors);
        }
        let scenario: Self = serde_json::from_value(tree)
            .map_err(|cause| vec![ScenarioError { path: "scenario".to_owned(), why: cause.to_string() }])?;
        let errors = scenario.validation_errors();
        if errors.is_empty() { Ok(scenario) } else { Err(errors) }
    }

    /// Returns all errors in values that could be decoded, such as steps in the wrong order.
    fn validation_errors(&self) -> Vec<ScenarioError> {
        let mut errors = Vec::new();
        let mut last = Duration::ZERO;
        for (index, step) in self.steps.iter().enumerate() {
            let path = format!("steps[{index}]");
            let mut add_error = |why: &str| errors.push(ScenarioError { path: path.clone(), why: why.to_owned() });
            if step.at < last {
                add_error("at: must not be earlier than `at` of the previous step");
            }
            if step.at > self.until {
                add_error("at: must not be later than `until`, the end of the scenario");
            }
            last = last.max(step.at);
            step.add_errors(&mut add_error);
        }
        if self.steady.is_some_and(|steady| steady.every.is_zero()) {
            let why = "0s: must be longer than 0s, for example 1h".to_owned();
            errors.push(ScenarioError { path: "steady.every".to_owned(), why });
        }
        errors
    }
}

impl ScenarioStep {
    /// Reports the errors of one step that do not depend on other steps.
    fn add_errors(&self, add_error: &mut impl FnMut(&str)) {
        if self.every.is_some_and(|every| every.is_zero()) {
            add_error("every: must be longer than 0s");
        }
        if !self.has_action() {
            add_error(&format!("the step has no action: add one of {}", Self::ACTIONS));
        }
        if self.interrupt.as_ref().is_some_and(|interrupt| interrupt.count == 0) {
            add_error("interrupt.count: must be at least 1");
        }
        for object in &self.apply {
            if object["kind"].as_str().is_none() || object["metadata"]["name"].as_str().is_none() {
                add_error("apply: an object lacks kind or metadata.name");
            }
        }
        for (action, target) in self.targets() {
            match (&target.name, &target.pool) {
                (Some(_), None) => {}
                (None, Some(_)) if KINDS_OF_POOLS.contains(&target.kind.as_str()) => {}
                (None, Some(_)) => add_error(&format!(
                    "{action}.pool: a NodePool has no objects of kind {}: use kind Node or NodeClaim, or `name`",
                    target.kind
                )),
                (Some(_), Some(_)) => add_error(&format!("{action}: has `name` and `pool`: remove one of them")),
                (None, None) => {
                    add_error(&format!("{action}: lacks `name`, or `pool` for some Node or NodeClaim of a NodePool"));
                }
            }
        }
        if let Some(edit) = &self.edit_status {
            if edit.status.is_some() && edit.merge.is_some() {
                add_error("editStatus: has `status` and `merge`: remove one of them");
            } else if edit.status().is_none() {
                add_error("editStatus: lacks `status`, the new fields, for example status: {phase: Failed}");
            }
            if edit.merge.as_ref().is_some_and(|merge| merge.keys().any(|key| key != "status")) {
                add_error("editStatus.merge: only `status` can be edited: use the action `patch` for other fields");
            }
        }
        if self.expect.is_some_and(|expect| expect == super::ExpectStep::default()) {
            add_error("expect: has no count: add one of podsRunning, podsPending, nodes, nodeClaims");
        }
        if self.stop.is_some_and(|stop| stop.controller.is_zero()) {
            add_error("stop.controller: must be longer than 0s");
        }
        if self.clock.is_some_and(|clock| clock.jump.is_zero()) {
            add_error("clock.jump: must be longer than 0s");
        }
        if self.stop.is_some() && self.kill.is_some() {
            add_error("kill, stop: one step cannot do both: use two steps");
        }
    }
}

/// Returns all fields that cannot be decoded. Each field is decoded by itself. If all succeed,
/// decodes the whole to detect missing fields.
fn decode_errors(tree: &Value) -> Vec<ScenarioError> {
    let Value::Object(fields) = tree else { return Vec::new() };
    let mut errors = Vec::new();
    let mut top = fields.clone();
    if let Some(Value::Array(steps)) = fields.get("steps") {
        for (index, step) in steps.iter().enumerate() {
            collect_decode_errors::<ScenarioStep>(step, &format!("steps[{index}]"), &json!({"at": "0s"}), &mut errors);
        }
        top.insert("steps".to_owned(), json!([]));
    }
    collect_decode_errors::<Scenario>(
        &Value::Object(top),
        "",
        &json!({"name": "", "until": "0s", "steps": []}),
        &mut errors,
    );
    errors.sort_by(|a, b| a.path.cmp(&b.path));
    errors
}

/// Adds the errors of an object's fields. Each field is decoded together with `required`, the
/// fields that must be present. Elements of lists are decoded by themselves too.
fn collect_decode_errors<T: DeserializeOwned>(
    object: &Value,
    path: &str,
    required: &Value,
    errors: &mut Vec<ScenarioError>,
) {
    let before = errors.len();
    for (field, value) in object.as_object().into_iter().flatten() {
        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        if let ("faults", Value::Array(faults)) = (field.as_str(), value) {
            for (index, fault) in faults.iter().enumerate() {
                if let Err(cause) = serde_json::from_value::<FaultSetting>(fault.clone()) {
                    errors.push(ScenarioError { path: format!("{path}[{index}]"), why: cause.to_string() });
                }
            }
            continue;
        }
        let mut candidate = required.clone();
        candidate[field] = value.clone();
        if let Err(cause) = serde_json::from_value::<T>(candidate) {
            errors.push(ScenarioError { path, why: cause.to_string() });
        }
    }
    if errors.len() == before
        && let Err(cause) = serde_json::from_value::<T>(object.clone())
    {
        let path = if path.is_empty() { "scenario" } else { path };
        errors.push(ScenarioError { path: path.to_owned(), why: cause.to_string() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::faults::NamedFault;
    use super::*;

    fn errors_of(text: &str) -> Vec<String> {
        let tree: Value = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        Scenario::read(tree).map(drop).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_errors_are_reported() {
        let text = "{name: x, until: 1m, steps: [{at: 2m, say: a}, {at: 30s}, {at: 40s, apply: [{kind: Pod}], interrupt: {count: 0}}]}";
        assert_eq!(
            errors_of(text),
            [
                "steps[0]: at: must not be later than `until`, the end of the scenario",
                "steps[1]: at: must not be earlier than `at` of the previous step",
                "steps[1]: the step has no action: add one of apply, scale, restart, patch, editStatus, delete, \
                 interrupt, faults, kill, stop, replicas, clock, expect, say",
                "steps[2]: at: must not be earlier than `at` of the previous step",
                "steps[2]: interrupt.count: must be at least 1",
                "steps[2]: apply: an object lacks kind or metadata.name",
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
                "steps[0]: patch: has `name` and `pool`: remove one of them",
                "steps[0]: delete: lacks `name`, or `pool` for some Node or NodeClaim of a NodePool",
                "steps[1]: restart.pool: a NodePool has no objects of kind Deployment: use kind Node or NodeClaim, \
                 or `name`",
                "steps[1]: expect: has no count: add one of podsRunning, podsPending, nodes, nodeClaims",
                "steps[2]: editStatus: lacks `status`, the new fields, for example status: {phase: Failed}",
                "steps[3]: editStatus.merge: only `status` can be edited: use the action `patch` for other fields",
                "steps[4]: editStatus: has `status` and `merge`: remove one of them",
                "steps[5]: stop.controller: must be longer than 0s",
                "steps[5]: clock.jump: must be longer than 0s",
                "steps[5]: kill, stop: one step cannot do both: use two steps",
            ]
        );
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
        let tree: Value = serde_yaml_ng::from_str(text).unwrap();
        let scenario = Scenario::read(tree).unwrap();
        assert!(scenario.needs_leader_election());
        assert_eq!(scenario.steps[1].stop.map(|stop| stop.controller), Some(Duration::from_secs(20)));
        assert_eq!(scenario.steps[2].targets().len(), 2);
        let expect = scenario.steps[3].expect.unwrap();
        assert_eq!((expect.pods_running, expect.node_claims), (Some(40), Some(1)));
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
            ["steady.every: 0s: must be longer than 0s, for example 1h"]
        );
        assert!(read("1s").is_ok());
    }

    #[test]
    fn unknown_fields_and_values_are_rejected() {
        for (text, part) in [
            ("{name: x, until: 1m, steps: [], untill: 2m}", "untill: unknown field `untill`, expected one of"),
            ("{name: x, until: soon, steps: []}", "until: time: invalid duration \"soon\""),
            ("{name: x, until: 1m, steps: [{at: 1s, kill: all}]}", "unknown variant `all`, expected `controller`"),
            ("{name: x, until: 1m, steps: [{at: 1s, stop: {kubelet: 1s}}]}", "steps[0].stop: unknown field `kubelet`"),
            ("{name: x, until: 1m, steps: [{at: 1s, clock: 1h}]}", "steps[0].clock: invalid type"),
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
