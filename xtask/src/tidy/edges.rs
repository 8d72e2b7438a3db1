//! Checks the dependencies between crates. The rules are the tables of `docs/ARCHITECTURE.md`,
//! parsed from that page, so that the documentation is what is checked: a new edge between crates
//! or a new dependency must be added to the page first.

use std::collections::{BTreeMap, BTreeSet};

use super::TidyProblem;
use crate::repository::Repository;

const ARCHITECTURE_PAGE: &str = "docs/ARCHITECTURE.md";
const WORKSPACE_MANIFEST: &str = "Cargo.toml";

/// The crate that the tests of every crate may use.
const CRATE_FOR_ALL_TESTS: &str = "kerf-referee";
/// Crates whose tests may use the sandbox.
const CRATES_TESTED_IN_SANDBOX: [&str; 5] =
    ["kerf-operator", "kerf-kwok", "kerf-aws", "kerf-aws-sdk", "kerf-controllers"];
const SANDBOX: &str = "kerf-sandbox";
/// The simulated cloud, for the tests of a crate that knows no concrete cloud provider.
const SIMULATED_CLOUD_EDGE: (&str, &str) = ("kerf-controllers", "kerf-kwok");

/// The dependencies that one crate may and may not have.
struct CrateRule {
    own_crates: AllowedCrates,
    never: Vec<String>,
}

/// The crates of this workspace on which a crate may depend.
enum AllowedCrates {
    Only(BTreeSet<String>),
    AllBut(BTreeSet<String>),
}

impl AllowedCrates {
    fn allows(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::AllBut(names) => !names.contains(name),
        }
    }
}

pub(super) fn check_crates(repository: &Repository) -> Vec<TidyProblem> {
    let Some(page) = repository.file(ARCHITECTURE_PAGE) else {
        return vec![TidyProblem::in_file(ARCHITECTURE_PAGE, "is missing")];
    };
    let rules = parse_crate_rules(&page.text);
    let own_names: BTreeSet<&str> = repository.crates.iter().map(|krate| krate.name.as_str()).collect();

    let mut problems = Vec::new();
    for krate in &repository.crates {
        let Some(rule) = rules.get(&krate.name) else {
            problems.push(TidyProblem::in_file(
                ARCHITECTURE_PAGE,
                format!("the table of edges has no row for `{}`", krate.name),
            ));
            continue;
        };
        for dependency in &krate.dependencies {
            let name = dependency.name.as_str();
            let allowed = if own_names.contains(name) {
                rule.own_crates.allows(name) || (dependency.is_dev_only && tests_may_use(&krate.name, name))
            } else {
                dependency.is_dev_only || !rule.never.iter().any(|pattern| matches_pattern(pattern, name))
            };
            if !allowed {
                let message =
                    format!("`{}` may not depend on `{name}` (the table of edges in {ARCHITECTURE_PAGE})", krate.name);
                problems.push(TidyProblem::in_file(&format!("crates/{}/Cargo.toml", krate.name), message));
            }
        }
    }
    for name in rules.keys().filter(|name| !own_names.contains(name.as_str())) {
        problems.push(TidyProblem::in_file(
            ARCHITECTURE_PAGE,
            format!("the table of edges names `{name}`, which is no crate of the workspace"),
        ));
    }
    problems
}

/// Checks that every dependency of the workspace has a row in the table of dependencies, and that
/// every row has a dependency.
pub(super) fn check_dependency_table(repository: &Repository) -> Vec<TidyProblem> {
    let (Some(page), Some(manifest)) = (repository.file(ARCHITECTURE_PAGE), repository.file(WORKSPACE_MANIFEST)) else {
        return vec![TidyProblem::in_file(ARCHITECTURE_PAGE, format!("this file or {WORKSPACE_MANIFEST} is missing"))];
    };
    let declared = workspace_dependencies(&manifest.text);
    let explained: BTreeSet<&str> =
        table_rows(&page.text, "## Dependencies").filter_map(|row| backticked_names(row[0]).next()).collect();
    let missing = declared.difference(&explained).map(|name| {
        TidyProblem::in_file(ARCHITECTURE_PAGE, format!("the table of dependencies has no sentence for `{name}`"))
    });
    let stale = explained.difference(&declared).map(|name| {
        TidyProblem::in_file(
            ARCHITECTURE_PAGE,
            format!("the table of dependencies explains `{name}`, which no crate declares"),
        )
    });
    missing.chain(stale).collect()
}

fn tests_may_use(krate: &str, name: &str) -> bool {
    name == CRATE_FOR_ALL_TESTS
        || (name == SANDBOX && CRATES_TESTED_IN_SANDBOX.contains(&krate))
        || (krate, name) == SIMULATED_CLOUD_EDGE
}

fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

fn parse_crate_rules(page: &str) -> BTreeMap<String, CrateRule> {
    let mut rules = BTreeMap::new();
    for row in table_rows(page, "## Edges") {
        let (Some(krate), Some(own), Some(never)) = (backticked_names(row[0]).next(), row.get(1), row.get(2)) else {
            continue;
        };
        let listed: BTreeSet<String> = backticked_names(own).map(str::to_owned).collect();
        let own = if own.trim_start().starts_with("all") {
            AllowedCrates::AllBut(listed)
        } else {
            AllowedCrates::Only(listed)
        };
        rules.insert(
            krate.to_owned(),
            CrateRule { own_crates: own, never: backticked_names(never).map(str::to_owned).collect() },
        );
    }
    rules
}

/// Returns the rows of the tables under a heading, split into cells, without header and separator.
fn table_rows<'p>(page: &'p str, heading: &str) -> impl Iterator<Item = Vec<&'p str>> {
    let section =
        page.lines().skip_while(move |line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    section
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect::<Vec<_>>()
        .into_iter()
}

/// Returns the texts in backticks.
fn backticked_names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the keys of `[workspace.dependencies]` that are not crates of the workspace.
fn workspace_dependencies(manifest: &str) -> BTreeSet<&str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#') && !line.contains("path ="))
        .filter_map(|line| line.split_once(['=', '.']))
        .map(|(name, _)| name.trim())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
## Edges
| crate | may | never |
|---|---|---|
| `kerf-engine` | `kerf-api` | `tokio`, `aws-*` |
| `kerf` | all but `kerf-aws-sdk` | none |
| `kerf-api` | none | none |
| `kerf-aws-sdk` | all | none |
| `kerf-referee` | `kerf-api` | none |
## Dependencies
| dependency | why |
|---|---|
| `tokio` | async |
| `gone` | nobody knows |
";
    const CARGO: &str = "[workspace.dependencies]\nkerf-api = { path = \"x\" }\n# note\ntokio = \"1\"\nserde = { version = \"1\" }\n[lints]\n";

    fn crate_problems(engine_needs: &[(&str, bool)]) -> Vec<String> {
        let repository = Repository::of(&[(ARCHITECTURE_PAGE, TABLES), (WORKSPACE_MANIFEST, CARGO)])
            .with_crate("kerf-engine", &[], engine_needs)
            .with_crate("kerf", &[], &[("kerf-engine", false)])
            .with_crate("kerf-api", &[], &[])
            .with_crate("kerf-aws-sdk", &[], &[])
            .with_crate("kerf-referee", &[], &[]);
        check_crates(&repository).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        assert_eq!(
            crate_problems(&[("kerf-api", false), ("jiff", false), ("kerf-referee", true), ("tokio", true)]),
            [""; 0]
        );
    }

    #[test]
    fn forbidden_edges_are_reported() {
        let messages =
            crate_problems(&[("kerf-referee", false), ("kerf-aws-sdk", true), ("aws-config", false), ("tokio", false)]);
        assert_eq!(messages.len(), 4, "{messages:?}");
        assert!(messages[2].starts_with("`kerf-engine` may not depend on `aws-config`"), "{messages:?}");
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_reported() {
        let repository =
            Repository::of(&[(ARCHITECTURE_PAGE, "## Edges\n| `old` | none | none |\n")]).with_crate("new", &[], &[]);
        let messages: Vec<_> = check_crates(&repository).into_iter().map(|problem| problem.message).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
    }

    #[test]
    fn every_dependency_needs_a_row() {
        let repository = Repository::of(&[(ARCHITECTURE_PAGE, TABLES), (WORKSPACE_MANIFEST, CARGO)]);
        let messages: Vec<_> = check_dependency_table(&repository).into_iter().map(|problem| problem.message).collect();
        assert!(
            messages[0].contains("no sentence for `serde`") && messages[1].contains("explains `gone`"),
            "{messages:?}"
        );
        assert_eq!(messages.len(), 2);
    }
}
