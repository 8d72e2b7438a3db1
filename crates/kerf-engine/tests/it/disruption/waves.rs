//! Tests of waves: all savings commands that one pass finds, and when consolidation is deferred.

use jiff::Timestamp;
use kerf_engine::{DisruptionCommand, MethodFilter, Passes, consolidation_deferred_until, next_commands, validate_all};

use super::THREE_TYPES;
use crate::fixture::Fixture;

fn found_commands(world: &Fixture) -> Vec<DisruptionCommand> {
    next_commands(&world.input, &world.disruption_settings(Passes::All), MethodFilter::ALL, |_| ()).commands
}

/// Returns `a -> c; b -> c`: the removed nodes of each command, and the nodes that receive their
/// pods.
fn moves_text(commands: &[DisruptionCommand]) -> String {
    let names = |names: Vec<&str>| names.join(",");
    let line = |command: &DisruptionCommand| {
        let going = names(command.nodes.iter().map(|node| node.name.as_str()).collect());
        let machines = command.replacements.iter().map(|_| "new");
        let to: Vec<&str> = command.placements.iter().map(|p| p.node.as_str()).chain(machines).collect();
        format!("{going} -> {}", names(to))
    };
    commands.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// `c` and `d` are replaced by smaller nodes, each on its own. The pods of two of the other nodes
/// fit on the third; no list of the most profitable nodes contains just those two.
const FIVE_NODES: &str = "type s cpu=2 mem=8Gi \n type m cpu=4 mem=16Gi \n type odd cpu=5 mem=20Gi \n pool p
    machine a type=s \n machine b type=s \n machine c type=odd \n machine d type=odd \n machine e type=s
    pod v on=a cpu=500m \n pod w on=b cpu=500m \n pod x on=c cpu=3 \n pod y on=d cpu=3 \n pod z on=e cpu=1";

#[test]
fn one_look_goes_on_beside_what_it_has_found() {
    let world = Fixture::new(FIVE_NODES);
    assert_eq!(moves_text(&found_commands(&world)), "c -> new; d -> new; a -> b; e -> b");
    // With `Passes::First` only the first command is found.
    let first = next_commands(&world.input, &world.disruption_settings(Passes::First), MethodFilter::ALL, |_| ());
    assert_eq!(moves_text(&first.commands), "c -> new");
}

#[test]
fn no_node_of_a_wave_takes_in_pods_and_goes_itself() {
    let commands = found_commands(&Fixture::new(FIVE_NODES));
    let going: Vec<&str> = commands.iter().flat_map(|c| &c.nodes).map(|node| node.name.as_str()).collect();
    let receiving: Vec<&str> = commands.iter().flat_map(|c| &c.placements).map(|p| p.node.as_str()).collect();
    assert_eq!((going.len(), receiving), (4, vec!["b", "b"]));
    assert!(!going.contains(&"b"));
}

#[test]
fn pods_that_mind_others_are_not_moved_along() {
    let world = Fixture::new(&FIVE_NODES.replace("pod z", "pod z labels=app:z anti=zone:app=z"));
    assert_eq!(
        moves_text(&found_commands(&world)),
        "c -> new; d -> new; a -> b",
        "where that one may go depends on the others"
    );
    // A rule about pods on the same host does not depend on what happens on other nodes.
    let world = Fixture::new(&FIVE_NODES.replace("pod z", "pod z labels=app:z anti=host:app=z"));
    assert_eq!(moves_text(&found_commands(&world)), "c -> new; d -> new; a -> b; e -> b");
    let world = Fixture::new(
        &FIVE_NODES.replace("pod z", "pod z labels=app:z anti=host:app=z").replace("pod v", "pod v labels=app:z"),
    );
    assert_eq!(moves_text(&found_commands(&world)), "c -> new; d -> new; a -> b", "the pod of `a` is there already");
}

#[test]
fn the_commands_of_a_wave_keep_budgets_together() {
    let world = |budget| Fixture::new(&FIVE_NODES.replace("pool p", &format!("pool p budget={budget}")));
    assert_eq!(moves_text(&found_commands(&world(4))), "c -> new; d -> new; a -> b; e -> b");
    assert_eq!(moves_text(&found_commands(&world(3))), "c -> new; d -> new; a -> b");
}

#[test]
fn each_command_is_looked_at_again_beside_those_before_it() {
    let then = Fixture::new(FIVE_NODES);
    let commands = found_commands(&then);
    let settings = then.disruption_settings(Passes::All);
    let verdicts = |now: &str| {
        let all = validate_all(&Fixture::new(now).input, &settings, &commands);
        all.into_iter().map(|verdict| verdict.map_or_else(|why| why.category(), |_| "ok")).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(FIVE_NODES), ["ok", "ok", "ok", "ok"]);
    // Less capacity on the node that receives two pods: it fits the first, but not both.
    assert_eq!(verdicts(&FIVE_NODES.replace("on=b cpu=500m", "on=b cpu=1")), ["ok", "ok", "ok", "scheduling"]);
    assert_eq!(verdicts(&FIVE_NODES.replace("on=c cpu=3", "on=c cpu=5")), ["scheduling", "ok", "ok", "ok"]);
    assert_eq!(verdicts(&FIVE_NODES.replace("pool p", "pool p budget=3")), ["ok", "ok", "ok", "budget"]);
}

// spec 03 §9: if there is a better way to remove the nodes by now, validation uses it.
#[test]
fn room_that_somebody_made_meanwhile_is_used() {
    let shrinks = format!("{THREE_TYPES} \n machine n type=l \n pod x on=n cpu=1");
    let then = Fixture::new(&shrinks);
    let settings = then.disruption_settings(Passes::All);
    let commands = found_commands(&then);
    assert_eq!(moves_text(&commands), "n -> new");
    let now = Fixture::new(&format!("{shrinks} \n machine m type=s \n pod y on=m cpu=1"));
    let better: Vec<DisruptionCommand> = validate_all(&now.input, &settings, &commands).into_iter().flatten().collect();
    assert_eq!(moves_text(&better), "n -> m");
    assert!(better[0].saved() > commands[0].saved());
}

#[test]
fn nodes_that_are_worth_most_when_they_go_together_need_not_be_those_with_the_fewest_pods() {
    // Fourteen nodes have one large pod each, which fits on no other node. Sixteen nodes have four
    // small pods each, which do.
    let node = |kind: char, n: u32, pods: &str| {
        format!("machine {kind}{n:02} type=m \n pod {kind}{n:02} on={kind}{n:02} {pods} \n")
    };
    let large: String = (0..14).map(|n| node('l', n, "cpu=4")).collect();
    let small: String = (0..16).map(|n| node('s', n, "x4 cpu=100m")).collect();
    let commands = found_commands(&Fixture::new(&format!(
        "{THREE_TYPES} \n {large} {small} \n machine z type=m \n pod z on=z cpu=1"
    )));
    let first: Vec<&str> = commands[0].nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(first.len(), 15, "{}", moves_text(&commands));
    assert!(first.iter().all(|name| name.starts_with('s')), "{first:?}");
}

#[test]
fn a_crowd_that_is_ready_in_a_moment_is_waited_for() {
    let until = |machines: &[&str]| {
        let line = |(n, how): (usize, &&str)| format!("machine n{n} type=s {how} \n pod p{n} on=n{n} cpu=1 \n");
        let machines: String = machines.iter().enumerate().map(line).collect();
        let world = Fixture::new(&format!("{THREE_TYPES} after=60s \n {machines}"));
        let seconds = |until: Option<Timestamp>| until.map(|until| until.duration_since(world.input.at).as_secs());
        (
            seconds(consolidation_deferred_until(&world.input, false)),
            seconds(consolidation_deferred_until(&world.input, true)),
        )
    };
    let (ready, soon, sooner, resting) = ("event=70", "event=35", "event=55", "event=10");
    assert_eq!(until(&[ready, ready, ready]), (None, None));
    assert_eq!(until(&[ready, sooner, soon]), (Some(25), Some(25)), "until the last of them is");
    assert_eq!(until(&[ready, soon]), (None, Some(25)), "one is no crowd, but may be the last of one");
    assert_eq!(until(&[ready, resting, resting]), (None, None), "these rest for long");
    assert_eq!(until(&[ready, "leaving", "marked"]), (Some(5), Some(5)), "these are soon gone");
    assert_eq!(until(&[[ready; 12].as_slice(), &[soon, soon]].concat()), (None, Some(25)), "most are ready");
}

#[test]
fn nodes_whose_pods_are_spread_over_hosts_drift_away_together() {
    let node = |n: u32| {
        format!(
            "machine n{n} type=s provider-drift=D \n pod x{n} on=n{n} cpu=1500m labels=app:x spread=host:1:app=x \n"
        )
    };
    let nodes: String = (0..8).map(node).collect();
    let world = Fixture::new(&format!("{THREE_TYPES} after=Never \n {nodes}"));
    assert_eq!(found_commands(&world).len(), 8);
    let world = Fixture::new(&format!("{THREE_TYPES} after=Never \n {}", nodes.replace("spread=host", "spread=zone")));
    assert_eq!(found_commands(&world).len(), 1);
}

#[test]
fn pods_of_nodes_on_their_way_out_do_not_keep_others_from_going_together() {
    // The pod of the deleted node has a node that is starting; the drifted nodes do not depend on
    // it.
    let node = |n: u32| format!("machine n{n} type=s provider-drift=D \n pod x{n} on=n{n} cpu=1500m \n");
    let nodes: String = (0..4).map(node).collect();
    let world = Fixture::new(&format!(
        "{THREE_TYPES} after=Never \n {nodes} \n machine gone type=s leaving \n pod y on=gone cpu=1500m \n machine new type=s uninitialized"
    ));
    assert_eq!(found_commands(&world).len(), 4);
}
