//! The lines of the controller's log that the expectations of a scenario wait for.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::scenario::{ExpectStep, LogExpectation, Scenario};

/// Largest number of lines that are kept until expectations match them.
const LINES_MAX: usize = 50_000;

/// The lines of a log that no expectation has matched yet. A line whose message no expectation of
/// the scenario has is dropped when it is written. Clones share the lines.
///
/// It is the writer of a log with one JSON object per line. Each write must have whole lines.
#[derive(Clone, Debug)]
pub struct ExpectedLog(Arc<Mutex<ExpectedLines>>);

#[derive(Debug)]
struct ExpectedLines {
    /// Messages of all expectations.
    messages: BTreeSet<String>,
    lines: VecDeque<Value>,
    /// True if a line was dropped because there were too many.
    is_incomplete: bool,
}

impl ExpectedLog {
    /// Returns an empty log for a scenario. Returns `None` if the scenario expects nothing of the
    /// log, so that none needs to be written.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        let expected = scenario.steps.iter().filter_map(|step| step.expect.as_ref());
        let lines = expected.flat_map(|expect| expect.log.iter().chain(&expect.log_lacks));
        let messages: BTreeSet<String> = lines.map(|own| own.message.clone()).collect();
        let lines = ExpectedLines { messages, lines: VecDeque::new(), is_incomplete: false };
        (!lines.messages.is_empty()).then(|| Self(Arc::new(Mutex::new(lines))))
    }

    /// Returns the expectations of a step that do not hold, as messages. Forgets the lines up to
    /// the last one that an expectation matches.
    pub(super) fn check(&self, expected: &ExpectStep) -> Vec<String> {
        let mut log = self.lock();
        let mut failures = Vec::new();
        if std::mem::take(&mut log.is_incomplete) {
            failures.push(format!(
                "the log has more than {LINES_MAX} lines with messages that expectations have: expect them in an \
                 earlier step"
            ));
        }
        let present = expected.log_lacks.iter().filter(|own| log.lines.iter().any(|line| own.matches(line)));
        failures.extend(present.map(|own| format!("the log has a line that matches {own}")));
        let mut next = 0;
        for own in &expected.log {
            match log.lines.iter().skip(next).position(|line| own.matches(line)) {
                Some(position) => next += position + 1,
                None => {
                    let after = next.checked_sub(1).and_then(|last| log.lines[last]["message"].as_str());
                    let after = after.map(|message| format!(" after \"{message}\"")).unwrap_or_default();
                    failures.push(format!("no line of the log matches {own}{after}"));
                    break;
                }
            }
        }
        log.lines.drain(..next);
        failures
    }

    fn lock(&self) -> MutexGuard<'_, ExpectedLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExpectedLines {
    fn add(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { return };
        if !line["message"].as_str().is_some_and(|message| self.messages.contains(message)) {
            return;
        }
        if self.lines.len() < LINES_MAX {
            self.lines.push_back(line);
        } else {
            self.is_incomplete = true;
        }
    }
}

impl io::Write for ExpectedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.lock();
        bytes.split(|byte| *byte == b'\n').for_each(|line| log.add(line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    fn log(steps: &[&str]) -> ExpectedLog {
        let steps: Vec<Value> = steps
            .iter()
            .map(|text| json!({ "at": "0s", "expect": serde_yaml_ng::from_str::<Value>(text).unwrap() }))
            .collect();
        let scenario = Scenario::read(json!({ "name": "x", "until": "1m", "steps": steps })).unwrap();
        ExpectedLog::of(&scenario).unwrap()
    }

    fn write(log: &ExpectedLog, messages: &[&str]) {
        for message in messages {
            let line = json!({ "message": message, "pods": 5 }).to_string() + "\n";
            log.clone().write_all(line.as_bytes()).unwrap();
        }
    }

    fn expected(text: &str) -> ExpectStep {
        serde_yaml_ng::from_str(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn lines_of_the_log_are_found_in_order_and_once() {
        let steps = [
            "log: [{message: a, fields: {pods: '5'}}, b]",
            "log: [a]\nlogLacks: [b, d]",
            "log: [c, a]",
            "log: [{message: c, fields: {pods: '5'}}]",
        ];
        let lines = log(&steps);
        write(&lines, &["a", "b", "a", "c"]);
        let check = |step: usize| lines.check(&expected(steps[step]));
        assert_eq!(check(0), [""; 0]);
        assert_eq!(check(1), [""; 0]);
        assert_eq!(check(2), ["no line of the log matches \"a\" after \"c\""]);
        assert_eq!(check(3).len(), 1, "c was matched");
        let step = "logLacks: [b]\nlog: [{message: a, fields: {pods: '6'}}]";
        let lines = log(&[step]);
        write(&lines, &["a", "b"]);
        assert_eq!(
            lines.check(&expected(step)),
            ["the log has a line that matches \"b\"", "no line of the log matches \"a\" with pods: 6"]
        );
    }

    #[test]
    fn only_lines_that_an_expectation_may_match_are_kept() {
        let scenario = Scenario::read(json!({ "name": "x", "until": "1m",
            "steps": [{ "at": "0s", "expect": { "nodes": 0, "metrics": { "x": 1 } } }] }));
        assert!(ExpectedLog::of(&scenario.unwrap()).is_none(), "no log is needed");
        let lines = log(&["log: [a, b]"]);
        write(&lines, &["x", "a", "y", "b", "a", "x"]);
        assert_eq!(lines.lock().lines.len(), 3);
        assert_eq!(lines.check(&expected("log: [a, b]")), [""; 0]);
        assert_eq!(lines.lock().lines.len(), 1, "matched lines are forgotten");
    }

    #[test]
    fn the_number_of_lines_has_a_bound_that_is_reported() {
        let lines = log(&["log: [a]", "logLacks: [b]"]);
        write(&lines, &vec!["a"; LINES_MAX + 1]);
        assert_eq!(lines.lock().lines.len(), LINES_MAX);
        let failures = lines.check(&expected("log: [a]"));
        assert!(failures.len() == 1 && failures[0].contains("more than 50000 lines"), "{failures:?}");
        assert_eq!(lines.check(&expected("logLacks: [b]")), [""; 0], "reported once");
    }
}
