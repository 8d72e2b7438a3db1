//! What happens to a cluster, and when: the format of scenario files. Whoever reads one gets every mistake at once, not the first.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::faults::NamedFault;

/// A story that a cluster lives through.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// How long it takes.
    #[serde(deserialize_with = "duration")]
    pub until: Duration,
    /// Whether machines and pods start and stop at once.
    #[serde(default)]
    pub instant: bool,
    /// How many nodes there are from the start that no autoscaler manages.
    #[serde(default)]
    pub nodes: u32,
    /// How many pods are meant to find no place; any more that wait at the end are a violation.
    #[serde(default)]
    pub pending: usize,
    /// What goes wrong all the time.
    #[serde(default)]
    pub faults: Vec<NamedFault>,
    /// From when on the cluster is to be at rest, and how close its cost is to be to the best.
    #[serde(default)]
    pub steady: Option<Steady>,
    /// What happens, in the order of time.
    pub steps: Vec<ScenarioStep>,
}

/// A cluster whose demand does not change comes to rest: pods that did not change are not evicted, and its nodes cost about what the best
/// plan for its pods would.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Steady {
    /// When it is to be at rest, counted from the start.
    #[serde(deserialize_with = "duration")]
    pub from: Duration,
    /// How often the cost is compared from then on.
    #[serde(deserialize_with = "duration")]
    pub every: Duration,
    /// For how long a workload must not have changed for its pods to be left alone.
    #[serde(default = "an_hour", deserialize_with = "duration")]
    pub unchanged_for: Duration,
    /// By how many hundredths the nodes may cost more than those of the best plan.
    pub cost_within_percent: u32,
}

/// Something that happens.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioStep {
    /// When, counted from the start.
    #[serde(deserialize_with = "duration")]
    pub at: Duration,
    /// How long after that it happens again, and again until the end.
    #[serde(default, deserialize_with = "some_duration")]
    pub every: Option<Duration>,
    /// What to tell whoever watches.
    #[serde(default)]
    pub say: Option<String>,
    /// Objects to apply, as `kubectl apply --server-side` would.
    #[serde(default)]
    pub apply: Vec<Value>,
    /// A workload to scale.
    #[serde(default)]
    pub scale: Option<ScaleStep>,
    /// A workload whose pods are all replaced, as `kubectl rollout restart` would.
    #[serde(default)]
    pub restart: Option<ScenarioTarget>,
    /// An object to change.
    #[serde(default)]
    pub patch: Option<PatchStep>,
    /// An object to delete.
    #[serde(default)]
    pub delete: Option<ScenarioTarget>,
    /// Machines that the cloud takes away.
    #[serde(default)]
    pub interrupt: Option<InterruptStep>,
    /// What goes wrong from now on, instead of what went wrong before.
    #[serde(default)]
    pub faults: Option<Vec<NamedFault>>,
}

/// An object of the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioTarget {
    /// Its kind (`NodePool`).
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; `default` if it has one and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// A workload with a number of replicas.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleStep {
    /// `Deployment`, `StatefulSet` or `ReplicaSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; `default` if none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// How many there are to be.
    pub replicas: u32,
}

/// A change to an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchStep {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; `default` if it has one and none is given.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The change, as a JSON merge patch.
    pub merge: Value,
}

/// Machines that the cloud takes away without a word: they and their Nodes are gone at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InterruptStep {
    /// Only machines of this capacity type.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// How many; the first by name.
    pub count: usize,
}

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ScenarioError {
    /// Where: `steps[0].at`, with steps counted from 0.
    pub path: String,
    /// What is wrong there.
    pub why: String,
}

impl ScenarioStep {
    /// Whether anything happens in it.
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
    /// Reads a scenario, or says everything that is wrong with it.
    pub fn read(tree: Value) -> Result<Self, Vec<ScenarioError>> {
        let misread = decode_errors(&tree);
        if !misread.is_empty() {
            return Err(misread);
        }
        let scenario: Self = serde_json::from_value(tree)
            .map_err(|cause| vec![ScenarioError { path: "scenario".to_owned(), why: cause.to_string() }])?;
        let mistakes = scenario.validation_errors();
        if mistakes.is_empty() { Ok(scenario) } else { Err(mistakes) }
    }

    /// Everything that makes no sense in it.
    fn validation_errors(&self) -> Vec<ScenarioError> {
        let mut mistakes = Vec::new();
        let mut last = Duration::ZERO;
        for (step, does) in self.steps.iter().enumerate() {
            let path = format!("steps[{step}]");
            let mut wrong = |why: &str| mistakes.push(ScenarioError { path: path.clone(), why: why.to_owned() });
            if does.at < last {
                wrong("at: earlier than the step before it");
            }
            if does.at > self.until {
                wrong("at: later than the end of the scenario (until)");
            }
            if does.every.is_some_and(|every| every.is_zero()) {
                wrong("every: must be longer than nothing");
            }
            if !does.has_action() {
                wrong("nothing happens: give one of apply, scale, restart, patch, delete, interrupt, faults, say");
            }
            for object in &does.apply {
                if object["kind"].as_str().is_none() || object["metadata"]["name"].as_str().is_none() {
                    wrong("apply: an object without apiVersion, kind or metadata.name");
                }
            }
            last = last.max(does.at);
        }
        mistakes
    }

    /// What happens until the end, in the order of time: steps that happen again and again as often as they do.
    pub(super) fn timeline(&self) -> Vec<(Duration, &ScenarioStep)> {
        let times = |step: &ScenarioStep| match step.every.filter(|every| !every.is_zero()) {
            Some(every) => std::iter::successors(Some(step.at), |at| at.checked_add(every))
                .take_while(|at| *at <= self.until)
                .collect(),
            None => vec![step.at],
        };
        let mut all: Vec<(Duration, &ScenarioStep)> =
            self.steps.iter().flat_map(|step| times(step).into_iter().map(move |at| (at, step))).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    }
}

/// Every field that cannot be read, each tried by itself; and of those that can be read, whether one is missing.
fn decode_errors(tree: &Value) -> Vec<ScenarioError> {
    let Value::Object(fields) = tree else { return Vec::new() };
    let mut errors = Vec::new();
    let mut top = fields.clone();
    if let Some(Value::Array(steps)) = fields.get("steps") {
        for (step, does) in steps.iter().enumerate() {
            collect_decode_errors::<ScenarioStep>(does, &format!("steps[{step}]"), &json!({"at": "0s"}), &mut errors);
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

/// The fields of an object that cannot be read, each tried in the company of `required`, the fields that must be there.
fn collect_decode_errors<T: DeserializeOwned>(
    object: &Value,
    path: &str,
    required: &Value,
    errors: &mut Vec<ScenarioError>,
) {
    let before = errors.len();
    for (field, value) in object.as_object().into_iter().flatten() {
        let mut alone = required.clone();
        alone[field] = value.clone();
        if let Err(cause) = serde_json::from_value::<T>(alone) {
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

/// A length of time as Kubernetes writes them: `90s`, `1h30m`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let parsed: kerf_api::duration::Duration = text.parse().map_err(serde::de::Error::custom)?;
    parsed.to_std().ok_or_else(|| serde::de::Error::custom("must not be negative"))
}

fn an_hour() -> Duration {
    Duration::from_hours(1)
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_are_named() {
        let text = "{name: x, until: 1m, steps: [{at: 2m, say: a}, {at: 30s}, {at: 40s, apply: [{kind: Pod}]}]}";
        let scenario: Scenario = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let mistakes: Vec<String> = scenario.validation_errors().iter().map(ToString::to_string).collect();
        assert_eq!(
            mistakes,
            [
                "steps[0]: at: later than the end of the scenario (until)",
                "steps[1]: at: earlier than the step before it",
                "steps[1]: nothing happens: give one of apply, scale, restart, patch, delete, interrupt, faults, say",
                "steps[2]: at: earlier than the step before it",
                "steps[2]: apply: an object without apiVersion, kind or metadata.name",
            ]
        );
    }

    #[test]
    fn what_happens_again_and_again_happens_until_the_end() {
        let text = "{name: x, until: 1h, steps: [{at: 10m, every: 20m, say: a}, {at: 35m, say: b}]}";
        let scenario: Scenario = serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let told = |(at, step): &(Duration, &ScenarioStep)| (at.as_secs() / 60, step.say.clone().unwrap_or_default());
        let told: Vec<(u64, String)> = scenario.timeline().iter().map(told).collect();
        let expected = [(10, "a"), (30, "a"), (35, "b"), (50, "a")];
        assert_eq!(told, expected.map(|(at, what)| (at, what.to_owned())));
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for text in [
            "{name: x, until: 1m, steps: [], untill: 2m}",
            "{name: x, until: soon, steps: []}",
            "{name: x, until: 1m, steps: [{at: 1s, kill: all}]}",
        ] {
            assert!(serde_yaml_ng::from_str::<Scenario>(text).is_err(), "{text}");
        }
    }
}
