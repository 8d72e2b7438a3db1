//! A solver that was updated by events returns the solutions of a solver built from scratch.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its own fixture must fail")]

use std::sync::Arc;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::cluster::Effort;
use crate::fixture::Fixture;
use crate::solve::solve;

fn render_solution(solution: &Solution) -> String {
    let claims = solution.claims.iter().map(|c| format!("{} {:?} {:?}", c.pool, c.pods, c.launch.instance_types));
    let nodes = solution.nodes.iter().map(|n| format!("{} {:?}", n.node, n.pods));
    let unplaced = solution.unplaced.iter().map(|u| format!("{} {}", u.pod, u.reason));
    claims.chain(nodes).chain(unplaced).collect::<Vec<_>>().join("\n")
}

const RULES: [&str; 16] = [
    "",
    "",
    "spread=zone:1:app=G",
    "spread=host:1:app=G",
    "spread=zone:1:app=G:any",
    "anti=host:app=G",
    "aff=zone:app=G",
    "aff=host:app=G",
    "anti=zone:app=G",
    "pref=\"1 zone In b\"",
    "sel=zone:a",
    "sel=team:x",
    "spread=team:1:app=G",
    "port=80",
    "tol=k",
    "owner=DaemonSet/other",
];

/// Generates the nodes and pods of a cluster as fixture text. All generated clusters share object
/// names, pools and instance types.
fn cluster_text() -> impl Strategy<Value = String> {
    let node = (2..9_u32, 0..4_usize, 0..10_u32);
    let nodes = prop::collection::vec(node, 5);
    let pods = prop::collection::vec((1..30_u32, 0..8_usize, 0..3_u32, 0..RULES.len()), 12);
    (nodes, pods).prop_map(|(nodes, pods)| {
        let mut world = String::from(
            "type s cpu=2 mem=8Gi zones=a,b price=0.1 \n type m cpu=6 mem=24Gi zones=a,b,c price=0.3 \n \
             pool p weight=1 limit=cpu:30 \n daemonset d cpu=0.1 \n",
        );
        for (i, (cpu, zone, how)) in nodes.iter().enumerate() {
            let how = match how {
                0 => "uninitialized",
                1 => "leaving",
                2 => "label=team:x",
                3 => "label=team:y",
                4 => "taint=k=v:NoSchedule",
                _ => "",
            };
            writeln!(world, "node n{i} cpu={cpu} mem=32Gi zone={} pool=p {how}", ["a", "b", "c", "d"][*zone]).unwrap();
        }
        for (i, (tenths, node, app, rule)) in pods.iter().enumerate() {
            // Node 5 does not exist.
            let on = if *node < 6 { format!("on=n{node}") } else { String::new() };
            let rule = RULES[*rule].replace('G', &format!("g{app}"));
            let on = if rule.starts_with("owner") && on.is_empty() { "on=n0".to_owned() } else { on };
            writeln!(world, "pod x{i} {on} cpu={}m mem=1Gi labels=app:g{app} {rule}", tenths * 100).unwrap();
        }
        world
    })
}

/// A change of the pod, node or claim with this index.
#[derive(Debug, Clone)]
enum ClusterChange {
    PodUpdated(usize),
    PodDeleted(usize),
    NodeUpdated(usize),
    NodeDeleted(usize),
    ClaimDeleted(usize),
    Solve,
}

fn event() -> impl Strategy<Value = ClusterChange> {
    prop_oneof![
        3 => (0..12_usize).prop_map(ClusterChange::PodUpdated),
        1 => (0..12_usize).prop_map(ClusterChange::PodDeleted),
        2 => (0..5_usize).prop_map(ClusterChange::NodeUpdated),
        1 => (0..5_usize).prop_map(ClusterChange::NodeDeleted),
        1 => (0..5_usize).prop_map(ClusterChange::ClaimDeleted),
        1 => Just(ClusterChange::Solve),
    ]
}

fn apply_change(event: &ClusterChange, prepared: &mut IncrementalSolver, input: &mut Input, later: &Input) {
    match event {
        ClusterChange::PodUpdated(i) => {
            let pod = &later.pods[*i];
            input.pods.retain(|p| p.metadata.name != pod.metadata.name);
            input.pods.push(pod.clone());
            prepared.update_pod(pod);
        }
        ClusterChange::PodDeleted(i) => {
            let name = later.pods[*i].namespaced_name();
            input.pods.retain(|p| p.namespaced_name() != name);
            prepared.remove_pod(&name);
        }
        ClusterChange::NodeUpdated(i) => {
            let (node, claim) = (&later.nodes[*i], &later.node_claims[*i]);
            input.nodes.retain(|n| n.metadata.name != node.metadata.name);
            input.nodes.push(node.clone());
            input.node_claims.retain(|c| c.name != claim.name);
            input.node_claims.push(claim.clone());
            prepared.update_node(node);
            prepared.update_claim(claim);
        }
        ClusterChange::NodeDeleted(i) => {
            let name = &later.nodes[*i].metadata.name;
            input.nodes.retain(|n| n.metadata.name != *name);
            prepared.remove_node(name);
        }
        ClusterChange::ClaimDeleted(i) => {
            let name = &later.node_claims[*i].name;
            input.node_claims.retain(|c| c.name != *name);
            prepared.remove_claim(name);
        }
        ClusterChange::Solve => {
            prepared.solve();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_lead_where_a_fresh_start_leads(
        (now, later) in (cluster_text(), cluster_text()),
        events in prop::collection::vec(event(), 1..25),
        search in any::<bool>(),
    ) {
        let effort = if search { Effort::Search } else { Effort::FirstFit };
        let world = Fixture::new(&now).with_settings(|s| s.effort = effort);
        let later = Fixture::new(&later).input;
        let mut input = world.input.clone();
        let mut prepared = IncrementalSolver::new(&input, &world.settings);
        prop_assert_eq!(render_solution(&prepared.solve()), render_solution(&solve(&input, &world.settings)), "before anything happens");
        for event in &events {
            apply_change(event, &mut prepared, &mut input, &later);
        }
        prop_assert!(!prepared.is_stale());
        let fresh = IncrementalSolver::new(&input, &world.settings);
        prop_assert_eq!(render_solution(&prepared.solve()), render_solution(&solve(&input, &world.settings)), "after {:?}\nof {}", events, now);
        let mut fresh = fresh;
        for node in ["n0", "n1", "n2", "n3", "n4"] {
            let names = [Str::new(node)];
            prop_assert_eq!(render_solution(&prepared.solve_without_nodes(&names)), render_solution(&fresh.solve_without_nodes(&names)), "without {}", node);
        }
    }
}

#[test]
fn one_more_pod_is_placed_and_forgotten() {
    let world =
        Fixture::new("type s cpu=4 mem=8Gi price=0.1 \n pool p \n node n1 pool=p cpu=4 \n pod a cpu=1 \n pod b cpu=2");
    let mut input = world.input.clone();
    let more = input.pods.remove(1);
    let mut prepared = IncrementalSolver::new(&input, &world.settings);
    let alone = render_solution(&prepared.solve());
    assert_eq!(
        render_solution(&prepared.solve_with_pending(&[more.as_ref().clone()])),
        render_solution(&world.solve())
    );
    assert_eq!(render_solution(&prepared.solve()), alone);
}

#[test]
fn a_pod_whose_protection_ends_moves_from_then_on() {
    let world =
        Fixture::new("type s cpu=4 mem=8Gi price=0.1 \n pool p \n node n1 pool=p cpu=4 leaving \n pod a cpu=1 on=n1");
    let mut input = world.input.clone();
    let pod = Arc::make_mut(&mut input.pods[0]);
    pod.metadata.annotations = [("karpenter.sh/do-not-disrupt", "10m")].into();
    pod.status.start_time = Some(input.at);
    let mut prepared = IncrementalSolver::new(&input, &world.settings);
    assert_eq!(render_solution(&prepared.solve()), "");
    input.at += jiff::SignedDuration::from_mins(10);
    prepared.set_time(input.at);
    assert_eq!(render_solution(&prepared.solve()), render_solution(&solve(&input, &world.settings)));
    assert_ne!(render_solution(&prepared.solve()), "");
}

#[test]
fn a_namespace_that_was_not_there_makes_it_stale() {
    let world = Fixture::new("type s cpu=4 mem=8Gi price=0.1 \n pool p \n pod a cpu=1");
    let mut prepared = IncrementalSolver::new(&world.input, &world.settings);
    let mut pod = world.input.pods[0].as_ref().clone();
    prepared.update_pod(&pod);
    assert!(!prepared.is_stale());
    pod.metadata.namespace = "elsewhere".into();
    prepared.update_pod(&pod);
    assert!(prepared.is_stale());
}

// Two instances with 10 CPUs were launched for pods of 5 + 3 + 2 and 4 + 3 + 3 CPUs. First fit
// packs 5 + 4 and 3 + 3 + 3, and would launch a third.
#[test]
fn pods_find_the_machines_again_that_were_launched_for_them() {
    let mut world = Fixture::new(
        "type s cpu=10 mem=64Gi price=0.1 \n pool p \n node n1 pool=p cpu=10 \n node n2 pool=p cpu=10 \n pod a cpu=5 \n pod b cpu=4 \n pod c cpu=3 \n pod d cpu=3 \n pod e cpu=3 \n pod f cpu=2",
    );
    world.settings.effort = Effort::FirstFit;
    let mut prepared = IncrementalSolver::new(&world.input, &world.settings);
    assert_eq!(prepared.solve().claims.len(), 1);
    let machine = |node: usize| world.input.nodes[node].spec.provider_id.clone();
    let expected = [("a", 0), ("c", 0), ("f", 0), ("b", 1), ("d", 1), ("e", 1)];
    let expected: BTreeMap<Str, Str> =
        expected.into_iter().map(|(pod, node)| (format!("default/{pod}").into(), machine(node))).collect();
    assert_eq!(prepared.solve_with_launched_nodes(&expected).claims.len(), 0);
    assert_eq!(prepared.solve().claims.len(), 1);
}
