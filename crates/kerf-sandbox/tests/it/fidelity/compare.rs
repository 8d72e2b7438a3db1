//! Differences between the responses of two servers, field by field. Known differences are listed
//! with their reason in a table of docs/SANDBOX.md.

use serde_json::Value;

use super::run::RecordedResponse;

/// The page with the table, and the heading above it.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SANDBOX.md");
const HEADING: &str = "## Where it differs from the real server";

/// One field in which two responses differ.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) step: String,
    /// JSON pointer into the body, or `code`.
    pub(super) field: String,
    real: Value,
    sandbox: Value,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { step, field, real, sandbox } = self;
        write!(f, "{step}\n    at {field}\n    real    {real}\n    sandbox {sandbox}")
    }
}

/// Returns all differences between the responses of the real server and of the sandbox.
pub(super) fn differences(real: &[RecordedResponse], sandbox: &[RecordedResponse]) -> Vec<Difference> {
    let steps =
        |responses: &[RecordedResponse]| responses.iter().map(|response| response.step.clone()).collect::<Vec<_>>();
    assert_eq!(steps(real), steps(sandbox), "the answers are those of another script: record them again");
    let mut differences = Vec::new();
    for (real, sandbox) in real.iter().zip(sandbox) {
        if real.code == sandbox.code {
            collect_differences(&real.step, "", &real.body, &sandbox.body, &mut differences);
        } else {
            let summary = |response: &RecordedResponse| format!("{} {}", response.code, response.body).into();
            differences.push(Difference {
                step: real.step.clone(),
                field: "code".to_owned(),
                real: summary(real),
                sandbox: summary(sandbox),
            });
        }
    }
    differences
}

fn collect_differences(step: &str, field: &str, real: &Value, sandbox: &Value, differences: &mut Vec<Difference>) {
    match (real, sandbox) {
        (Value::Object(real), Value::Object(sandbox)) => {
            let names = real.keys().chain(sandbox.keys().filter(|name| !real.contains_key(*name)));
            for name in names {
                let value_in = |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                let field = format!("{field}/{}", name.replace('/', "~1"));
                collect_differences(step, &field, &value_in(real), &value_in(sandbox), differences);
            }
        }
        (Value::Array(real), Value::Array(sandbox)) if real.len() == sandbox.len() => {
            for (index, (real, sandbox)) in real.iter().zip(sandbox).enumerate() {
                collect_differences(step, &format!("{field}/{index}"), real, sandbox, differences);
            }
        }
        _ if real == sandbox => {}
        _ => differences.push(Difference {
            step: step.to_owned(),
            field: field.to_owned(),
            real: real.clone(),
            sandbox: sandbox.clone(),
        }),
    }
}

/// A row of the table. It may cover several steps and fields.
#[derive(Debug)]
pub(super) struct KnownDifference {
    pub(super) step: String,
    pub(super) field: String,
}

impl KnownDifference {
    pub(super) fn covers(&self, difference: &Difference) -> bool {
        matches(&self.step, &difference.step) && matches(&self.field, &difference.field)
    }
}

/// Returns true if the text matches the pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text
            .strip_prefix(start)
            .is_some_and(|text| (0..=text.len()).any(|at| text.get(at..).is_some_and(|end| matches(rest, end)))),
    }
}

/// Returns the rows of the table. Each has its step and its field in backticks, and a reason.
pub(super) fn known_differences() -> Vec<KnownDifference> {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let section = page.lines().skip_while(|line| *line != HEADING).skip(1).take_while(|line| !line.starts_with("## "));
    let rows = section.filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [step, field, reason] = cells.as_slice() else { panic!("{row}: not three cells") };
        assert!(reason.len() > 10, "{row}: why?");
        let without_backticks = |cell: &str| cell.trim_matches('`').to_owned();
        KnownDifference { step: without_backticks(step), field: without_backticks(field) }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(matches("crud: *", "crud: a pod") && matches("*/spec/*", "/items/0/spec/x") && matches("a", "a"));
        assert!(!matches("crud: *", "patch: a pod") && !matches("*/spec", "/spec/x") && !matches("a", "ab"));
    }
}
