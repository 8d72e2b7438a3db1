//! Tests of disruption (spec 03). The text of a plan has one line per command:
//!
//! `empty delete n1,n2 saves 0.4` or `single replace n1 -> p types=s,m ct=spot saves 0.1`.

mod balanced;
mod budgets;
mod candidates;
mod conditions;
mod consolidation;
mod drift;
mod emptiness;
mod moves;
mod odd_inputs;
mod prices;
mod properties;
mod repacks;
mod simulation;
mod validation;
mod waves;

use std::fmt::Write as _;

use kerf_api::labels;
use kerf_api::slim::Str;
use kerf_engine::requirement::Requirement;
use kerf_engine::{
    DisruptionCommand, DisruptionPlan, Method, Passes, PlannedClaim, Price, disrupt, with_commands_done,
};

use crate::fixture::Fixture;

/// Three types at $0.10 per CPU, and a pool without budgets.
const THREE_TYPES: &str = "type s cpu=2 mem=8Gi \n type m cpu=4 mem=16Gi \n type l cpu=8 mem=32Gi \n pool p";

/// Plans the fixture and compares the commands line by line. Also asserts the invariants of a plan.
#[track_caller]
fn check(fixture: &str, expected: &str) {
    let fixture = Fixture::new(fixture);
    let plan = fixture.disrupt();
    let actual = commands_text(&plan);
    let lines =
        |text: &str| text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    assert!(
        lines(&actual) == lines(expected),
        "expected\n{}\ngot\n{actual}{:#?}",
        lines(expected).join("\n"),
        plan.blocked
    );
    assert_plan_invariants(&fixture, &plan);
}

/// Asserts what holds for every plan: prices add up, each consolidation saves money, every
/// candidate is evaluated, and a second plan after the first has no commands.
#[track_caller]
fn assert_plan_invariants(fixture: &Fixture, plan: &DisruptionPlan) {
    for command in &plan.commands {
        let is_drift = matches!(command.method, Method::Drift | Method::StaticDrift);
        assert!(is_drift || command.method == Method::Emptiness || command.saved() > Price::ZERO, "{command:?}");
        let nodes: Price = command.nodes.iter().map(|n| n.price).sum();
        assert_eq!(command.price_before, nodes);
        let estimates: Price =
            command.replacements.iter().filter_map(|c| c.launch.estimate.as_ref()).map(|e| e.price).sum();
        assert_eq!(command.price_after, estimates);
    }
    let saved: Price = plan.commands.iter().map(DisruptionCommand::saved).sum();
    assert_eq!(plan.price_before - plan.price_after, saved);
    assert_eq!(plan.stats.candidates, plan.stats.candidates_evaluated, "{:#?}", plan.blocked);
    let launched: Vec<&Str> = plan.commands.iter().flat_map(|command| &command.replacement_names).collect();
    let removed = plan.commands.iter().flat_map(|command| &command.nodes);
    for node in removed {
        assert!(!launched.contains(&&node.name), "{} is launched and removed:\n{}", node.name, commands_text(plan));
    }
    let later_codes = ["DisruptionBudget", "DriftSurge", "LaunchedByPlan"];
    let is_incomplete = plan.blocked.iter().flat_map(|b| &b.reasons).any(|b| later_codes.contains(&b.code()));
    if !is_incomplete {
        let afterwards =
            Fixture { input: with_commands_done(fixture.input.clone(), &plan.commands), ..fixture.clone() };
        let second_plan = afterwards.disrupt();
        assert!(
            second_plan.commands.is_empty(),
            "the plan leaves commands for a second plan:\n{}",
            commands_text(&second_plan)
        );
    }
}

/// Returns the commands of a plan as text, one per line.
fn commands_text(plan: &DisruptionPlan) -> String {
    plan.commands.iter().fold(String::new(), |mut out, command| {
        let method = match command.method {
            Method::Emptiness => "empty",
            Method::StaticDrift => "static-drift",
            Method::Drift => "drift",
            Method::MultiNode => "multi",
            Method::SingleNode => "single",
            Method::Move => "move",
        };
        let nodes: Vec<&str> = command.nodes.iter().map(|n| n.name.as_str()).collect();
        write!(out, "{method} {} {}", command.decision(), nodes.join(",")).unwrap();
        for claim in &command.replacements {
            write!(out, " -> {}", replacement(claim)).unwrap();
        }
        writeln!(out, " saves {}", command.saved().dollars()).unwrap();
        out
    })
}

fn replacement(claim: &PlannedClaim) -> String {
    let values = |key: &str| {
        let values = claim.launch.requirements.get(key).and_then(Requirement::allowed_values).unwrap_or_default();
        values.iter().map(Str::as_str).collect::<Vec<_>>().join("|")
    };
    let types: Vec<&str> = claim.launch.instance_types.iter().map(Str::as_str).collect();
    let mut text = format!("{} types={} ct={}", claim.pool, types.join(","), values(labels::CAPACITY_TYPE));
    if !values(labels::ZONE).is_empty() {
        write!(text, " zone={}", values(labels::ZONE)).unwrap();
    }
    text
}

/// Returns the commands of the first pass, as the controller gets them.
fn first_commands_text(fixture: &str) -> String {
    let fixture = Fixture::new(fixture);
    commands_text(&disrupt(&fixture.input, &fixture.disruption_settings(Passes::First)))
}

/// Returns why a node is not disrupted, each reason as `Code: message`.
pub(crate) fn block_reasons(fixture: &str, node: &str) -> Vec<String> {
    block_reasons_in(&Fixture::new(fixture).disrupt(), node)
}

fn block_reasons_in(plan: &DisruptionPlan, node: &str) -> Vec<String> {
    let reasons = plan.blocked.iter().filter(|b| b.node == node).flat_map(|b| &b.reasons);
    reasons.map(|block| format!("{}: {block}", block.code())).collect()
}

/// Returns only the codes of [`block_reasons`].
fn block_codes(fixture: &str, node: &str) -> Vec<String> {
    block_reasons(fixture, node).iter().map(|text| text.split(':').next().unwrap().to_owned()).collect()
}

/// Returns the plan's warnings as `Code object: message`.
fn warnings_text(fixture: &str) -> Vec<String> {
    let plan = Fixture::new(fixture).disrupt();
    plan.warnings.iter().map(|n| format!("{} {}: {}", n.code, n.object, n.message)).collect()
}
