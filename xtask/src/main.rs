//! Checks of the repository that the compiler and clippy cannot do: `cargo xtask tidy`, `cargo
//! xtask spec-coverage` and `cargo xtask frozen-strings`. All of them are also tests, so that they
//! run with `cargo test`.

mod code;
mod frozen_strings;
mod repository;
mod spec_coverage;
mod tidy;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use repository::Repository;

const USAGE: &str = "\
Checks on the repository itself.

  cargo xtask tidy                        check for dead files, crate edges, links, module heads, names, lengths, style
  cargo xtask style                       print the style counts
  cargo xtask style who-words             list every finding of one count
  cargo xtask spec-coverage               list the edge cases of docs/spec that no test names
  cargo xtask spec-coverage --spec 02     list them for one specification
  cargo xtask frozen-strings              check that no rename has changed a frozen string
  cargo xtask frozen-strings --write      add new strings to xtask/frozen-strings.txt
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => Repository::read().map(|repository| tidy_report(&repository)),
        ["style"] => Repository::read().map(|repository| style_counts(&repository)),
        ["style", name] => Repository::read().and_then(|repository| style_places(&repository, name)),
        ["spec-coverage"] => Repository::read().and_then(|repository| coverage_report(&repository, None)),
        ["spec-coverage", "--spec", spec] => {
            Repository::read().and_then(|repository| coverage_report(&repository, Some(spec)))
        }
        ["frozen-strings"] => Repository::read().map(|repository| frozen_strings_report(&repository)),
        ["frozen-strings", "--write"] => Repository::read().and_then(|repository| write_frozen_strings(&repository)),
        ["--help" | "-h" | "help"] => Ok((USAGE.to_owned(), ExitCode::SUCCESS)),
        _ => Err(format!("unknown arguments: {}\n\n{USAGE}", arguments.join(" "))),
    };
    match outcome {
        Ok((text, code)) => {
            // A closed pipe is not an error: the reader has read enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            code
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}

fn tidy_report(repository: &Repository) -> (String, ExitCode) {
    let problems = tidy::problems(repository);
    let mut text = String::new();
    for problem in &problems {
        let _ = writeln!(text, "{problem}");
    }
    match problems.len() {
        0 => ("tidy: no problems\n".to_owned(), ExitCode::SUCCESS),
        count => (format!("{text}tidy: {}\n", count_of_problems(count)), ExitCode::FAILURE),
    }
}

fn count_of_problems(count: usize) -> String {
    format!("{count} {}", if count == 1 { "problem" } else { "problems" })
}

fn style_counts(repository: &Repository) -> (String, ExitCode) {
    let mut text = String::new();
    for count in tidy::style::counts(repository) {
        let _ = writeln!(text, "{} = {}", count.name, count.places.len());
    }
    (text, ExitCode::SUCCESS)
}

fn style_places(repository: &Repository, name: &str) -> Result<(String, ExitCode), String> {
    let counts = tidy::style::counts(repository);
    let Some(count) = counts.iter().find(|count| count.name == name) else {
        let names: Vec<&str> = counts.iter().map(|count| count.name).collect();
        return Err(format!("unknown count `{name}`; use one of: {}", names.join(", ")));
    };
    let mut text = String::new();
    for at in &count.places {
        let _ = writeln!(text, "{}:{}: {}", at.path, at.line, at.text);
    }
    Ok((text, ExitCode::SUCCESS))
}

fn frozen_strings_report(repository: &Repository) -> (String, ExitCode) {
    let problems = frozen_strings::problems(repository);
    match problems.len() {
        0 => ("frozen-strings: the list and the tree agree\n".to_owned(), ExitCode::SUCCESS),
        count => {
            let text = format!("{}\nfrozen-strings: {}\n", problems.join("\n"), count_of_problems(count));
            (text, ExitCode::FAILURE)
        }
    }
}

fn write_frozen_strings(repository: &Repository) -> Result<(String, ExitCode), String> {
    let (list, added) = frozen_strings::extended_list(repository)?;
    let path = Repository::root()?.join(frozen_strings::LIST);
    std::fs::write(&path, list).map_err(|cause| format!("cannot write {}: {cause}", path.display()))?;
    let mut text = String::new();
    for line in &added {
        let _ = writeln!(text, "+ {line}");
    }
    let _ = writeln!(text, "frozen-strings: {} added to {}", added.len(), frozen_strings::LIST);
    Ok((text, ExitCode::SUCCESS))
}

fn coverage_report(repository: &Repository, only: Option<&str>) -> Result<(String, ExitCode), String> {
    let coverage = spec_coverage::coverage(repository);
    if let Some(spec) = only
        && !coverage.specs.iter().any(|covered| covered.number == spec)
    {
        return Err(format!("--spec {spec}: docs/spec/{spec}-*.md does not exist"));
    }
    let code = if coverage.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((spec_coverage::render(&coverage, only), code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_problem_is_singular() {
        assert_eq!([1, 2].map(count_of_problems), ["1 problem", "2 problems"]);
    }

    #[test]
    fn unknown_names_are_errors() {
        let repository = Repository::of(&[]);
        let error = style_places(&repository, "foo").map(|(text, _)| text).unwrap_err();
        assert!(error.starts_with("unknown count `foo`; use one of: retired-words, "), "{error}");
        let error = coverage_report(&repository, Some("99")).map(|(text, _)| text).unwrap_err();
        assert_eq!(error, "--spec 99: docs/spec/99-*.md does not exist");
    }
}
