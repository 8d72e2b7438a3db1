//! Runs the check on a small tree with a frozen string of every kind, with single strings changed.

use super::*;

const SANDBOX: &str = "crates/kerf-sandbox/src/cloud.rs";
const SCENARIO: &str = "crates/kerf-sandbox/src/sim/scenario.rs";
const CONTROLLERS: &str = "crates/kerf-controllers/src/controllers.rs";
const ENGINE: &str = "crates/kerf-engine/src/block.rs";
const OUTPUT: &str = "crates/kerf/src/output/plan.rs";

/// A tree with a frozen string of every kind.
const TREE: [(&str, &str); 8] = [
    (
        SANDBOX,
        "const LABEL: &str = \"kubelets\";
fn start() {
    let rng = Rng::new(seed).fork(\"cloud\");
    let chance = Chance::new(config.seed, \"disruption.command\");
    let other = Chance::new(
        config.seed,
        LABEL,
    );
}
#[cfg(test)]
mod tests {
    fn a() { Rng::new(7).fork(\"only in a test\"); }
}
",
    ),
    (
        SCENARIO,
        "#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = \"camelCase\", deny_unknown_fields)]
pub struct Steady<'s> {
    /// When.
    #[serde(deserialize_with = \"duration\")]
    pub from: Duration,
    pub(crate) cost_within_percent: BTreeMap<u32, u32>,
    #[serde(rename = \"every\")]
    period: u32,
}
#[derive(Deserialize)]
#[serde(rename_all = \"kebab-case\")]
enum NamedFault { /// One.
    LostResponse, Conflict }
const ALL: [(&str, Self); 2] = [(\"lost-response\", Self::LostResponse), (\"conflict\", Self::Conflict)];
",
    ),
    (
        CONTROLLERS,
        "fn all() {
    rack.hang(\"nodeclaim.lifecycle\", each());
    info!(pods = of(3, 4), %node, \"instance-types\" = ?listed(\"a\", 2), \"found provisionable pod(s)\");
    r.counter(\"karpenter_nodes_created_total\", \"Number of nodes.\");
    r.counter(&format!(\"{prefix}_changes_total\"), \"Number of changes.\");
    pod.annotations.insert(\"kerf.sh/replaced\");
}
",
    ),
    (ENGINE, "fn code(&self) { match self { Self::NoNode => \"NoNode\" } }\n"),
    (
        OUTPUT,
        "#[derive(Debug, Serialize)]
#[serde(rename_all = \"camelCase\")]
pub(crate) struct Blocked<'s> { node: &'s str, price_per_hour: f64, #[serde(skip)] hidden: u8 }
#[derive(Debug, Serialize)]
struct Same { node: u8, #[serde(rename = \"pricePerHour\")] price: f64 }
",
    ),
    ("docs/reasons.md", "| code | what |\n|---|---|\n| `NoNode` | No node. |\n| `NotInTheCode` | Never. |\n"),
    (
        "docs/spec/07-operations.md",
        "Controllers: `nodeclaim.lifecycle`.\n### 7.2 Lines\n| INFO | `found provisionable pod(s)`; `not built` | x | `Pods` |\n### 8\n",
    ),
    (
        "crates/kerf-engine/tests/it.rs",
        "fn spec_02_41_holds() {}\nfn spec_02_42_holds() {}\nfn spec_02_x() {}\nfn other() {}\n",
    ),
];

const LISTED: &str = "\
annotation kerf.sh/replaced
controller-name nodeclaim.lifecycle
fault-flag conflict
fault-flag lost-response
fault-in-scenario conflict
fault-in-scenario lost-response
json-object node pricePerHour
json-object node pricePerHour
log-keys found provisionable pod(s): instance-types node pods
log-message found provisionable pod(s)
metric karpenter_nodes_created_total
metric {}_changes_total
reason-code NoNode
scenario-object costWithinPercent every from
spec-tests spec_02 2
stream-label cloud
stream-label disruption.command
stream-label kubelets
";

/// Returns the tree and its list, with one text replaced by another in one file.
fn changed(path: &str, old: &str, new: &str) -> Repository {
    let list = format!("{HEAD}{LISTED}");
    let mut files: Vec<(&str, String)> = TREE.iter().map(|&(path, text)| (path, text.to_owned())).collect();
    files.push((LIST, list));
    let file = files.iter_mut().find(|(other, _)| *other == path).expect("the file is in the tree");
    assert!(file.1.contains(old), "{path} has no {old}");
    file.1 = file.1.replace(old, new);
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    Repository::of(&files)
}

/// Returns the beginnings of the problems, up to the first colon.
fn problem_heads(path: &str, old: &str, new: &str) -> Vec<String> {
    let problems = problems(&changed(path, old, new));
    problems.iter().map(|problem| problem.split(':').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_list_is_written_from_the_tree() {
    let repository = Repository::of(&TREE);
    let (list, added) = extended_list(&repository).expect("nothing is listed that cannot be read");
    assert_eq!(list, format!("{HEAD}{LISTED}"));
    assert_eq!(added.len(), LISTED.lines().count());
    assert!(problems(&repository)[0].contains("is missing"), "without a list nothing is checked");
}

#[test]
fn renamed_identifiers_are_not_a_problem() {
    for (path, old, new) in [
        (SANDBOX, "let chance", "let rng"),
        (SANDBOX, "config.seed", "settings.seed"),
        (SANDBOX, "LABEL", "STREAM_LABEL"),
        (SANDBOX, "Chance::new", "Rng::new"),
        (SANDBOX, "only in a test", "another text"),
        (SCENARIO, "Steady", "SteadyCheck"),
        (SCENARIO, "period", "interval"),
        (SCENARIO, "ALL", "NAMES"),
        (CONTROLLERS, "rack.hang", "set.add"),
        (CONTROLLERS, "of(3, 4)", "count(nodes, 5)"),
        (CONTROLLERS, "{prefix}", "{start}"),
        (CONTROLLERS, "%node", "node = %machine"),
        (ENGINE, "Self::NoNode", "Self::WithoutNode"),
        (OUTPUT, "Blocked", "BlockedNode"),
        (OUTPUT, "hidden", "internal"),
        (OUTPUT, "price:", "cost:"),
        ("crates/kerf-engine/tests/it.rs", "_holds", "_is_kept"),
        ("crates/kerf-engine/tests/it.rs", "fn other", "fn spec_02_43_other"),
    ] {
        assert_eq!(problem_heads(path, old, new), [""; 0], "{old} -> {new}");
    }
}

#[test]
fn a_changed_string_is_reported_with_its_kind() {
    for (path, old, new, kind) in [
        (SANDBOX, "\"cloud\"", "\"the cloud\"", "stream-label `cloud`"),
        (SANDBOX, "disruption.command", "disruption.ids", "stream-label `disruption.command`"),
        (SANDBOX, "\"kubelets\"", "\"kubelet\"", "stream-label `kubelets`"),
        (SCENARIO, "(\"conflict\"", "(\"conflicts\"", "fault-flag `conflict`"),
        (SCENARIO, "LostResponse, C", "LostAnswer, C", "fault-in-scenario `lost-response`"),
        (SCENARIO, "cost_within", "price_within", "scenario-object `costWithinPercent every from`"),
        (SCENARIO, "\"every\"", "\"period\"", "scenario-object `costWithinPercent every from`"),
        (CONTROLLERS, "created_total", "made_total", "metric `karpenter_nodes_created_total`"),
        (CONTROLLERS, "kerf.sh/replaced", "kerf.sh/replaces", "annotation `kerf.sh/replaced`"),
        (CONTROLLERS, "_changes_total", "_change_total", "metric `{}_changes_total`"),
        (CONTROLLERS, "nodeclaim.lifecycle", "claim.lifecycle", "controller-name `nodeclaim.lifecycle`"),
        (CONTROLLERS, "%node", "%machine", "log-keys `found provisionable pod(s)"),
        (CONTROLLERS, "pods = of", "count = of", "log-keys `found provisionable pod(s)"),
        (OUTPUT, "price_per_hour", "cost_per_hour", "json-object `node pricePerHour`"),
        (OUTPUT, "pricePerHour", "costPerHour", "json-object `node pricePerHour`"),
    ] {
        let heads = problem_heads(path, old, new);
        assert_eq!(heads.len(), 2, "the old string is missing and the new one not listed: {heads:?}");
        assert!(heads[0].starts_with(kind), "{old} -> {new}: {heads:?}");
        assert!(problems(&changed(path, old, new))[1].contains(&format!("is not in {LIST}")), "{heads:?}");
    }
    for (path, old, new, kind) in [
        (ENGINE, "\"NoNode\"", "\"WithoutNode\"", "reason-code `NoNode`"),
        ("docs/reasons.md", "`NoNode`", "`WithoutNode`", "reason-code `NoNode`"),
        ("crates/kerf-engine/tests/it.rs", "spec_02_41_", "case_41_", "spec-tests `spec_02 2`"),
    ] {
        assert_eq!(problem_heads(path, old, new), [format!("{kind} is no longer in the tree")], "{old} -> {new}");
    }
}

#[test]
fn a_changed_log_message_is_reported() {
    let heads = problem_heads(CONTROLLERS, "found provisionable", "found pending");
    assert_eq!(
        heads,
        ["log-keys `found provisionable pod(s)", "log-message `found provisionable pod(s)` is no longer in the tree"]
    );
}

#[test]
fn the_problem_contains_advice() {
    let problem = &problems(&changed(SANDBOX, "\"cloud\"", "\"the cloud\""))[0];
    assert!(problem.contains("restore the label") && problem.contains(&format!("edit {LIST}")), "{problem}");
}

#[test]
fn an_invalid_list_is_reported_with_the_line() {
    let problems = problems(&changed(LIST, "reason-code NoNode", "reason NoNode"));
    assert!(problems.iter().any(|problem| problem.starts_with(&format!("{LIST}:15: `reason NoNode`"))), "{problems:?}");
    let heads = problem_heads(
        LIST,
        "stream-label cloud\nstream-label disruption.command",
        "stream-label disruption.command\nstream-label cloud",
    );
    assert_eq!(heads, [LIST], "the order is checked");
}

#[test]
fn writing_adds_and_never_removes() {
    let (list, added) = extended_list(&changed(SANDBOX, "\"cloud\"", "\"the cloud\"")).expect("the list can be read");
    assert_eq!(added, ["stream-label the cloud"]);
    assert!(list.contains("stream-label cloud\n") && list.contains("stream-label the cloud\n"), "{list}");
    let tests = "crates/kerf-engine/tests/it.rs";
    let (list, added) =
        extended_list(&changed(tests, "fn other", "fn spec_02_43_other")).expect("the list can be read");
    assert_eq!(added, ["spec-tests spec_02 3"]);
    assert!(!list.contains("spec_02 2"), "a greater number replaces a smaller one: {list}");
    let (list, added) = extended_list(&changed(tests, "spec_02_41", "case_41")).expect("the list can be read");
    assert!(added.is_empty() && list.contains("spec_02 2"), "a smaller one does not: {list}");
}

#[test]
fn this_repository_keeps_its_frozen_strings() {
    let repository = Repository::read().expect("the repository can be read");
    let problems = problems(&repository);
    assert!(problems.is_empty(), "cargo xtask frozen-strings found problems:\n{}", problems.join("\n"));
    // The check must find strings of each kind: a check of nothing always passes.
    let listed = repository.file(LIST).map_or("", |file| file.text.as_str());
    for kind in FrozenKind::ALL {
        assert!(
            listed.lines().any(|line| line.starts_with(&format!("{} ", kind.name()))),
            "no {} is listed",
            kind.name()
        );
    }
}
