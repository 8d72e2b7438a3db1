//! Expectations of a scenario beside the counts of objects: lines of the controller's log in their
//! order, Events, conditions, metrics and instances.

use std::collections::BTreeMap;

use serde_json::Value;

use super::actor::ScenarioActor;
use super::invariant_checker::ObjectsOfPools;
use super::scenario::{ConditionExpectation, EventExpectation, ExpectStep, LogExpectation};

/// Log and metrics of the controllers under test.
pub trait ControllerOutput: Send + Sync {
    /// Returns all lines of the log so far, one JSON object per line.
    fn log(&self) -> String;

    /// Returns the metrics of the process that started last, in Prometheus' text format.
    fn metrics(&self) -> String;
}

/// The part of the log that earlier expectations have matched, in bytes.
#[derive(Debug, Default)]
pub(super) struct MatchedLog {
    end: usize,
}

/// Returns the expectations of a step that do not hold, as messages.
pub(super) fn failed_expectations(
    expected: &ExpectStep,
    output: Option<&dyn ControllerOutput>,
    actor: &mut ScenarioActor<'_>,
    objects: &ObjectsOfPools,
    matched: &mut MatchedLog,
) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(instances) = expected.instances {
        let live = actor.live_instances();
        if live != instances {
            failures.push(format!("instances is {live}, expected is {instances}"));
        }
    }
    let needs_output = !(expected.log.is_empty() && expected.log_lacks.is_empty() && expected.metrics.is_empty());
    match output {
        Some(output) => {
            failures.extend(check_log(expected, &output.log(), matched));
            failures.extend(check_metrics(&expected.metrics, &output.metrics()));
        }
        None if needs_output => failures.push("this run has no log and no metrics of the controller".to_owned()),
        None => {}
    }
    if !expected.events.is_empty() {
        let events = actor.list("/api/v1/events");
        let missing = expected.events.iter().filter(|own| !events.iter().any(|event| own.matches(event)));
        failures.extend(missing.map(|own| format!("no Event matches {own}")));
    }
    for own in &expected.conditions {
        failures.extend(check_condition(own, actor, objects));
    }
    failures
}

fn check_log(expected: &ExpectStep, log: &str, matched: &mut MatchedLog) -> Vec<String> {
    let rest = log.get(matched.end..).unwrap_or_default();
    let lines: Vec<(usize, Value)> =
        line_ends(rest).filter_map(|(end, line)| Some((end, serde_json::from_str(line).ok()?))).collect();
    let mut failures = Vec::new();
    let present = expected.log_lacks.iter().filter(|own| lines.iter().any(|(_, line)| own.matches(line)));
    failures.extend(present.map(|own| format!("the log has a line that matches {own}")));
    let mut next = 0;
    for own in &expected.log {
        match lines.iter().skip(next).position(|(_, line)| own.matches(line)) {
            Some(position) => next += position + 1,
            None => {
                let after = next.checked_sub(1).and_then(|last| lines[last].1["message"].as_str());
                let after = after.map(|message| format!(" after \"{message}\"")).unwrap_or_default();
                failures.push(format!("no line of the log matches {own}{after}"));
                break;
            }
        }
    }
    if let Some(last) = next.checked_sub(1) {
        matched.end += lines[last].0;
    }
    failures
}

/// Returns each line with the position after it.
fn line_ends(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end, line.trim_end()))
    })
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

impl LogExpectation {
    fn matches(&self, line: &Value) -> bool {
        let has_field = |(key, part): (&String, &String)| match &line[key] {
            Value::String(text) => text.contains(part),
            Value::Null => false,
            other => other.to_string().contains(part),
        };
        line["message"] == self.message.as_str() && self.fields.iter().all(has_field)
    }
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
    use serde_json::json;

    use super::*;

    fn log(messages: &[&str]) -> String {
        let lines: Vec<String> =
            messages.iter().map(|message| json!({ "message": message, "pods": 5 }).to_string() + "\n").collect();
        lines.concat()
    }

    fn expected(text: &str) -> ExpectStep {
        serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn lines_of_the_log_are_found_in_order_and_once() {
        let mut matched = MatchedLog::default();
        let text = log(&["a", "b", "a", "c"]);
        let mut check = |step: &str| check_log(&expected(step), &text, &mut matched);
        assert_eq!(check("log: [{message: a, fields: {pods: '5'}}, b]"), [""; 0]);
        assert_eq!(check("log: [a], logLacks: [b, d]".replace(", logLacks", "\nlogLacks").as_str()), [""; 0]);
        assert_eq!(check("log: [c, a]"), ["no line of the log matches \"a\" after \"c\""]);
        assert_eq!(check("log: [{message: c, fields: {pods: '5'}}]").len(), 1, "c was matched");
        let mut matched = MatchedLog::default();
        assert_eq!(
            check_log(&expected("logLacks: [b]\nlog: [{message: a, fields: {pods: '6'}}]"), &text, &mut matched),
            ["the log has a line that matches \"b\"", "no line of the log matches \"a\" with pods: 6"]
        );
    }

    #[test]
    fn metrics_are_sums_of_the_series_with_the_labels() {
        let text = "# TYPE x counter\nx{a=\"1\",b=\"2\"} 3\nx{a=\"1\",b=\"3\"} 4\ny 1\n";
        let check = |step: &str| check_metrics(&expected(step).metrics, text);
        assert_eq!(check("metrics: {'x{a=\"1\"}': 7, 'x{b=\"2\"}': 3, y: 1, z: 0}"), [""; 0]);
        assert_eq!(check("metrics: {'x{b=\"3\"}': 3}"), ["the metric x{b=\"3\"} is 4, expected is 3"]);
    }
}
