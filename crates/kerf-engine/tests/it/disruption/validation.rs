//! Tests of the validation of commands before they are carried out (spec 03 §9).

use kerf_engine::{
    DisruptionCommand, Method, MethodFilter, Passes, ValidationFailure, disrupt, next_commands, validate, validate_all,
};

use super::THREE_TYPES;
use crate::fixture::Fixture;

fn first_command(fixture: &str) -> DisruptionCommand {
    let fixture = Fixture::new(fixture);
    disrupt(&fixture.input, &fixture.disruption_settings(Passes::First)).commands.remove(0)
}

/// Validates the first command for `then` against `now` and returns the names of its remaining
/// nodes.
fn revalidated_nodes(then: &str, now: &str) -> Result<Vec<String>, ValidationFailure> {
    let now = Fixture::new(now);
    let validated = validate(&now.input, &now.disruption_settings(Passes::First), &first_command(then))?;
    Ok(validated.nodes.iter().map(|n| n.name.to_string()).collect())
}

#[test]
fn spec_03_79_only_the_node_that_is_no_longer_empty_is_dropped() {
    let fixture = format!("{THREE_TYPES} \n pool-node a type=s \n pool-node b type=s");
    assert_eq!(revalidated_nodes(&fixture, &fixture), Ok(vec!["a".into(), "b".into()]));
    assert_eq!(revalidated_nodes(&fixture, &format!("{fixture} \n pod x on=a cpu=1")), Ok(vec!["b".into()]));
    assert_eq!(
        revalidated_nodes(&fixture, &format!("{fixture} \n pod x on=a cpu=1 \n pod y on=b cpu=1")),
        Err(ValidationFailure::Churn)
    );
    assert_eq!(revalidated_nodes(&fixture, &fixture.replace("pool p", "pool p budget=1")), Ok(vec!["a".into()]));
    assert_eq!(
        revalidated_nodes(&fixture, &fixture.replace("pool p", "pool p budget=0")),
        Err(ValidationFailure::Budget)
    );
}

const TWO_NODES: &str = "pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 \n pod y on=b cpu=1";

#[test]
fn spec_03_112_pods_that_were_added_since_can_invalidate_a_command() {
    let fixture = format!("{THREE_TYPES} \n {TWO_NODES}");
    assert_eq!(revalidated_nodes(&fixture, &fixture), Ok(vec!["a".into()]));
    assert_eq!(
        revalidated_nodes(&fixture, &format!("{fixture} \n pod z on=a protect=true")),
        Err(ValidationFailure::Churn)
    );
    assert_eq!(
        revalidated_nodes(&fixture, &format!("{fixture} \n pod z on=a labels=app:z \n pdb b sel=app=z allowed=0")),
        Err(ValidationFailure::Churn)
    );
    let full = revalidated_nodes(&fixture, &format!("{fixture} \n pod z on=b cpu=1"));
    assert_eq!(full.map_err(|r| r.category()), Err("scheduling"));
    // The planned types no longer fit.
    let shrinks = format!("{THREE_TYPES} \n pool-node n type=l \n pod x on=n cpu=1");
    assert_eq!(revalidated_nodes(&shrinks, &shrinks), Ok(vec!["n".into()]));
    let with_more_pods = revalidated_nodes(&shrinks, &format!("{shrinks} \n pod y on=n cpu=2"));
    assert_eq!(with_more_pods, Err(ValidationFailure::Scheduling("scheduling simulation produced new results".into())));
    // A delete that would now need a replacement.
    let delete = format!("{THREE_TYPES} \n {TWO_NODES}");
    let with_larger_pod = revalidated_nodes(
        &delete,
        &format!("{THREE_TYPES} \n pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 \n pod y on=b cpu=2"),
    );
    assert_eq!(
        with_larger_pod,
        Err(ValidationFailure::Scheduling("scheduling simulation produced new results".into()))
    );
}

#[test]
fn spec_03_113_budgets_and_nominations_are_checked_again() {
    let fixture = format!("{THREE_TYPES} \n {TWO_NODES}");
    assert_eq!(
        revalidated_nodes(&fixture, &fixture.replace("pool p", "pool p budget=0")),
        Err(ValidationFailure::Budget)
    );
    assert_eq!(
        revalidated_nodes(&fixture, &fixture.replace("pool-node a", "pool-node a nominated=20")),
        Err(ValidationFailure::Churn)
    );
    assert_eq!(
        revalidated_nodes(&fixture, &fixture.replace("pool-node a", "pool-node a deleting")),
        Err(ValidationFailure::Churn)
    );
}

#[test]
fn drift_is_not_validated_again() {
    let fixture = format!("{THREE_TYPES} after=Never \n pool-node n type=s provider-drift=AMIDrift");
    assert_eq!(revalidated_nodes(&fixture, &fixture.replace("provider-drift=AMIDrift", "")), Ok(vec!["n".into()]));
}

/// Nodes can only be replaced one at a time, because the pod of one fits on no other node.
const SHRINKING: &str =
    "type odd cpu=5 mem=20Gi \n pool-node a type=odd \n pool-node b type=odd \n pod x on=a cpu=3 \n pod y on=b cpu=3";

#[test]
fn one_pass_returns_all_independent_commands_of_a_method() {
    let fixture = Fixture::new(&format!(
        "{THREE_TYPES} after=Never \n pool-node a type=s provider-drift=D \n pod x on=a cpu=2 \n \
                                     pool-node b type=s provider-drift=D \n pod y on=b cpu=2"
    ));
    let settings = fixture.disruption_settings(Passes::All);
    let mut reports = Vec::new();
    let plan = next_commands(&fixture.input, &settings, MethodFilter::ALL, |method| {
        reports.push((method.method, method.eligible));
    });
    let drifted: Vec<&str> = plan.commands.iter().flat_map(|c| &c.nodes).map(|n| n.name.as_str()).collect();
    assert_eq!(drifted, ["a", "b"]);
    assert_eq!(reports, [(Method::Emptiness, 0), (Method::StaticDrift, 0), (Method::Drift, 2)]);
    assert!(
        next_commands(&fixture.input, &settings, MethodFilter::ALL.after_method(Method::Drift), |_| ())
            .commands
            .is_empty()
    );

    let limited = Fixture::new(&format!(
        "{THREE_TYPES} after=Never budget=1 \n pool-node a type=s provider-drift=D \n pod x on=a cpu=2 \n \
                                     pool-node b type=s provider-drift=D \n pod y on=b cpu=2"
    ));
    assert_eq!(
        next_commands(&limited.input, &settings, MethodFilter::ALL, |_| ()).commands.len(),
        1,
        "a budget counts the nodes of all commands"
    );
}

#[test]
fn a_pod_that_was_added_before_validation_is_part_of_the_command() {
    let then = Fixture::new(&format!("{THREE_TYPES} \n pool-node a type=l \n pod x on=a cpu=1"));
    let settings = then.disruption_settings(Passes::First);
    let commands = next_commands(&then.input, &settings, MethodFilter::ALL, |_| ()).commands;
    assert_eq!(commands[0].pods, ["default/x"]);
    let now = Fixture::new(&format!("{THREE_TYPES} \n pool-node a type=l \n pod x on=a cpu=1 \n pod y on=a cpu=100m"));
    let validated: Vec<DisruptionCommand> =
        validate_all(&now.input, &settings, &commands).into_iter().flatten().collect();
    assert_eq!(validated[0].pods, ["default/x", "default/y"]);
    assert_eq!(
        (validated[0].replacements.len(), validated[0].saved()),
        (1, commands[0].saved()),
        "replacement and savings are unchanged"
    );
}

#[test]
fn commands_are_validated_together_against_budgets() {
    let then = Fixture::new(&format!("{THREE_TYPES} \n {SHRINKING}"));
    let settings = then.disruption_settings(Passes::All);
    let commands =
        next_commands(&then.input, &settings, MethodFilter::ALL.after_method(Method::MultiNode), |_| ()).commands;
    assert_eq!(commands.len(), 2, "{commands:#?}");
    let outcomes = |now: &str| {
        let now = Fixture::new(now);
        let all = validate_all(&now.input, &settings, &commands);
        all.into_iter().map(|outcome| outcome.map_or_else(|failure| failure.category(), |_| "ok")).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&format!("{THREE_TYPES} \n {SHRINKING}")), ["ok", "ok"]);
    assert_eq!(outcomes(&format!("{THREE_TYPES} budget=1 \n {SHRINKING}")), ["ok", "budget"]);
}

#[test]
fn a_paused_pool_is_not_disrupted() {
    let fixture = |paused: &str| {
        Fixture::new(&format!("{THREE_TYPES} {paused} \n pool-node a type=s \n pool-node d type=s provider-drift=D"))
    };
    assert_eq!(fixture("").disrupt().commands.len(), 1);
    assert_eq!(fixture("paused=0").disrupt().commands.len(), 1);
    let plan = fixture("paused=60").disrupt();
    assert!(plan.commands.is_empty());
    assert_eq!(plan.blocked[0].reasons[0].code(), "Paused");
}
