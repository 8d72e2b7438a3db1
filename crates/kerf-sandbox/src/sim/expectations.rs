//! Expectations of a scenario beside the counts of objects: lines of the controller's log in their
//! order, Events, conditions, labels and metrics.

use std::collections::BTreeMap;

use serde_json::Value;

use super::actor::ScenarioActor;
use super::expected_log::ExpectedLog;
use super::invariant_checker::ObjectsOfPools;
use super::scenario::{ConditionExpectation, EventExpectation, ExpectStep, LabelExpectation};

/// Log and metrics of the controllers under test.
pub trait ControllerOutput: Send + Sync {
    /// Returns the lines of the log that the scenario expects; `None` if it expects none.
    fn log(&self) -> Option<&ExpectedLog>;

    /// Returns the metrics of the process that started last, in Prometheus' text format.
    fn metrics(&self) -> String;
}

/// Returns the expectations of a step that do not hold, as messages. The counts of objects are
/// checked elsewhere.
pub(super) fn failed_expectations(
    expected: &ExpectStep,
    output: Option<&dyn ControllerOutput>,
    actor: &mut ScenarioActor<'_>,
    objects: &ObjectsOfPools,
) -> Vec<String> {
    let mut failures = Vec::new();
    let needs_log = !(expected.log.is_empty() && expected.log_lacks.is_empty());
    if needs_log {
        match output.and_then(ControllerOutput::log) {
            Some(log) => failures.extend(log.check(expected)),
            None => failures.push("this run has no log of the controller".to_owned()),
        }
    }
    if !expected.metrics.is_empty() {
        match output {
            Some(output) => failures.extend(check_metrics(&expected.metrics, &output.metrics())),
            None => failures.push("this run has no metrics of the controller".to_owned()),
        }
    }
    if !expected.events.is_empty() {
        let events = actor.list("/api/v1/events");
        let missing = expected.events.iter().filter(|own| !events.iter().any(|event| own.matches(event)));
        failures.extend(missing.map(|own| format!("no Event matches {own}")));
    }
    for own in &expected.conditions {
        failures.extend(check_condition(own, actor, objects));
    }
    for own in &expected.labels {
        failures.extend(check_labels(own, actor, objects));
    }
    failures
}

/// Returns a message for each metric whose series do not add up to the expected value.
fn check_metrics(expected: &BTreeMap<String, f64>, text: &str) -> Vec<String> {
    let sum = |series: &str| -> f64 {
        let (name, labels) = split_series(series);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (own_name, own_labels) = split_series(series);
            let has_labels = labels.iter().all(|label| own_labels.contains(label));
            (own_name == name && has_labels).then(|| value.parse::<f64>().ok()).flatten()
        });
        values.sum()
    };
    let differs = |(series, value): (&String, &f64)| {
        let actual = sum(series);
        ((actual - value).abs() > 1e-9).then(|| format!("the metric {series} is {actual}, expected is {value}"))
    };
    expected.iter().filter_map(differs).collect()
}

/// Returns name and labels of a series like `name{a="1",b="2"}`. Values contain no commas.
fn split_series(series: &str) -> (&str, Vec<&str>) {
    let Some((name, labels)) = series.split_once('{') else { return (series.trim(), Vec::new()) };
    let labels = labels.trim_end_matches('}').split(',').map(str::trim).filter(|label| !label.is_empty());
    (name, labels.collect())
}

fn check_condition(
    own: &ConditionExpectation,
    actor: &mut ScenarioActor<'_>,
    objects: &ObjectsOfPools,
) -> Option<String> {
    let object = match actor.get_object(&own.target(), objects) {
        Ok(object) => object,
        Err(problem) => return Some(format!("{} {}: {problem}", own.kind, own.condition)),
    };
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|condition| condition["type"] == own.condition.as_str());
    let field = |name: &str| found.and_then(|condition| condition[name].as_str()).unwrap_or_default().to_owned();
    let (status, reason, message) = (field("status"), field("reason"), field("message"));
    let differs = |expected: &Option<String>, actual: &str| expected.as_ref().is_some_and(|own| own != actual);
    let lacks = own.message.as_ref().is_some_and(|part| !message.contains(part));
    if own.status == status && !differs(&own.reason, &reason) && !lacks {
        return None;
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let actual = if found.is_some() { format!("{status} ({reason}: {message})") } else { "missing".to_owned() };
    Some(format!("the condition {} of {} {name} is {actual}, expected is {own}", own.condition, own.kind))
}

/// Returns a message for each label of an object that differs.
fn check_labels(own: &LabelExpectation, actor: &mut ScenarioActor<'_>, objects: &ObjectsOfPools) -> Vec<String> {
    let object = match actor.get_object(&own.target(), objects) {
        Ok(object) => object,
        Err(problem) => return vec![format!("labels of {}: {problem}", own.kind)],
    };
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let described = |value: &str| if value.is_empty() { "missing".to_owned() } else { value.to_owned() };
    let differs = |(key, value): (&String, &String)| {
        let actual = metadata["labels"][key].as_str().unwrap_or_default();
        (actual != value).then(|| {
            let (actual, value) = (described(actual), described(value));
            format!("the label {key} of {} {name} is {actual}, expected is {value}", own.kind)
        })
    };
    own.labels.iter().filter_map(differs).collect()
}

impl EventExpectation {
    fn matches(&self, event: &Value) -> bool {
        let is_kind = self.kind.as_ref().is_none_or(|kind| event["involvedObject"]["kind"] == kind.as_str());
        let text = event["message"].as_str().unwrap_or_default();
        let has_text = self.message.as_ref().is_none_or(|part| text.contains(part));
        event["reason"] == self.reason.as_str() && is_kind && has_text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(text: &str) -> ExpectStep {
        serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn metrics_are_sums_of_the_series_with_the_labels() {
        let text = "# TYPE x counter\nx{a=\"1\",b=\"2\"} 3\nx{a=\"1\",b=\"3\"} 4\ny 1\n";
        let check = |step: &str| check_metrics(&expected(step).metrics, text);
        assert_eq!(check("metrics: {'x{a=\"1\"}': 7, 'x{b=\"2\"}': 3, y: 1, z: 0}"), [""; 0]);
        assert_eq!(check("metrics: {'x{b=\"3\"}': 3}"), ["the metric x{b=\"3\"} is 4, expected is 3"]);
    }
}
