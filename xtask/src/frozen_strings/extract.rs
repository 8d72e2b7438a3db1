//! Finds the frozen strings of the tree, kind by kind. Most are found by their position in the
//! code, independent of identifiers. Log messages are found by their text: they come from spec 07
//! and must be literals outside tests.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_items::Source;
use super::{FrozenKind, FrozenString};
use crate::code;
use crate::repository::{Repository, TextFile};

/// Functions that take the label of a random stream as an argument.
const STREAM_FUNCTIONS: [&str; 5] = ["fork", "Chance::new", "Rng::new", "Rng::labelled", "Rng::for_stream"];

/// Prefixes of the names of metrics.
const METRIC_PREFIXES: [&str; 8] =
    ["karpenter_", "kerf_", "workqueue_", "client_go_", "controller_runtime_", "operator_", "process_", "go_"];

// If one of these folders is renamed, all strings of a kind are missing at once: correct the path
// here.

/// Folders that define published JSON: `kerf … -o json`, the report of a simulation, and the values
/// of Kerf's annotations.
const JSON_FOLDERS: [&str; 3] =
    ["crates/kerf/src/output", "crates/kerf-sandbox/src/sim", "crates/kerf-controllers/src"];

/// Folder that defines scenario files and their faults.
const SCENARIO_FOLDER: &str = "crates/kerf-sandbox/src/sim";

/// Folders that define controllers and metrics.
const CONTROLLER_FOLDERS: [&str; 5] = [
    "crates/kerf-controllers/src",
    "crates/kerf-operator/src",
    "crates/kerf-cloud/src",
    "crates/kerf-kwok/src",
    "crates/kerf-aws/src",
];

/// Names of controllers that consist of one word.
const SHORT_CONTROLLER_NAMES: [&str; 3] = ["disruption", "eviction-queue", "provisioner"];

/// Specification of the log messages.
const OPERATIONS: &str = "docs/spec/07-operations.md";

fn defines_controllers(source: &Source<'_>) -> bool {
    CONTROLLER_FOLDERS.iter().any(|folder| source.path.starts_with(folder))
}

/// Returns all frozen strings of the tree, sorted. Also searches for the log messages of the list.
pub(super) fn all(repository: &Repository, listed: &[FrozenString]) -> Vec<FrozenString> {
    let is_shipped =
        |file: &&TextFile| file.path.starts_with("crates/") && file.path.contains("/src/") && !file.is_for_tests();
    let sources: Vec<Source<'_>> = repository.rust().filter(is_shipped).map(Source::of).collect();
    let literals: BTreeSet<&str> =
        sources.iter().flat_map(|source| &source.literals).map(|literal| literal.text.as_str()).collect();

    let mut strings = Vec::new();
    let mut add = |kind: FrozenKind, texts: BTreeSet<String>| {
        strings.extend(texts.into_iter().map(|text| FrozenString { kind, text }));
    };
    add(FrozenKind::Annotation, annotations(&literals));
    add(
        FrozenKind::FaultFlag,
        sources.iter().filter(|source| source.path.starts_with(SCENARIO_FOLDER)).flat_map(fault_flags).collect(),
    );
    add(FrozenKind::FaultInScenario, scenario_faults(&sources));
    add(FrozenKind::Metric, sources.iter().filter(|source| defines_controllers(source)).flat_map(metrics).collect());
    add(FrozenKind::ReasonCode, reason_codes(repository, &sources));
    let labels = stream_labels(&sources);
    // Signals of the kubelet have the form of a controller name.
    let is_signal = |name: &String| name.ends_with(".available");
    let is_no_label =
        |name: &String| !is_signal(name) && !labels.contains(name) || SHORT_CONTROLLER_NAMES.contains(&name.as_str());
    add(FrozenKind::SpecTests, spec_tests(repository));

    let specification = repository.file(OPERATIONS).map_or("", |file| file.text.as_str());
    let listed_messages =
        listed.iter().filter(|frozen| frozen.kind == FrozenKind::LogMessage).map(|frozen| frozen.text.clone());
    let messages: BTreeSet<String> = log_messages(specification).into_iter().chain(listed_messages).collect();
    add(FrozenKind::LogKeys, sources.iter().flat_map(|source| log_keys(source, &messages)).collect());
    add(FrozenKind::LogMessage, messages.into_iter().filter(|text| literals.contains(text.as_str())).collect());
    add(
        FrozenKind::ControllerName,
        sources
            .iter()
            .filter(|source| defines_controllers(source))
            .flat_map(controller_names)
            .filter(is_no_label)
            .collect(),
    );
    add(FrozenKind::StreamLabel, labels);

    // Two objects can have the same keys.
    let objects = |folders: &[&str], derived: &str| {
        let chosen = sources.iter().filter(|source| folders.iter().any(|folder| source.path.starts_with(folder)));
        let items = chosen.flat_map(|source| source.serde_items(derived)).filter(|item| !item.is_enum);
        items
            .map(|mut item| {
                item.names.sort();
                item.names.join(" ")
            })
            .collect::<Vec<_>>()
    };
    strings.extend(
        objects(&JSON_FOLDERS, "Serialize").into_iter().map(|text| FrozenString { kind: FrozenKind::JsonObject, text }),
    );
    strings.extend(
        objects(&[SCENARIO_FOLDER], "Deserialize")
            .into_iter()
            .map(|text| FrozenString { kind: FrozenKind::ScenarioObject, text }),
    );
    strings.sort();
    strings
}

/// Returns the labels of random streams: literals in calls of [`STREAM_FUNCTIONS`], and constants
/// that are their last argument. The definition of a constant is in the same file or, if it is not
/// there, in exactly one other file.
fn stream_labels(sources: &[Source<'_>]) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for source in sources {
        for arguments in STREAM_FUNCTIONS.iter().flat_map(|function| source.calls(function)) {
            labels.extend(source.literals_in(&arguments).map(|literal| without_names(&literal.text)));
            let last = source.last_argument(&arguments).rsplit("::").next().unwrap_or_default();
            if !last.is_empty() && last.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
                let mut definitions = sources.iter().filter_map(|source| source.constant(last));
                let only = definitions.next().filter(|_| definitions.next().is_none());
                labels.extend(source.constant(last).or(only).map(str::to_owned));
            }
        }
    }
    labels
}

/// Returns the names of faults for the command line: `("conflict", Self::Conflict)`.
fn fault_flags<'s>(source: &'s Source<'_>) -> impl Iterator<Item = String> + 's {
    let is_name = |(before, after): (&str, &str)| {
        let value = after.strip_prefix(',').map(str::trim_start);
        before.ends_with('(')
            && value.is_some_and(|value| value.starts_with("Self::") || value.starts_with("NamedFault::"))
    };
    source.literals.iter().filter(move |literal| is_name(source.around(literal))).map(|literal| literal.text.clone())
}

/// Returns the names of faults in scenario files: the variants of the enums that serde reads.
fn scenario_faults(sources: &[Source<'_>]) -> BTreeSet<String> {
    let chosen = sources.iter().filter(|source| source.path.starts_with(SCENARIO_FOLDER));
    chosen
        .flat_map(|source| source.serde_items("Deserialize"))
        .filter(|item| item.is_enum)
        .flat_map(|item| item.names)
        // Variants of untagged enums have no name in a file.
        .filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase()))
        .collect()
}

/// Returns every `kerf.sh/…` in a literal, with its subdomain if it has one (`sandbox.kerf.sh/…`).
fn annotations(literals: &BTreeSet<&str>) -> BTreeSet<String> {
    const DOMAIN: &str = "kerf.sh/";
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let mut names = BTreeSet::new();
    for literal in literals {
        for (at, _) in literal.match_indices(DOMAIN) {
            let start = literal[..at].rfind(|c| !is_name(c)).map_or(0, |before| before + 1);
            let name: String = literal[at + DOMAIN.len()..].chars().take_while(|c| is_name(*c)).collect();
            names.insert(format!("{}{DOMAIN}{}", &literal[start..at], name.trim_end_matches(['.', '-'])));
        }
    }
    names
}

/// Returns the names of metrics. A name that is composed of parts begins with a placeholder.
fn metrics<'s>(source: &'s Source<'_>) -> impl Iterator<Item = String> + 's {
    let is_metric = |text: &String| {
        let is_started = METRIC_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) || text.starts_with("{}_");
        is_started && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_{}".contains(c))
    };
    source.literals.iter().map(|literal| without_names(&literal.text)).filter(is_metric)
}

/// Removes the names of variables from a format string: `{prefix}_total` becomes `{}_total`.
fn without_names(text: &str) -> String {
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| match part.split_once('}') {
        Some((_, rest)) => format!("{before}{{}}{rest}"),
        None => format!("{before}{{{part}"),
    })
}

/// Returns the codes that `docs/reasons.md` documents and the engine contains as literals.
fn reason_codes(repository: &Repository, sources: &[Source<'_>]) -> BTreeSet<String> {
    let page = repository.file("docs/reasons.md").map_or("", |file| file.text.as_str());
    let engine = sources.iter().filter(|source| source.path.starts_with("crates/kerf-engine/"));
    let literals: BTreeSet<&str> =
        engine.flat_map(|source| source.literals.iter().map(|literal| literal.text.as_str())).collect();
    let codes = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(code, _)| code));
    codes.filter(|code| literals.contains(code)).map(str::to_owned).collect()
}

/// Returns the texts in backticks in the column `message` of spec 07 §7.2.
fn log_messages(specification: &str) -> Vec<String> {
    let section = specification.lines().skip_while(|line| !line.starts_with("### 7.2 ")).skip(1);
    let rows = section.take_while(|line| !line.starts_with("##")).filter(|line| line.starts_with('|'));
    let messages = rows.filter_map(|row| row.split('|').nth(2)).flat_map(in_backticks);
    // Single words are keys that the table lists beside a message.
    messages.filter(|message| message.contains(' ')).collect()
}

/// Returns the names of controllers: lower-case words separated by dots (`nodeclaim.lifecycle`)
/// that are not a domain (`karpenter.sh`).
fn controller_names<'s>(source: &'s Source<'_>) -> impl Iterator<Item = String> + 's {
    let is_name = |text: &&str| {
        let words: Vec<&str> = text.split('.').collect();
        let is_plain = words.iter().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()));
        let is_domain = words.last().is_some_and(|last| ["sh", "io", "com"].contains(last));
        SHORT_CONTROLLER_NAMES.contains(text) || (words.len() > 1 && is_plain && !is_domain)
    };
    source.literals.iter().map(|literal| literal.text.as_str()).filter(is_name).map(str::to_owned)
}

/// Returns the messages with the keys of their lines: `created nodeclaim: NodeClaim NodePool`.
fn log_keys(source: &Source<'_>, messages: &BTreeSet<String>) -> Vec<String> {
    let lines = source.literals.iter().filter(|literal| messages.contains(&literal.text));
    let with_keys = lines.filter_map(|literal| Some((&literal.text, source.log_keys(literal)?)));
    with_keys.map(|(message, keys)| format!("{message}: {}", keys.join(" ")).trim_end().to_owned()).collect()
}

fn in_backticks(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Returns `spec_NN` and the number of test functions whose names begin with `spec_NN_k_`.
fn spec_tests(repository: &Repository) -> BTreeSet<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in repository.rust().filter(|file| file.path.starts_with("crates/")) {
        let code = file.code();
        let marks = code::test_lines(code);
        for (line, is_test) in code.lines().zip(marks) {
            let Some((_, name)) = line.split_once("fn spec_").filter(|_| is_test || file.is_for_tests()) else {
                continue;
            };
            let mut parts = name.splitn(3, '_');
            let is_number =
                |part: Option<&str>| part.is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            if let Some(spec) = parts.next().filter(|spec| spec.len() == 2)
                && is_number(Some(spec))
                && is_number(parts.next())
            {
                *counts.entry(spec).or_default() += 1;
            }
        }
    }
    counts.into_iter().map(|(spec, count)| format!("spec_{spec} {count}")).collect()
}
