//! `cargo xtask spec-coverage`: the numbered edge cases of `docs/spec` that no test names. The list
//! is computed from the tests and never kept by hand. A test that names a case that does not exist
//! is an error.

mod edge_cases;
mod mentions;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::code;
use crate::repository::{Repository, TextFile};
use edge_cases::EdgeCase;

/// Number of characters of a missing case that the report shows.
const EXCERPT_CHARS: usize = 100;

/// Coverage of all specifications by tests.
pub(crate) struct Coverage {
    /// One entry per `docs/spec/NN-*.md`, by number.
    pub(crate) specs: Vec<SpecCoverage>,
    /// Cases that tests name and no specification has, and specifications whose cases cannot be
    /// parsed.
    pub(crate) problems: Vec<String>,
}

/// Coverage of one specification by tests.
pub(crate) struct SpecCoverage {
    /// The two digits at the beginning of the file name.
    pub(crate) number: String,
    /// File name without the extension.
    name: String,
    /// Number of edge cases.
    total: usize,
    /// Edge cases that no test names.
    missing: Vec<EdgeCase>,
}

/// Compares the edge cases of the specifications with those that tests name.
pub(crate) fn coverage(repository: &Repository) -> Coverage {
    let mut problems = Vec::new();
    let mut named_cases: BTreeSet<(String, u32)> = BTreeSet::new();
    let mut origins = Vec::new();
    for file in repository.files.iter().filter(|file| file.is_rust() || file.is_for_tests()) {
        for mention in mentions::find(&test_text(file)) {
            origins.push((mention.clone(), file.path.as_str()));
            named_cases.insert(mention);
        }
    }

    let mut specs = Vec::new();
    let mut existing: BTreeSet<(String, u32)> = BTreeSet::new();
    for file in &repository.files {
        let Some((name, number)) = spec_number(&file.path) else { continue };
        let cases = edge_cases::parse(&file.text);
        problems.extend(edge_cases::numbering_problems(&cases).into_iter().map(|gap| format!("{}: {gap}", file.path)));
        existing.extend(cases.iter().map(|case| (number.to_owned(), case.number)));
        let total = cases.len();
        let missing =
            cases.into_iter().filter(|case| !named_cases.contains(&(number.to_owned(), case.number))).collect();
        specs.push(SpecCoverage { number: number.to_owned(), name: name.to_owned(), total, missing });
    }
    for ((spec, case), path) in origins.iter().filter(|(mention, _)| !existing.contains(mention)) {
        problems.push(format!("{path}: names spec {spec} #{case}, which does not exist"));
    }
    problems.sort();
    problems.dedup();
    Coverage { specs, problems }
}

/// Renders the report for all specifications or for one.
pub(crate) fn render(coverage: &Coverage, only: Option<&str>) -> String {
    let mut text = String::new();
    for problem in &coverage.problems {
        let _ = writeln!(text, "error: {problem}");
    }
    let chosen = || coverage.specs.iter().filter(|spec| only.is_none_or(|number| spec.number == number));
    for spec in chosen() {
        let _ = writeln!(
            text,
            "{}: {} of {} edge cases named by a test",
            spec.name,
            spec.total - spec.missing.len(),
            spec.total
        );
        for case in &spec.missing {
            let excerpt: String = case.text.chars().take(EXCERPT_CHARS).collect();
            let dots = if excerpt.len() < case.text.len() { "…" } else { "" };
            let _ = writeln!(text, "  #{:<4} {excerpt}{dots}", case.number);
        }
    }
    let total: usize = chosen().map(|spec| spec.total).sum();
    let missing: usize = chosen().map(|spec| spec.missing.len()).sum();
    let _ = writeln!(text, "total: {} of {total} edge cases named by a test", total - missing);
    text
}

/// Returns the test code of a file: all of a test file, otherwise the items with `#[cfg(test)]`.
fn test_text(file: &TextFile) -> String {
    if file.is_for_tests() {
        return file.text.clone();
    }
    let marks = code::test_lines(file.code());
    let lines = file.text.lines().zip(marks).filter(|(_, is_test)| *is_test).map(|(line, _)| line);
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns file name and number of a specification; `None` if the path is not one.
fn spec_number(path: &str) -> Option<(&str, &str)> {
    let name = path.strip_prefix("docs/spec/")?.strip_suffix(".md")?;
    let number = name.get(..2)?;
    (number.bytes().all(|byte| byte.is_ascii_digit()) && name[2..].starts_with('-')).then_some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str =
        "## 1. Things\n1. not an edge case\n## 2. Edge cases that must hold\n1. One.\n2. Two.\n3. Three.\n";

    #[test]
    fn only_tests_count() {
        let repository = Repository::of(&[
            ("docs/spec/02-scheduling.md", SPEC),
            ("crates/a/src/lib.rs", concat!("// spec ", "02 #1\n#[cfg(test)]\nmod tests {\n// spec ", "02 #2\n}\n")),
            ("crates/a/tests/it/main.rs", concat!("fn spec_", "02_3_holds() {}")),
        ]);
        let coverage = coverage(&repository);
        assert_eq!(coverage.problems, [""; 0]);
        assert_eq!(
            render(&coverage, None),
            "02-scheduling: 2 of 3 edge cases named by a test\n  #1    One.\ntotal: 2 of 3 edge cases named by a test\n"
        );
    }

    #[test]
    fn a_case_that_does_not_exist_is_an_error() {
        let repository = Repository::of(&[
            ("docs/spec/02-scheduling.md", SPEC),
            ("crates/a/tests/a.rs", concat!("// spec ", "02 #4")),
        ]);
        assert_eq!(
            coverage(&repository).problems,
            [concat!("crates/a/tests/a.rs: names spec ", "02 #4, which does not exist")]
        );
    }

    #[test]
    fn every_specification_of_this_repository_can_be_read() {
        let coverage = coverage(&Repository::read().expect("the repository can be read"));
        assert_eq!(coverage.problems, [""; 0]);
        assert!(coverage.specs.len() >= 9 && coverage.specs.iter().all(|spec| spec.total > 0));
    }
}
