//! Tests of waves: all savings commands that one pass finds, and when consolidation is deferred.

use jiff::Timestamp;
use kerf_engine::{DisruptionCommand, MethodFilter, Passes, consolidation_deferred_until, next_commands, validate_all};

use super::THREE_TYPES;
use crate::fixture::Fixture;

fn found_commands(fixture: &Fixture) -> Vec<DisruptionCommand> {
    next_commands(&fixture.input, &fixture.disruption_settings(Passes::All), MethodFilter::ALL, |_| ()).commands
}

/// Returns `a -> c; b -> c`: the removed nodes of each command, and the nodes that receive their
/// pods.
fn moves_text(commands: &[DisruptionCommand]) -> String {
    let names = |names: Vec<&str>| names.join(",");
    let line = |command: &DisruptionCommand| {
        let removed = names(command.nodes.iter().map(|node| node.name.as_str()).collect());
        let replacements = command.replacements.iter().map(|_| "new");
        let to: Vec<&str> = command.placements.iter().map(|p| p.node.as_str()).chain(replacements).collect();
        format!("{removed} -> {}", names(to))
    };
    commands.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// `c` and `d` are replaced by smaller nodes, each on its own. The pods of two of the other nodes
/// fit on the third; no list of the most profitable nodes contains just those two.
const FIVE_NODES: &str = "type s cpu=2 mem=8Gi \n type m cpu=4 mem=16Gi \n type odd cpu=5 mem=20Gi \n pool p
    pool-node a type=s \n pool-node b type=s \n pool-node c type=odd \n pool-node d type=odd \n pool-node e type=s
    pod v on=a cpu=500m \n pod w on=b cpu=500m \n pod x on=c cpu=3 \n pod y on=d cpu=3 \n pod z on=e cpu=1";

#[test]
fn one_pass_finds_all_independent_commands() {
    let fixture = Fixture::new(FIVE_NODES);
    assert_eq!(moves_text(&found_commands(&fixture)), "c -> new; d -> new; a -> b; e -> b");
    // With `Passes::First` only the first command is found.
    let first = next_commands(&fixture.input, &fixture.disruption_settings(Passes::First), MethodFilter::ALL, |_| ());
    assert_eq!(moves_text(&first.commands), "c -> new");
}

#[test]
fn no_node_of_a_wave_is_removed_and_receives_pods() {
    let commands = found_commands(&Fixture::new(FIVE_NODES));
    let removed: Vec<&str> = commands.iter().flat_map(|c| &c.nodes).map(|node| node.name.as_str()).collect();
    let receiving: Vec<&str> = commands.iter().flat_map(|c| &c.placements).map(|p| p.node.as_str()).collect();
    assert_eq!((removed.len(), receiving), (4, vec!["b", "b"]));
    assert!(!removed.contains(&"b"));
}

#[test]
fn pods_with_constraints_on_other_nodes_pods_are_not_moved_in_a_wave() {
    let fixture = Fixture::new(&FIVE_NODES.replace("pod z", "pod z labels=app:z anti=zone:app=z"));
    assert_eq!(
        moves_text(&found_commands(&fixture)),
        "c -> new; d -> new; a -> b",
        "the node for pod `z` depends on the other moves"
    );
    // A rule about pods on the same host does not depend on what happens on other nodes.
    let fixture = Fixture::new(&FIVE_NODES.replace("pod z", "pod z labels=app:z anti=host:app=z"));
    assert_eq!(moves_text(&found_commands(&fixture)), "c -> new; d -> new; a -> b; e -> b");
    let fixture = Fixture::new(
        &FIVE_NODES.replace("pod z", "pod z labels=app:z anti=host:app=z").replace("pod v", "pod v labels=app:z"),
    );
    assert_eq!(moves_text(&found_commands(&fixture)), "c -> new; d -> new; a -> b", "the pod of `a` is on `b` already");
}

#[test]
fn the_commands_of_a_wave_keep_budgets_together() {
    let fixture = |budget| Fixture::new(&FIVE_NODES.replace("pool p", &format!("pool p budget={budget}")));
    assert_eq!(moves_text(&found_commands(&fixture(4))), "c -> new; d -> new; a -> b; e -> b");
    assert_eq!(moves_text(&found_commands(&fixture(3))), "c -> new; d -> new; a -> b");
}

#[test]
fn each_command_is_validated_together_with_those_before_it() {
    let then = Fixture::new(FIVE_NODES);
    let commands = found_commands(&then);
    let settings = then.disruption_settings(Passes::All);
    let outcomes = |now: &str| {
        let all = validate_all(&Fixture::new(now).input, &settings, &commands);
        all.into_iter().map(|outcome| outcome.map_or_else(|failure| failure.category(), |_| "ok")).collect::<Vec<_>>()
    };
    assert_eq!(outcomes(FIVE_NODES), ["ok", "ok", "ok", "ok"]);
    // Less capacity on the node that receives two pods: it fits the first, but not both.
    assert_eq!(outcomes(&FIVE_NODES.replace("on=b cpu=500m", "on=b cpu=1")), ["ok", "ok", "ok", "scheduling"]);
    assert_eq!(outcomes(&FIVE_NODES.replace("on=c cpu=3", "on=c cpu=5")), ["scheduling", "ok", "ok", "ok"]);
    assert_eq!(outcomes(&FIVE_NODES.replace("pool p", "pool p budget=3")), ["ok", "ok", "ok", "budget"]);
}

// spec 03 §9: if there is a better way to remove the nodes by now, validation uses it.
#[test]
fn validation_uses_capacity_that_was_added_since() {
    let shrinks = format!("{THREE_TYPES} \n pool-node n type=l \n pod x on=n cpu=1");
    let then = Fixture::new(&shrinks);
    let settings = then.disruption_settings(Passes::All);
    let commands = found_commands(&then);
    assert_eq!(moves_text(&commands), "n -> new");
    let now = Fixture::new(&format!("{shrinks} \n pool-node m type=s \n pod y on=m cpu=1"));
    let better: Vec<DisruptionCommand> = validate_all(&now.input, &settings, &commands).into_iter().flatten().collect();
    assert_eq!(moves_text(&better), "n -> m");
    assert!(better[0].saved() > commands[0].saved());
}

#[test]
fn the_most_profitable_list_need_not_have_the_nodes_with_the_fewest_pods() {
    // Fourteen nodes have one large pod each, which fits on no other node. Sixteen nodes have four
    // small pods each, which do.
    let node = |kind: char, n: u32, pods: &str| {
        format!("pool-node {kind}{n:02} type=m \n pod {kind}{n:02} on={kind}{n:02} {pods} \n")
    };
    let large: String = (0..14).map(|n| node('l', n, "cpu=4")).collect();
    let small: String = (0..16).map(|n| node('s', n, "x4 cpu=100m")).collect();
    let commands = found_commands(&Fixture::new(&format!(
        "{THREE_TYPES} \n {large} {small} \n pool-node z type=m \n pod z on=z cpu=1"
    )));
    let first: Vec<&str> = commands[0].nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(first.len(), 15, "{}", moves_text(&commands));
    assert!(first.iter().all(|name| name.starts_with('s')), "{first:?}");
}

#[test]
fn consolidation_waits_for_several_nodes_that_are_consolidatable_soon() {
    let until = |states: &[&str]| {
        let line = |(n, state): (usize, &&str)| format!("pool-node n{n} type=s {state} \n pod p{n} on=n{n} cpu=1 \n");
        let states: String = states.iter().enumerate().map(line).collect();
        let fixture = Fixture::new(&format!("{THREE_TYPES} after=60s \n {states}"));
        let seconds = |until: Option<Timestamp>| until.map(|until| until.duration_since(fixture.input.at).as_secs());
        (
            seconds(consolidation_deferred_until(&fixture.input, false)),
            seconds(consolidation_deferred_until(&fixture.input, true)),
        )
    };
    let (ready, soon, sooner, waiting) = ("event=70", "event=35", "event=55", "event=10");
    assert_eq!(until(&[ready, ready, ready]), (None, None));
    assert_eq!(until(&[ready, sooner, soon]), (Some(25), Some(25)), "until the last of the two is consolidatable");
    assert_eq!(until(&[ready, soon]), (None, Some(25)), "one node is enough if consolidation is waiting already");
    assert_eq!(until(&[ready, waiting, waiting]), (None, None), "these nodes become consolidatable too late");
    assert_eq!(until(&[ready, "deleting", "marked"]), (Some(5), Some(5)), "these nodes are removed soon");
    assert_eq!(until(&[[ready; 12].as_slice(), &[soon, soon]].concat()), (None, Some(25)), "most nodes are ready");
}

#[test]
fn drifted_nodes_with_host_spread_are_replaced_in_one_pass() {
    let node = |n: u32| {
        format!(
            "pool-node n{n} type=s provider-drift=D \n pod x{n} on=n{n} cpu=1500m labels=app:x spread=host:1:app=x \n"
        )
    };
    let nodes: String = (0..8).map(node).collect();
    let fixture = Fixture::new(&format!("{THREE_TYPES} after=Never \n {nodes}"));
    assert_eq!(found_commands(&fixture).len(), 8);
    let fixture =
        Fixture::new(&format!("{THREE_TYPES} after=Never \n {}", nodes.replace("spread=host", "spread=zone")));
    assert_eq!(found_commands(&fixture).len(), 1);
}

#[test]
fn pods_of_deleting_nodes_do_not_block_a_wave() {
    // The pod of the deleted node has a node that is starting; the drifted nodes do not depend on
    // it.
    let node = |n: u32| format!("pool-node n{n} type=s provider-drift=D \n pod x{n} on=n{n} cpu=1500m \n");
    let nodes: String = (0..4).map(node).collect();
    let fixture = Fixture::new(&format!(
        "{THREE_TYPES} after=Never \n {nodes} \n pool-node old type=s deleting \n pod y on=old cpu=1500m \n pool-node new type=s uninitialized"
    ));
    assert_eq!(found_commands(&fixture).len(), 4);
}
