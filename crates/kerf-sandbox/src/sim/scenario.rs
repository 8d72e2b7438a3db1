//! The format of scenario files: what happens to a cluster, and when. Reading a file reports all
//! its errors at once.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::faults::NamedFault;

/// A timed sequence of steps for a cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario, for the report.
    pub name: String,
    /// Length of the safety phase.
    #[serde(deserialize_with = "duration")]
    pub until: Duration,
    /// True if instances and pods start and stop without delay.
    #[serde(default)]
    pub instant: bool,
    /// Number of nodes that exist from the start and that no autoscaler manages.
    #[serde(default)]
    pub nodes: u32,
    /// Number of pods that are expected to stay pending. More pending pods at the end are a
    /// violation.
    #[serde(default)]
    pub pending: usize,
    /// Faults that are active from the start.
    #[serde(default, deserialize_with = "named_faults")]
    pub faults: Vec<NamedFault>,
    /// Demands a steady cluster from a given time on.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// Steps, ordered by time.
    pub steps: Vec<ScenarioStep>,
}

/// Demands that a cluster with constant demand is steady: pods of unchanged workloads are not
/// evicted, and the nodes cost little more than the best plan for the same pods.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Steady {
    /// Time from which the cluster has to be steady, since the start.
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// Interval of the cost comparisons from then on.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// Age from which a workload counts as unchanged. One hour if not set.
    #[serde(default = "an_hour", deserialize_with = "duration")]
    pub unchanged_for: Duration,
    /// Allowed excess of the nodes' cost over the best plan's cost, in percent.
    pub cost_within_percent: u32,
}

/// Actions that happen at one time, or repeatedly.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioStep {
    /// Time of the step, since the start.
    #[serde(deserialize_with = "duration")]
    pub at: Duration,
    /// Interval at which the step is repeated until the end; `None` if it happens once.
    #[serde(default, deserialize_with = "some_duration")]
    pub every: Option<Duration>,
    /// Text to print when the step happens.
    #[serde(default)]
    pub say: Option<String>,
    /// Objects to apply, as `kubectl apply --server-side` does.
    #[serde(default)]
    pub apply: Vec<Value>,
    /// A workload to scale.
    #[serde(default)]
    pub scale: Option<ScaleStep>,
    /// A workload whose pods are all replaced, as `kubectl rollout restart` does.
    #[serde(default)]
    pub restart: Option<ScenarioTarget>,
    /// An object to patch.
    #[serde(default)]
    pub patch: Option<PatchStep>,
    /// An object to delete.
    #[serde(default)]
    pub delete: Option<ScenarioTarget>,
    /// Instances that the cloud terminates.
    #[serde(default)]
    pub interrupt: Option<InterruptStep>,
    /// Faults that are active from now on, instead of all previous ones.
    #[serde(default, deserialize_with = "some_named_faults")]
    pub faults: Option<Vec<NamedFault>>,
}

/// One occurrence of a step.
pub(super) struct TimedStep<'s> {
    /// Time since the start.
    pub(super) at: Duration,
    /// Index of the step in the file, for messages.
    pub(super) index: usize,
    pub(super) step: &'s ScenarioStep,
}

/// Reference to an object of the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioTarget {
    /// Kind of the object, such as `NodePool`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; `default` if it is namespaced and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A new number of replicas for a workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleStep {
    /// `Deployment`, `StatefulSet` or `ReplicaSet`.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// Namespace of the workload; `default` if none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Desired number of replicas.
    pub replicas: u32,
}

/// A patch of an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchStep {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object; `default` if it is namespaced and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The change, as a JSON merge patch.
    pub merge: Value,
}

/// Instances that the cloud terminates without notice. Their Nodes are deleted at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptStep {
    /// Restricts the step to instances of this capacity type; `None` for all.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// Number of instances, the first by name.
    pub count: usize,
}

/// An error in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ScenarioError {
    /// Path of the field, such as `steps[0].at`. Steps are counted from 0.
    pub path: String,
    /// Description of the error.
    pub why: String,
}

impl ScenarioStep {
    /// Returns true if the step contains an action.
    fn has_action(&self) -> bool {
        !self.apply.is_empty()
            || self.scale.is_some()
            || self.restart.is_some()
            || self.patch.is_some()
            || self.delete.is_some()
            || self.interrupt.is_some()
            || self.faults.is_some()
            || self.say.is_some()
    }
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
            if step.every.is_some_and(|every| every.is_zero()) {
                add_error("every: must be longer than 0s");
            }
            if !step.has_action() {
                add_error(
                    "the step has no action: add one of apply, scale, restart, patch, delete, interrupt, faults, say",
                );
            }
            if step.interrupt.as_ref().is_some_and(|interrupt| interrupt.count == 0) {
                add_error("interrupt.count: must be at least 1");
            }
            for object in &step.apply {
                if object["kind"].as_str().is_none() || object["metadata"]["name"].as_str().is_none() {
                    add_error("apply: an object lacks kind or metadata.name");
                }
            }
            last = last.max(step.at);
        }
        if self.steady.is_some_and(|steady| steady.every.is_zero()) {
            let why = "0s: must be longer than 0s, for example 1h".to_owned();
            errors.push(ScenarioError { path: "steady.every".to_owned(), why });
        }
        errors
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
/// fields that must be present.
fn collect_decode_errors<T: DeserializeOwned>(
    object: &Value,
    path: &str,
    required: &Value,
    errors: &mut Vec<ScenarioError>,
) {
    let before = errors.len();
    for (field, value) in object.as_object().into_iter().flatten() {
        let mut candidate = required.clone();
        candidate[field] = value.clone();
        if let Err(cause) = serde_json::from_value::<T>(candidate) {
            let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
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

/// Deserializes a duration in Kubernetes' notation, such as `90s` or `1h30m`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let parsed: kerf_api::duration::Duration = text.parse().map_err(|cause: kerf_api::duration::DurationError| {
        serde::de::Error::custom(format!("{cause}; write for example 10m or 1h30m"))
    })?;
    parsed.to_std().ok_or_else(|| serde::de::Error::custom("must not be negative"))
}

fn an_hour() -> Duration {
    Duration::from_hours(1)
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// Deserializes names of faults. The error lists the known names.
fn named_faults<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NamedFault>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    let fault = |name: &String| name.parse().map_err(serde::de::Error::custom);
    names.iter().map(fault).collect()
}

fn some_named_faults<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<NamedFault>>, D::Error> {
    named_faults(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_are_reported() {
        let text = "{name: x, until: 1m, steps: [{at: 2m, say: a}, {at: 30s}, {at: 40s, apply: [{kind: Pod}], interrupt: {count: 0}}]}";
        let scenario: Scenario = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let errors: Vec<String> = scenario.validation_errors().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "steps[0]: at: must not be later than `until`, the end of the scenario",
                "steps[1]: at: must not be earlier than `at` of the previous step",
                "steps[1]: the step has no action: add one of apply, scale, restart, patch, delete, interrupt, faults, say",
                "steps[2]: at: must not be earlier than `at` of the previous step",
                "steps[2]: interrupt.count: must be at least 1",
                "steps[2]: apply: an object lacks kind or metadata.name",
            ]
        );
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
    fn a_repeated_step_happens_until_the_end() {
        let text = "{name: x, until: 1h, steps: [{at: 10m, every: 20m, say: a}, {at: 35m, say: b}]}";
        let scenario: Scenario = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let fields = |timed: &TimedStep<'_>| (timed.at.as_secs() / 60, timed.index, timed.step.say.clone());
        let timeline: Vec<(u64, usize, Option<String>)> = scenario.timeline().iter().map(fields).collect();
        let expected = [(10, 0, "a"), (30, 0, "a"), (35, 1, "b"), (50, 0, "a")];
        assert_eq!(timeline, expected.map(|(at, index, text)| (at, index, Some(text.to_owned()))));
    }

    #[test]
    fn unknown_fields_and_values_are_rejected() {
        for text in [
            "{name: x, until: 1m, steps: [], untill: 2m}",
            "{name: x, until: soon, steps: []}",
            "{name: x, until: 1m, steps: [{at: 1s, kill: all}]}",
        ] {
            assert!(serde_yaml_ng::from_str::<Scenario>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_of_values_name_what_is_possible() {
        let tree =
            json!({"name": "x", "until": "soon", "faults": ["rain"], "steps": [{"at": "1s", "faults": ["hail"]}]});
        let errors: Vec<String> = Scenario::read(tree).unwrap_err().iter().map(ToString::to_string).collect();
        let known = "use one of: conflict, error, lost-response, dropped-watch, stale-read, stockout, throttling, \
                     never-joins, slow-boot, interruption";
        assert_eq!(
            errors,
            [
                format!("faults: unknown fault \"rain\"; {known}"),
                format!("steps[0].faults: unknown fault \"hail\"; {known}"),
                "until: time: invalid duration \"soon\"; write for example 10m or 1h30m".to_owned(),
            ]
        );
    }

    #[test]
    fn every_fault_is_read_by_its_name_on_the_command_line() {
        for (name, fault) in NamedFault::ALL {
            let tree = json!({"name": "x", "until": "1m", "faults": [name], "steps": []});
            assert_eq!(Scenario::read(tree).unwrap().faults, [fault], "{name}");
            assert_eq!(serde_json::from_value::<NamedFault>(json!(name)).unwrap(), fault, "{name}");
        }
    }
}
