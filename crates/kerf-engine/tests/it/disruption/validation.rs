//! Tests of the validation of commands before they are carried out (spec 03 §9).

use kerf_engine::{
    DisruptionCommand, Method, MethodFilter, Passes, ValidationFailure, disrupt, next_commands, validate, validate_all,
};

use super::THREE_TYPES;
use crate::fixture::Fixture;

fn first_command(world: &str) -> DisruptionCommand {
    let world = Fixture::new(world);
    disrupt(&world.input, &world.disruption_settings(Passes::First)).commands.remove(0)
}

/// Validates the first command for `then` against `now` and returns the names of its remaining
/// nodes.
fn revalidated_nodes(then: &str, now: &str) -> Result<Vec<String>, ValidationFailure> {
    let now = Fixture::new(now);
    let left = validate(&now.input, &now.disruption_settings(Passes::First), &first_command(then))?;
    Ok(left.nodes.iter().map(|n| n.name.to_string()).collect())
}

#[test]
fn spec_03_79_a_node_that_is_no_longer_empty_drops_out_alone() {
    let world = format!("{THREE_TYPES} \n machine a type=s \n machine b type=s");
    assert_eq!(revalidated_nodes(&world, &world), Ok(vec!["a".into(), "b".into()]));
    assert_eq!(revalidated_nodes(&world, &format!("{world} \n pod x on=a cpu=1")), Ok(vec!["b".into()]));
    assert_eq!(
        revalidated_nodes(&world, &format!("{world} \n pod x on=a cpu=1 \n pod y on=b cpu=1")),
        Err(ValidationFailure::Churn)
    );
    assert_eq!(revalidated_nodes(&world, &world.replace("pool p", "pool p budget=1")), Ok(vec!["a".into()]));
    assert_eq!(revalidated_nodes(&world, &world.replace("pool p", "pool p budget=0")), Err(ValidationFailure::Budget));
}

const TWO_NODES: &str = "machine a type=s \n machine b type=s \n pod x on=a cpu=1 \n pod y on=b cpu=1";

#[test]
fn spec_03_112_pods_that_came_meanwhile_can_stop_a_command() {
    let world = format!("{THREE_TYPES} \n {TWO_NODES}");
    assert_eq!(revalidated_nodes(&world, &world), Ok(vec!["a".into()]));
    assert_eq!(
        revalidated_nodes(&world, &format!("{world} \n pod z on=a protect=true")),
        Err(ValidationFailure::Churn)
    );
    assert_eq!(
        revalidated_nodes(&world, &format!("{world} \n pod z on=a labels=app:z \n pdb b sel=app=z allowed=0")),
        Err(ValidationFailure::Churn)
    );
    let full = revalidated_nodes(&world, &format!("{world} \n pod z on=b cpu=1"));
    assert_eq!(full.map_err(|r| r.category()), Err("scheduling"));
    // The planned types no longer fit.
    let shrinks = format!("{THREE_TYPES} \n machine n type=l \n pod x on=n cpu=1");
    assert_eq!(revalidated_nodes(&shrinks, &shrinks), Ok(vec!["n".into()]));
    let grown = revalidated_nodes(&shrinks, &format!("{shrinks} \n pod y on=n cpu=2"));
    assert_eq!(grown, Err(ValidationFailure::Scheduling("scheduling simulation produced new results".into())));
    // A delete that would now need a replacement.
    let delete = format!("{THREE_TYPES} \n {TWO_NODES}");
    let other = revalidated_nodes(
        &delete,
        &format!("{THREE_TYPES} \n machine a type=s \n machine b type=s \n pod x on=a cpu=1 \n pod y on=b cpu=2"),
    );
    assert_eq!(other, Err(ValidationFailure::Scheduling("scheduling simulation produced new results".into())));
}

#[test]
fn spec_03_113_budgets_and_nominations_are_asked_again() {
    let world = format!("{THREE_TYPES} \n {TWO_NODES}");
    assert_eq!(revalidated_nodes(&world, &world.replace("pool p", "pool p budget=0")), Err(ValidationFailure::Budget));
    assert_eq!(
        revalidated_nodes(&world, &world.replace("machine a", "machine a nominated=20")),
        Err(ValidationFailure::Churn)
    );
    assert_eq!(
        revalidated_nodes(&world, &world.replace("machine a", "machine a leaving")),
        Err(ValidationFailure::Churn)
    );
}

#[test]
fn drift_is_not_looked_at_again() {
    let world = format!("{THREE_TYPES} after=Never \n machine n type=s provider-drift=AMIDrift");
    assert_eq!(revalidated_nodes(&world, &world.replace("provider-drift=AMIDrift", "")), Ok(vec!["n".into()]));
}

/// Each node can only be replaced by itself, because its pod fits on no other node.
const SHRINKING: &str =
    "type odd cpu=5 mem=20Gi \n machine a type=odd \n machine b type=odd \n pod x on=a cpu=3 \n pod y on=b cpu=3";

#[test]
fn one_look_gives_all_commands_of_a_method_that_go_together() {
    let world = Fixture::new(&format!(
        "{THREE_TYPES} after=Never \n machine a type=s provider-drift=D \n pod x on=a cpu=2 \n \
                                     machine b type=s provider-drift=D \n pod y on=b cpu=2"
    ));
    let settings = world.disruption_settings(Passes::All);
    let mut heard = Vec::new();
    let plan = next_commands(&world.input, &settings, MethodFilter::ALL, |method| {
        heard.push((method.method, method.eligible))
    });
    let drifted: Vec<&str> = plan.commands.iter().flat_map(|c| &c.nodes).map(|n| n.name.as_str()).collect();
    assert_eq!(drifted, ["a", "b"]);
    assert_eq!(heard, [(Method::Emptiness, 0), (Method::StaticDrift, 0), (Method::Drift, 2)]);
    assert!(
        next_commands(&world.input, &settings, MethodFilter::ALL.after_method(Method::Drift), |_| ())
            .commands
            .is_empty()
    );

    let tight = Fixture::new(&format!(
        "{THREE_TYPES} after=Never budget=1 \n machine a type=s provider-drift=D \n pod x on=a cpu=2 \n \
                                     machine b type=s provider-drift=D \n pod y on=b cpu=2"
    ));
    assert_eq!(
        next_commands(&tight.input, &settings, MethodFilter::ALL, |_| ()).commands.len(),
        1,
        "budgets hold for all of them together"
    );
}

#[test]
fn a_pod_that_came_before_the_second_look_is_part_of_the_command() {
    let then = Fixture::new(&format!("{THREE_TYPES} \n machine a type=l \n pod x on=a cpu=1"));
    let settings = then.disruption_settings(Passes::First);
    let commands = next_commands(&then.input, &settings, MethodFilter::ALL, |_| ()).commands;
    assert_eq!(commands[0].pods, ["default/x"]);
    let now = Fixture::new(&format!("{THREE_TYPES} \n machine a type=l \n pod x on=a cpu=1 \n pod y on=a cpu=100m"));
    let held: Vec<DisruptionCommand> = validate_all(&now.input, &settings, &commands).into_iter().flatten().collect();
    assert_eq!(held[0].pods, ["default/x", "default/y"]);
    assert_eq!((held[0].replacements.len(), held[0].saved()), (1, commands[0].saved()), "and it is the same otherwise");
}

#[test]
fn commands_are_held_to_budgets_and_room_together() {
    let then = Fixture::new(&format!("{THREE_TYPES} \n {SHRINKING}"));
    let settings = then.disruption_settings(Passes::All);
    let commands =
        next_commands(&then.input, &settings, MethodFilter::ALL.after_method(Method::MultiNode), |_| ()).commands;
    assert_eq!(commands.len(), 2, "{commands:#?}");
    let verdicts = |now: &str| {
        let now = Fixture::new(now);
        let all = validate_all(&now.input, &settings, &commands);
        all.into_iter().map(|verdict| verdict.map_or_else(|why| why.category(), |_| "ok")).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&format!("{THREE_TYPES} \n {SHRINKING}")), ["ok", "ok"]);
    assert_eq!(verdicts(&format!("{THREE_TYPES} budget=1 \n {SHRINKING}")), ["ok", "budget"]);
}

#[test]
fn a_paused_pool_is_left_alone_until_its_time() {
    let world = |paused: &str| {
        Fixture::new(&format!("{THREE_TYPES} {paused} \n machine a type=s \n machine d type=s provider-drift=D"))
    };
    assert_eq!(world("").disrupt().commands.len(), 1);
    assert_eq!(world("paused=0").disrupt().commands.len(), 1);
    let plan = world("paused=60").disrupt();
    assert!(plan.commands.is_empty());
    assert_eq!(plan.blocked[0].reasons[0].code(), "Paused");
}
