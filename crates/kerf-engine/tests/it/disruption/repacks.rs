//! Tests of repacking: one search for the set of nodes to remove, where a wave would remove many
//! (spec 03 §16 item 22).

use kerf_engine::{DisruptionCommand, DisruptionSettings, MethodFilter, Passes, Price, next_commands, validate_all};

use crate::fixture::Fixture;

/// Returns `count` nodes of a type, each with the given numbers of large and small pods.
fn nodes(kind: &str, count: usize, large: usize, small: usize) -> String {
    let node = |n: usize| {
        let name = format!("{kind}-{large}-{small}-{n}");
        let pods = [("large", large, "cpu=3500m mem=28Gi"), ("small", small, "cpu=900m mem=3Gi")];
        let pods = pods.iter().filter(|(_, count, _)| *count > 0);
        let lines = pods.map(|(size, count, requests)| format!("pod {size}-{name} on={name} x{count} {requests} \n"));
        let pods: Vec<String> = lines.collect();
        format!("pool-node {name} type={kind} \n {}", pods.concat())
    };
    (0..count).map(node).collect()
}

/// A cluster after many of its pods were deleted: some nodes have free capacity, others are filled
/// by pods that waste part of it.
fn shrunk_cluster(pool: &str) -> Fixture {
    let types = "type m cpu=16 mem=128Gi \n type s cpu=16 mem=64Gi price=1.4 \n type h cpu=8 mem=64Gi";
    let all = [
        nodes("m", 6, 1, 0),
        nodes("m", 5, 2, 0),
        nodes("m", 4, 2, 9),
        nodes("m", 8, 3, 0),
        nodes("m", 6, 4, 2),
        nodes("h", 6, 1, 4),
        nodes("h", 4, 0, 8),
        nodes("h", 6, 2, 1),
    ];
    Fixture::new(&format!("{types} \n {pool} \n {}", all.concat()))
}

fn settings(fixture: &Fixture, moves: bool) -> DisruptionSettings {
    DisruptionSettings { allows_moves: moves, ..fixture.disruption_settings(Passes::All) }
}

fn found_commands(fixture: &Fixture, moves: bool) -> Vec<DisruptionCommand> {
    next_commands(&fixture.input, &settings(fixture, moves), MethodFilter::ALL, |_| ()).commands
}

fn total_saved(commands: &[DisruptionCommand]) -> Price {
    commands.iter().map(DisruptionCommand::saved).sum()
}

fn node_and_replacement_counts(commands: &[DisruptionCommand]) -> Vec<(usize, usize)> {
    commands.iter().map(|command| (command.nodes.len(), command.replacements.len())).collect()
}

#[test]
fn a_repack_saves_more_than_separate_commands() {
    let fixture = shrunk_cluster("pool p");
    // Separate commands remove 12 nodes and launch two. One command for all removes 13 and launches
    // one, which receives only small pods.
    assert_eq!(node_and_replacement_counts(&found_commands(&fixture, false)), [(9, 0), (1, 1), (1, 1), (1, 0)]);
    let repacked = found_commands(&fixture, true);
    assert_eq!(node_and_replacement_counts(&repacked), [(13, 1)]);
    assert!(total_saved(&repacked) > total_saved(&found_commands(&fixture, false)));
    // The command passes validation.
    let outcomes = validate_all(&fixture.input, &settings(&fixture, true), &repacked);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn a_repack_respects_budgets() {
    let fixture = shrunk_cluster("pool p budget=12");
    let removed: usize = found_commands(&fixture, true).iter().map(|command| command.nodes.len()).sum();
    assert_eq!(removed, 12);
}

#[test]
fn a_repack_keeps_protected_nodes() {
    let unprotected = shrunk_cluster("pool p");
    let name = found_commands(&unprotected, true)[0].nodes[0].name.clone();
    let mut fixture = unprotected.clone();
    let node = fixture.input.nodes.iter_mut().find(|node| node.metadata.name == name).unwrap();
    let annotations = [("karpenter.sh/do-not-disrupt".into(), "true".into())];
    std::sync::Arc::make_mut(node).metadata.annotations = annotations.into_iter().collect();
    let repacked = found_commands(&fixture, true);
    assert!(repacked.iter().flat_map(|command| &command.nodes).all(|node| node.name != name));
    assert!(total_saved(&repacked) > Price::ZERO);
}
