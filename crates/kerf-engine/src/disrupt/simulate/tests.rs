//! Simulations on small clusters, named after the edge cases of spec 03 §17.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::fixture::Fixture;

fn simulator(text: &str, in_consolidate_after: &[&str]) -> Simulator {
    let fixture = Fixture::new(text);
    Simulator::new(&fixture.input, &fixture.settings, in_consolidate_after.iter().map(Str::new))
}

/// Returns one line per fact: `node n2: a b`, `claim p: c`, `fails d`, `pending e`.
fn removal_text(simulator: &mut Simulator, removed: &[&str], purpose: Purpose) -> String {
    let removed: Vec<NodeIx> = removed.iter().map(|n| simulator.node(n).unwrap()).collect();
    let result = simulator.simulate_removal(&removed, purpose);
    let short = |pods: &[Str]| pods.iter().map(|p| p.trim_start_matches("default/")).collect::<Vec<_>>().join(" ");
    let nodes = result.nodes.iter().map(|n| format!("node {}: {}", n.node, short(&n.pods)));
    let claims = result.claims.iter().map(|c| format!("claim {}: {}", c.pool, short(&c.pods)));
    let failures = result.failures.iter().map(|f| {
        let verb = if f.origin == PodOrigin::Pending { "pending" } else { "fails" };
        format!("{verb} {}", short(std::slice::from_ref(&f.pod)))
    });
    nodes.chain(claims).chain(failures).collect::<Vec<_>>().join("\n")
}

const TWO_NODES: &str = "
    type s cpu=4 mem=16Gi price=0.1
    pool p
    node n1 pool=p type=s
    node n2 pool=p type=s
    pod a on=n1 cpu=1
    pod b on=n2 cpu=1
";

#[test]
fn pods_of_a_removed_node_move_to_a_remaining_node() {
    let mut simulator = simulator(TWO_NODES, &[]);
    for _ in 0..2 {
        assert_eq!(removal_text(&mut simulator, &["n1"], Purpose::Consolidation), "node n2: a");
        assert_eq!(removal_text(&mut simulator, &["n2"], Purpose::Consolidation), "node n1: b");
        assert_eq!(removal_text(&mut simulator, &["n1", "n2"], Purpose::Consolidation), "claim p: a b");
    }
}

#[test]
fn spec_03_59_a_pod_on_an_uninitialized_node_counts_as_unscheduled() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p
        node n1 pool=p type=s
        node n2 pool=p type=s uninitialized
        pod a on=n1 cpu=1
    ";
    let mut simulator = simulator(text, &[]);
    let n1 = simulator.node("n1").unwrap();
    let result = simulator.simulate_removal(&[n1], Purpose::Consolidation);
    assert!(!result.all_scheduled());
    assert_eq!(
        result.to_string(),
        "not all pods would schedule, default/a => would schedule against uninitialized nodeclaim/claim-of-n2, node/n2 "
    );
}

#[test]
fn spec_03_60_initialized_nodes_are_preferred() {
    let starting: Vec<String> = (0..99).map(|i| format!("node m{i} pool=p type=s uninitialized")).collect();
    let starting = starting.join("\n");
    let text = format!(
        "type s cpu=4 mem=16Gi price=0.1 \n pool p \n node z pool=p type=s \n node n1 pool=p type=s \n {starting} \n \
         pod a on=n1 cpu=1"
    );
    let mut simulator = simulator(&text, &[]);
    assert_eq!(removal_text(&mut simulator, &["n1"], Purpose::Consolidation), "node z: a");
}

#[test]
fn spec_03_61_pods_of_a_deleting_node_may_move_to_an_uninitialized_node() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p
        node n1 pool=p type=s deleting
        node n2 pool=p type=s uninitialized
        pod a on=n1 cpu=1
    ";
    assert_eq!(removal_text(&mut simulator(text, &[]), &[], Purpose::Consolidation), "node n2: a");
}

#[test]
fn spec_03_62_a_pending_pod_may_stay_pending() {
    let text = format!("{TWO_NODES} \n pod big cpu=100");
    let mut simulator = simulator(&text, &[]);
    assert_eq!(removal_text(&mut simulator, &["n1"], Purpose::Consolidation), "node n2: a\npending big");
    let n1 = simulator.node("n1").unwrap();
    let result = simulator.simulate_removal(&[n1], Purpose::Consolidation);
    assert!(result.all_scheduled());
    assert_eq!(result.to_string(), "No Pod Scheduling Errors");
}

#[test]
fn spec_03_63_a_bound_pod_that_fits_nowhere_else_fails() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p limit=cpu:1
        node n1 cpu=32 pool=p
        pod a on=n1 cpu=20
    ";
    assert_eq!(removal_text(&mut simulator(text, &[]), &["n1"], Purpose::Drift), "fails a");
}

#[test]
fn spec_03_64_a_pending_pod_uses_the_capacity_that_it_needs() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p
        node big cpu=32 pool=p
        node n2 pool=p type=s
        pod a on=big cpu=1
        pod waiting cpu=20
    ";
    let mut simulator = simulator(text, &[]);
    assert_eq!(removal_text(&mut simulator, &["n2"], Purpose::Consolidation), "node big: waiting");
    assert_eq!(removal_text(&mut simulator, &["big"], Purpose::Consolidation), "node n2: a\npending waiting");
}

#[test]
fn spec_03_65_a_node_in_consolidate_after_receives_no_moved_pod() {
    let text = format!("{TWO_NODES} \n pod waiting cpu=1");
    let mut simulator = simulator(&text, &["n2"]);
    assert_eq!(removal_text(&mut simulator, &["n1"], Purpose::Consolidation), "node n2: waiting\nclaim p: a");
    assert_eq!(removal_text(&mut simulator, &["n1"], Purpose::Drift), "node n2: a waiting");
}

#[test]
fn more_than_five_failures_are_counted() {
    let text = "
        type s cpu=1 mem=16Gi price=0.1
        pool p
        node n1 cpu=32 pool=p
        pod a x7 on=n1 cpu=2
    ";
    let mut simulator = simulator(text, &[]);
    let n1 = simulator.node("n1").unwrap();
    let text = simulator.simulate_removal(&[n1], Purpose::Drift).to_string();
    assert!(text.starts_with("not all pods would schedule, default/a-1 => "), "{text}");
    assert!(text.ends_with("  and 2 other(s)"), "{text}");
}

/// Generates a cluster with nodes that are full, half full or starting, pods with every kind of
/// constraint, and pending pods.
fn cluster_text() -> impl Strategy<Value = String> {
    let node = (2..9_u32, prop::sample::select(vec!["a", "b", "c"]), prop::sample::select(vec!["p0", "p1"]), 0..12_u32);
    let nodes = prop::collection::vec(node, 2..7);
    let rules = vec![
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
        "port=80",
    ];
    let pods = prop::collection::vec((1..30_u32, 0..9_usize, 0..4_u32, prop::sample::select(rules)), 1..18);
    (nodes, pods, 0..2_u32).prop_map(|(nodes, pods, limited)| {
        let mut text =
            String::from("type s cpu=2 mem=8Gi zones=a,b price=0.1 \n type m cpu=6 mem=24Gi zones=a,b,c price=0.3 \n");
        let limit = if limited == 1 { "limit=cpu:20" } else { "" };
        writeln!(text, "pool p0 weight=1 {limit} \n pool p1 taint=k=v:PreferNoSchedule").unwrap();
        for (i, (cpu, zone, pool, state)) in nodes.iter().enumerate() {
            let state = match state {
                0 => "uninitialized",
                1 => "deleting",
                2 => "marked",
                _ => "",
            };
            writeln!(text, "node n{i} cpu={cpu} mem=32Gi zone={zone} pool={pool} {state}").unwrap();
        }
        for (i, (tenths, node, app, rule)) in pods.iter().enumerate() {
            let on = if *node < nodes.len() { format!("on=n{node}") } else { String::new() };
            let rule = rule.replace('G', &format!("g{app}"));
            writeln!(text, "pod x{i} {on} cpu={}m mem=1Gi labels=app:g{app} {rule}", tenths * 100).unwrap();
        }
        text
    })
}

/// Solves the input with the nodes marked for disruption, without the simulator.
fn solve_without(fixture: &Fixture, removed: &[&str]) -> String {
    let mut fixture = fixture.with_settings(|s| s.reserved_mode = ReservedMode::Fallback);
    for claim in &mut fixture.input.node_claims {
        claim.is_marked_for_disruption |= removed.iter().any(|n| claim.name == format!("claim-of-{n}"));
    }
    let solution = fixture.solve();
    let claims = solution.claims.iter().map(|c| format!("{} {:?} {:?}", c.pool, c.pods, c.launch.instance_types));
    let nodes = solution.nodes.iter().map(|n| format!("{} {:?}", n.node, n.pods));
    let bound =
        |pod: &Str| fixture.input.pods.iter().any(|p| p.namespaced_name() == *pod && p.spec.node_name.is_some());
    let unplaced = solution.unplaced.iter().map(|u| {
        let reason = if bound(&u.pod) { u.reason.to_string() } else { "stays pending".to_owned() };
        format!("{} {reason}", u.pod)
    });
    claims.chain(nodes).chain(unplaced).collect::<Vec<_>>().join("\n")
}

fn result_text(result: &SimulationResult) -> String {
    let claims = result.claims.iter().map(|c| format!("{} {:?} {:?}", c.pool, c.pods, c.launch.instance_types));
    let nodes = result.nodes.iter().map(|n| format!("{} {:?}", n.node, n.pods));
    let unplaced = result.failures.iter().filter_map(|f| match &f.cause {
        FailureCause::StaysPending | FailureCause::Unplaced(_) => Some(format!("{} {}", f.pod, f.cause)),
        FailureCause::Uninitialized { .. } => None,
    });
    claims.chain(nodes).chain(unplaced).collect::<Vec<_>>().join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each simulation has the result of solving the cluster without the nodes, whatever
    /// simulations ran before, and leaves the solver state unchanged.
    #[test]
    fn a_simulation_equals_a_solve_without_the_nodes(text in cluster_text(), removals in prop::collection::vec(0..64_u32, 1..6)) {
        let fixture = Fixture::new(&text);
        let mut simulator = Simulator::new(&fixture.input, &fixture.settings, []);
        let before = simulator.state.clone();
        for removal in removals {
            let names: Vec<String> = (0..6).filter(|i| removal >> i & 1 == 1).map(|i| format!("n{i}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let removed: Vec<NodeIx> = names.iter().filter_map(|n| simulator.node(n)).collect();
            let result = simulator.simulate_removal(&removed, Purpose::Consolidation);
            prop_assert_eq!(result_text(&result), solve_without(&fixture, &names), "without {:?} of\n{}", names, text);
            prop_assert!(simulator.state.has_same_lasting_state(&before), "state after the simulation without {:?} of\n{}", names, text);
        }
    }
}
