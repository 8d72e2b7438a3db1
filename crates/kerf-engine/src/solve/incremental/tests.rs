//! A solver that was updated by events returns the solutions of a solver built from scratch.

use std::sync::Arc;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::cluster::Effort;
use crate::fixture::Fixture;
use crate::solve::{LaunchWaitEnd, solve};

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
        let mut text = String::from(
            "type s cpu=2 mem=8Gi zones=a,b price=0.1 \n type m cpu=6 mem=24Gi zones=a,b,c price=0.3 \n \
             pool p weight=1 limit=cpu:30 \n daemonset d cpu=0.1 \n",
        );
        for (i, (cpu, zone, variant)) in nodes.iter().enumerate() {
            let variant = match variant {
                0 => "uninitialized",
                1 => "deleting",
                2 => "label=team:x",
                3 => "label=team:y",
                4 => "taint=k=v:NoSchedule",
                _ => "",
            };
            writeln!(text, "node n{i} cpu={cpu} mem=32Gi zone={} pool=p {variant}", ["a", "b", "c", "d"][*zone])
                .unwrap();
        }
        for (i, (tenths, node, app, rule)) in pods.iter().enumerate() {
            // Node 5 does not exist.
            let binding = if *node < 6 { format!("on=n{node}") } else { String::new() };
            let rule = RULES[*rule].replace('G', &format!("g{app}"));
            let binding = if rule.starts_with("owner") && binding.is_empty() { "on=n0".to_owned() } else { binding };
            writeln!(text, "pod x{i} {binding} cpu={}m mem=1Gi labels=app:g{app} {rule}", tenths * 100).unwrap();
        }
        text
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

fn cluster_change() -> impl Strategy<Value = ClusterChange> {
    prop_oneof![
        3 => (0..12_usize).prop_map(ClusterChange::PodUpdated),
        1 => (0..12_usize).prop_map(ClusterChange::PodDeleted),
        2 => (0..5_usize).prop_map(ClusterChange::NodeUpdated),
        1 => (0..5_usize).prop_map(ClusterChange::NodeDeleted),
        1 => (0..5_usize).prop_map(ClusterChange::ClaimDeleted),
        1 => Just(ClusterChange::Solve),
    ]
}

fn apply_change(change: &ClusterChange, solver: &mut IncrementalSolver, input: &mut Input, later: &Input) {
    match change {
        ClusterChange::PodUpdated(i) => {
            let pod = &later.pods[*i];
            input.pods.retain(|p| p.metadata.name != pod.metadata.name);
            input.pods.push(pod.clone());
            solver.update_pod(pod);
        }
        ClusterChange::PodDeleted(i) => {
            let name = later.pods[*i].namespaced_name();
            input.pods.retain(|p| p.namespaced_name() != name);
            solver.remove_pod(&name);
        }
        ClusterChange::NodeUpdated(i) => {
            let (node, claim) = (&later.nodes[*i], &later.node_claims[*i]);
            input.nodes.retain(|n| n.metadata.name != node.metadata.name);
            input.nodes.push(node.clone());
            input.node_claims.retain(|c| c.name != claim.name);
            input.node_claims.push(claim.clone());
            solver.update_node(node);
            solver.update_claim(claim);
        }
        ClusterChange::NodeDeleted(i) => {
            let name = &later.nodes[*i].metadata.name;
            input.nodes.retain(|n| n.metadata.name != *name);
            solver.remove_node(name);
        }
        ClusterChange::ClaimDeleted(i) => {
            let name = &later.node_claims[*i].name;
            input.node_claims.retain(|c| c.name != *name);
            solver.remove_claim(name);
        }
        ClusterChange::Solve => {
            solver.solve();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn updates_by_events_equal_a_solver_built_from_scratch(
        (now, later) in (cluster_text(), cluster_text()),
        changes in prop::collection::vec(cluster_change(), 1..25),
        search in any::<bool>(),
        drops_caches in any::<bool>(),
    ) {
        let effort = if search { Effort::Search } else { Effort::FirstFit };
        let fixture = Fixture::new(&now).with_settings(|s| s.effort = effort);
        let later = Fixture::new(&later).input;
        let mut input = fixture.input.clone();
        let mut solver = IncrementalSolver::new(&input, &fixture.settings);
        if drops_caches {
            // The caches are dropped before each placement.
            solver.state.set_cache_bytes_limit(0);
        }
        prop_assert_eq!(render_solution(&solver.solve()), render_solution(&solve(&input, &fixture.settings)), "before the first change");
        for change in &changes {
            apply_change(change, &mut solver, &mut input, &later);
        }
        prop_assert!(!solver.is_stale());
        let fresh = IncrementalSolver::new(&input, &fixture.settings);
        prop_assert_eq!(render_solution(&solver.solve()), render_solution(&solve(&input, &fixture.settings)), "after {:?}\nof {}", changes, now);
        let mut fresh = fresh;
        for node in ["n0", "n1", "n2", "n3", "n4"] {
            let names = [Str::new(node)];
            prop_assert_eq!(render_solution(&solver.solve_without_nodes(&names)), render_solution(&fresh.solve_without_nodes(&names)), "without {}", node);
        }
    }
}

// No two pods accept equal sets of instance types, so that almost every check needs a new view.
#[test]
fn the_caches_keep_to_their_limit_and_the_solution_is_the_same() {
    let mut text = String::from("pool p\n");
    for i in 1..=40 {
        writeln!(text, "type t{i} cpu={} mem=16Gi zones=a,b,c price=0.{}", 1 + i % 8, 10 + i * 7 % 41).unwrap();
        writeln!(text, "pod p{i} cpu=0.{} mem=1Gi req=\"type NotIn t{i},t{}\"", 1 + i % 9, 1 + i * 7 % 39).unwrap();
    }
    let fixture = Fixture::new(&text).with_settings(|s| s.effort = Effort::Search);
    let mut unlimited = IncrementalSolver::new(&fixture.input, &fixture.settings);
    unlimited.state.set_cache_bytes_limit(usize::MAX);
    let expected = unlimited.solve();
    let limit = 1 << 20;
    assert!(expected.stats.cache_bytes > 4 * limit, "{} bytes", expected.stats.cache_bytes);
    let mut solver = IncrementalSolver::new(&fixture.input, &fixture.settings);
    solver.state.set_cache_bytes_limit(limit);
    let solution = solver.solve();
    assert_eq!(render_solution(&solution), render_solution(&expected));
    // One placement may exceed the limit; the caches are dropped before the next.
    assert!(solution.stats.cache_bytes < limit + limit / 4, "{} bytes", solution.stats.cache_bytes);
}

#[test]
fn a_pending_pod_is_placed_and_forgotten_once_it_is_removed() {
    let fixture =
        Fixture::new("type s cpu=4 mem=8Gi price=0.1 \n pool p \n node n1 pool=p cpu=4 \n pod a cpu=1 \n pod b cpu=2");
    let mut input = fixture.input.clone();
    let additional = input.pods.remove(1);
    let mut solver = IncrementalSolver::new(&input, &fixture.settings);
    let without_additional = render_solution(&solver.solve());
    solver.update_pod(&additional);
    assert_eq!(render_solution(&solver.solve()), render_solution(&fixture.solve()));
    solver.remove_pod(&additional.namespaced_name());
    assert_eq!(render_solution(&solver.solve()), without_additional);
}

#[test]
fn a_pod_is_moved_once_its_do_not_disrupt_period_has_ended() {
    let fixture =
        Fixture::new("type s cpu=4 mem=8Gi price=0.1 \n pool p \n node n1 pool=p cpu=4 deleting \n pod a cpu=1 on=n1");
    let mut input = fixture.input.clone();
    let pod = Arc::make_mut(&mut input.pods[0]);
    pod.metadata.annotations = [("karpenter.sh/do-not-disrupt", "10m")].into();
    pod.status.start_time = Some(input.at);
    let mut solver = IncrementalSolver::new(&input, &fixture.settings);
    assert_eq!(render_solution(&solver.solve()), "");
    input.at += jiff::SignedDuration::from_mins(10);
    solver.set_time(input.at);
    assert_eq!(render_solution(&solver.solve()), render_solution(&solve(&input, &fixture.settings)));
    assert_ne!(render_solution(&solver.solve()), "");
}

#[test]
fn a_pod_in_an_unknown_namespace_makes_the_solver_stale() {
    let fixture = Fixture::new("type s cpu=4 mem=8Gi price=0.1 \n pool p \n pod a cpu=1");
    let mut solver = IncrementalSolver::new(&fixture.input, &fixture.settings);
    let mut pod = fixture.input.pods[0].as_ref().clone();
    solver.update_pod(&pod);
    assert!(!solver.is_stale());
    pod.metadata.namespace = "elsewhere".into();
    solver.update_pod(&pod);
    assert!(solver.is_stale());
}

// Two instances with 10 CPUs were launched for pods of 5 + 3 + 2 and 4 + 3 + 3 CPUs. First fit
// packs 5 + 4 and 3 + 3 + 3, and would launch a third.
#[test]
fn pods_are_placed_on_the_nodes_that_were_launched_for_them() {
    let mut fixture = Fixture::new(
        "type s cpu=10 mem=64Gi price=0.1 \n pool p \n node n1 pool=p cpu=10 \n node n2 pool=p cpu=10 \n pod a cpu=5 \n pod b cpu=4 \n pod c cpu=3 \n pod d cpu=3 \n pod e cpu=3 \n pod f cpu=2",
    );
    fixture.settings.effort = Effort::FirstFit;
    let mut solver = IncrementalSolver::new(&fixture.input, &fixture.settings);
    assert_eq!(solver.solve().claims.len(), 1);
    let provider_id = |node: usize| fixture.input.nodes[node].spec.provider_id.clone();
    let launched = [("a", 0), ("c", 0), ("f", 0), ("b", 1), ("d", 1), ("e", 1)];
    let provider_ids =
        launched.into_iter().map(|(pod, node)| (format!("default/{pod}").into(), provider_id(node))).collect();
    let launched = LaunchFacts { provider_ids, ..LaunchFacts::default() };
    assert_eq!(solver.solve_with_launches(&launched).claims.len(), 0);
    assert_eq!(solver.solve().claims.len(), 1);
}

// spec 02 #121
#[test]
fn a_daemon_pod_that_requests_something_else_makes_the_solver_stale() {
    let text = "type s cpu=4 mem=8Gi price=0.1 \n pool p \n daemonset d cpu=0.1 \n node n1 pool=p cpu=4";
    let with_pod = |pod: &str| Fixture::new(&format!("{text} \n {pod}")).input;
    let mut solver =
        IncrementalSolver::new(&with_pod("pod d1 on=n1 cpu=0.1 owner=DaemonSet/d"), &Fixture::new(text).settings);
    let update = |solver: &mut IncrementalSolver, pod: &str| {
        solver.update_pod(&with_pod(pod).pods[0]);
        solver.is_stale()
    };
    assert!(!update(&mut solver, "pod d1 on=n1 cpu=0.1 owner=DaemonSet/d"));
    assert!(!update(&mut solver, "pod d2 on=n1 cpu=0.1 owner=DaemonSet/d"));
    assert!(!update(&mut solver, "pod x on=n1 cpu=2 owner=DaemonSet/other"));
    assert!(update(&mut solver, "pod d2 on=n1 cpu=2 owner=DaemonSet/d"), "requests");
    assert!(!update(&mut solver, "pod d2 on=n1 cpu=0.1 owner=DaemonSet/d"));
    assert!(update(&mut solver, "pod d2 on=n1 cpu=0.1 port=80 owner=DaemonSet/d"), "ports");
    assert!(update(&mut solver, "pod d2 on=n1 cpu=0.1 tol=k owner=DaemonSet/d"), "tolerations");
    solver.remove_pod("default/d2");
    assert!(!solver.is_stale(), "the other pod represents the DaemonSet");
    assert!(!update(&mut solver, "pod a1 on=n1 cpu=2 owner=DaemonSet/d"), "an older pod does not");
    solver.remove_pod("default/a1");
    solver.remove_pod("default/d1");
    assert!(!solver.is_stale(), "the template represents the DaemonSet, and it requests as much");
}

// spec 04 #143
#[test]
fn pods_of_unlaunched_claims_are_left_out() {
    let fixture = Fixture::new("type s cpu=1 mem=8Gi price=0.1 \n pool p \n pod a cpu=1 \n pod b cpu=1");
    let mut solver = IncrementalSolver::new(&fixture.input, &fixture.settings);
    let launches = LaunchFacts { on_unlaunched_claims: ["default/a".into()].into(), ..LaunchFacts::default() };
    let solution = solver.solve_with_launches(&launches);
    assert_eq!(solution.claims.iter().flat_map(|claim| &claim.pods).collect::<Vec<_>>(), ["default/b"]);
    assert!(solution.unplaced.is_empty());
    assert_eq!(solver.solve().claims.len(), 2);
}

// spec 02 #122
#[test]
fn a_pod_whose_owner_waits_is_placed_on_existing_nodes_only() {
    let mut fixture = Fixture::new(
        "type s cpu=2 mem=8Gi price=0.1 \n pool p \n node n1 pool=p cpu=2 \n pod a cpu=2 \n pod b cpu=2 pref=\"1 zone In b\" \n pod c cpu=1 \n pod d cpu=1",
    );
    fixture.settings.effort = Effort::Search;
    let mut solver = IncrementalSolver::new(&fixture.input, &fixture.settings);
    let until = fixture.input.at + std::time::Duration::from_mins(1);
    let wait = |pod: &str, end| (Str::from(format!("default/{pod}")), LaunchWait { end, nodes: 3 });
    let waits =
        [wait("a", LaunchWaitEnd::At(until)), wait("b", LaunchWaitEnd::At(until)), wait("c", LaunchWaitEnd::OtherPod)];
    let launches = LaunchFacts { waits: waits.into(), ..LaunchFacts::default() };
    let solution = solver.solve_with_launches(&launches);
    let texts: Vec<String> =
        solution.unplaced.iter().map(|unplaced| format!("{} {}", unplaced.pod, unplaced.reason)).collect();
    let why = "none of these pods started on the last 3 nodes that were launched for them, ";
    assert_eq!(
        texts,
        [
            format!("default/b {why}the next node is launched after {until}"),
            format!(
                "default/c {why}the next node is launched for one of these pods, and the others wait until that pod starts"
            ),
        ]
    );
    assert_eq!(solution.nodes[0].pods, ["default/a"]);
    assert_eq!(solution.claims.iter().flat_map(|claim| &claim.pods).collect::<Vec<_>>(), ["default/d"]);
    solver.set_time(until);
    // The pods that waited for a time get claims; `c` is placed on the node.
    let solution = solver.solve_with_launches(&launches);
    assert_eq!(solution.claims.iter().flat_map(|claim| &claim.pods).filter(|pod| *pod == "default/c").count(), 0);
    assert!(solution.unplaced.is_empty(), "the wait for a time is over");
}
