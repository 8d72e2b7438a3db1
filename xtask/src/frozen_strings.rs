//! `cargo xtask frozen-strings`: texts on which users, stored objects or seeds depend, and that a
//! rename must not change. `xtask/frozen-strings.txt` lists them, one per line with its kind. A
//! string that is listed and no longer in the tree is an error, and so is a string in the tree that
//! is not listed. `--write` adds to the list and never removes from it.

mod extract;
mod rust_items;

use std::collections::BTreeMap;

use crate::repository::Repository;

/// Path of the list.
pub(crate) const LIST: &str = "xtask/frozen-strings.txt";

const HEAD: &str = "\
# Texts that a rename must not change: a kind and a string per line, sorted. `cargo xtask frozen-strings` compares them with the tree.
# `cargo xtask frozen-strings --write` adds new ones. To change or remove a string on purpose, edit this file in the same commit.
";

/// A kind of frozen string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FrozenKind {
    /// `kerf.sh/…` names of annotations and API versions.
    Annotation,
    ControllerName,
    /// Names of faults for `--faults`.
    FaultFlag,
    /// Names of faults in scenario files.
    FaultInScenario,
    /// The keys of one object of published JSON, in alphabetical order.
    JsonObject,
    /// Log messages of spec 07 §7.2 with the keys of one line, in alphabetical order.
    LogKeys,
    /// Log messages of spec 07 §7.2.
    LogMessage,
    Metric,
    /// Reason codes of `docs/reasons.md`.
    ReasonCode,
    /// The keys of one object of scenario files, in alphabetical order.
    ScenarioObject,
    /// The number of tests whose names begin with `spec_NN_k_`, for one specification.
    SpecTests,
    /// Labels of random streams.
    StreamLabel,
}

impl FrozenKind {
    const ALL: [Self; 12] = [
        Self::Annotation,
        Self::ControllerName,
        Self::FaultFlag,
        Self::FaultInScenario,
        Self::JsonObject,
        Self::LogKeys,
        Self::LogMessage,
        Self::Metric,
        Self::ReasonCode,
        Self::ScenarioObject,
        Self::SpecTests,
        Self::StreamLabel,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::ControllerName => "controller-name",
            Self::FaultFlag => "fault-flag",
            Self::FaultInScenario => "fault-in-scenario",
            Self::JsonObject => "json-object",
            Self::LogKeys => "log-keys",
            Self::LogMessage => "log-message",
            Self::Metric => "metric",
            Self::ReasonCode => "reason-code",
            Self::ScenarioObject => "scenario-object",
            Self::SpecTests => "spec-tests",
            Self::StreamLabel => "stream-label",
        }
    }

    /// Returns the reason why strings of this kind are frozen, and what to do if one is missing.
    fn advice(self) -> &'static str {
        match self {
            Self::Annotation => "objects in clusters carry it: restore the literal",
            Self::ControllerName => {
                "logs, metrics and the random streams of reconcile IDs carry it: restore the literal in crates/kerf-controllers/src"
            }
            Self::FaultFlag => {
                "people type it after `--faults`: restore the literal in the table of names, `(\"name\", Self::Variant)`"
            }
            Self::FaultInScenario => {
                "scenario files use it: add `#[serde(rename = \"…\")]` to the variant that was renamed"
            }
            Self::JsonObject => {
                "programs read these keys together in one object: add `#[serde(rename = \"…\")]` to the field that was renamed"
            }
            Self::LogKeys => {
                "log queries read these keys of the line: write `key = variable` where a variable that gives its name to a key was renamed"
            }
            Self::LogMessage => "spec 07 §7.2 lists it, and log queries contain it: restore the literal",
            Self::Metric => "dashboards and alerts read it: restore the literal",
            Self::ReasonCode => {
                "programs compare it: restore it in docs/reasons.md and as a literal in crates/kerf-engine"
            }
            Self::ScenarioObject => {
                "scenario files use these keys together in one object: add `#[serde(rename = \"…\")]` to the field that was renamed"
            }
            Self::SpecTests => {
                "fewer tests have a name that begins with `spec_NN_k_`: restore the prefix (xtask spec-coverage reads it)"
            }
            Self::StreamLabel => {
                "every random number of the stream depends on it: restore the label. If the function that takes the label was renamed, \
                 add its name to STREAM_FUNCTIONS in xtask/src/frozen_strings/extract.rs"
            }
        }
    }
}

/// A frozen string with its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrozenString {
    pub(crate) kind: FrozenKind,
    /// The text; for [`FrozenKind::SpecTests`] `spec_NN` and the number.
    pub(crate) text: String,
}

impl FrozenString {
    fn line(&self) -> String {
        format!("{} {}", self.kind.name(), self.text)
    }

    fn parse(line: &str) -> Result<Self, String> {
        let kinds = || FrozenKind::ALL.map(FrozenKind::name).join(", ");
        let (kind, text) = line.split_once(' ').ok_or_else(|| format!("`{line}` is not a kind and a string"))?;
        let kind = FrozenKind::ALL.into_iter().find(|known| known.name() == kind);
        let kind = kind.ok_or_else(|| format!("`{line}` does not begin with one of the kinds {}", kinds()))?;
        Ok(Self { kind, text: text.to_owned() })
    }
}

/// Returns all differences between the list and the tree.
pub(crate) fn problems(repository: &Repository) -> Vec<String> {
    let Some(file) = repository.file(LIST) else {
        return vec![format!("{LIST} is missing: restore it, or run `cargo xtask frozen-strings --write`")];
    };
    let mut problems = Vec::new();
    let mut listed = Vec::new();
    for (index, line) in file.text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        match FrozenString::parse(line) {
            Ok(frozen) => listed.push(frozen),
            Err(problem) => problems.push(format!("{LIST}:{}: {problem}", index + 1)),
        }
    }
    if !listed.is_sorted() {
        problems
            .push(format!("{LIST}: is not sorted by kind and string; `cargo xtask frozen-strings --write` sorts it"));
    }
    let strings = extract::all(repository, &listed);
    for missing in difference(&listed, &strings) {
        problems.push(format!(
            "{} `{}` is no longer in the tree: {}. If the change is intended, edit {LIST}.",
            missing.kind.name(),
            missing.text,
            missing.kind.advice()
        ));
    }
    // A larger number of tests for an edge case than listed is not a problem.
    for new in difference(&strings, &listed).into_iter().filter(|new| new.kind != FrozenKind::SpecTests) {
        problems.push(format!(
            "{} `{}` is not in {LIST}: if it is new, run `cargo xtask frozen-strings --write`",
            new.kind.name(),
            new.text
        ));
    }
    problems
}

/// Returns the list extended by all new strings of the tree, and the added lines. Nothing is
/// removed, except smaller numbers of tests.
pub(crate) fn extended_list(repository: &Repository) -> Result<(String, Vec<String>), String> {
    let lines =
        repository.file(LIST).map_or("", |file| file.text.as_str()).lines().filter(|line| !line.starts_with('#'));
    let mut listed = lines.map(FrozenString::parse).collect::<Result<Vec<_>, _>>()?;
    let strings = extract::all(repository, &listed);
    let new = difference(&strings, &listed);
    listed.retain(|old| {
        let is_raised = |new: &&FrozenString| {
            spec_tests(new).zip(spec_tests(old)).is_some_and(|(new, old)| new.0 == old.0 && new.1 > old.1)
        };
        !new.iter().any(|new| is_raised(&new))
    });
    let is_kept = |new: &FrozenString| match spec_tests(new) {
        Some((spec, _)) => !listed.iter().any(|old| spec_tests(old).is_some_and(|(other, _)| other == spec)),
        None => true,
    };
    let new: Vec<FrozenString> = new.into_iter().filter(is_kept).collect();
    let added = new.iter().map(FrozenString::line).collect();
    listed.extend(new);
    listed.sort();
    let lines: Vec<String> = listed.iter().map(FrozenString::line).collect();
    Ok((format!("{HEAD}{}\n", lines.join("\n")), added))
}

/// Returns the strings of `first` that are not in `second`, each as often as it is missing. A
/// number of tests is missing if `second` has only smaller numbers.
fn difference(first: &[FrozenString], second: &[FrozenString]) -> Vec<FrozenString> {
    let mut left: BTreeMap<&FrozenString, usize> = BTreeMap::new();
    for frozen in second {
        *left.entry(frozen).or_default() += 1;
    }
    let mut missing = Vec::new();
    for frozen in first {
        if let Some((spec, number)) = spec_tests(frozen) {
            let is_reached = second.iter().filter_map(spec_tests).any(|(other, most)| other == spec && most >= number);
            if !is_reached {
                missing.push(frozen.clone());
            }
            continue;
        }
        match left.get_mut(frozen) {
            Some(count) if *count > 0 => *count -= 1,
            Some(_) | None => missing.push(frozen.clone()),
        }
    }
    missing
}

/// Returns the specification and the number of its tests, for [`FrozenKind::SpecTests`].
fn spec_tests(frozen: &FrozenString) -> Option<(&str, usize)> {
    let (spec, number) = frozen.text.split_once(' ').filter(|_| frozen.kind == FrozenKind::SpecTests)?;
    Some((spec, number.parse().ok()?))
}

#[cfg(test)]
mod tests;
