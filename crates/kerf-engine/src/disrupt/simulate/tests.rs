//! What-ifs on small worlds, by the numbers of spec 03 §17.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its own fixture must fail")]

use super::*;
use crate::fixture::World;

fn simulator(text: &str, resting: &[&str]) -> Simulator {
    let world = World::new(text);
    Simulator::new(&world.input, &world.settings, resting.iter().map(Str::new))
}

/// `node n2: a b`, `claim p: c`, `fails d`, `pending e`: one line each.
fn without(simulator: &mut Simulator, removed: &[&str], purpose: Purpose) -> String {
    let removed: Vec<NodeIx> = removed.iter().map(|n| simulator.node(n).unwrap()).collect();
    let answer = simulator.without(&removed, purpose);
    let short = |pods: &[Str]| pods.iter().map(|p| p.trim_start_matches("default/")).collect::<Vec<_>>().join(" ");
    let nodes = answer.nodes.iter().map(|n| format!("node {}: {}", n.node, short(&n.pods)));
    let claims = answer.claims.iter().map(|c| format!("claim {}: {}", c.pool, short(&c.pods)));
    let failures = answer.failures.iter().map(|f| {
        let verb = if f.origin == Origin::Pending { "pending" } else { "fails" };
        format!("{verb} {}", short(std::slice::from_ref(&f.pod)))
    });
    nodes.chain(claims).chain(failures).collect::<Vec<_>>().join("\n")
}

const TWO: &str = "
    type s cpu=4 mem=16Gi price=0.1
    pool p
    node n1 pool=p type=s
    node n2 pool=p type=s
    pod a on=n1 cpu=1
    pod b on=n2 cpu=1
";

#[test]
fn pods_of_a_removed_node_go_to_one_that_stays() {
    let mut simulator = simulator(TWO, &[]);
    for _ in 0..2 {
        assert_eq!(without(&mut simulator, &["n1"], Purpose::Consolidation), "node n2: a");
        assert_eq!(without(&mut simulator, &["n2"], Purpose::Consolidation), "node n1: b");
        assert_eq!(without(&mut simulator, &["n1", "n2"], Purpose::Consolidation), "claim p: a b");
    }
}

#[test]
fn spec_03_59_a_place_on_an_uninitialized_node_does_not_count() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p
        node n1 pool=p type=s
        node n2 pool=p type=s uninitialized
        pod a on=n1 cpu=1
    ";
    let mut simulator = simulator(text, &[]);
    let n1 = simulator.node("n1").unwrap();
    let answer = simulator.without(&[n1], Purpose::Consolidation);
    assert!(!answer.all_scheduled());
    assert_eq!(
        answer.to_string(),
        "not all pods would schedule, default/a => would schedule against uninitialized nodeclaim/claim-of-n2, node/n2 "
    );
}

#[test]
fn spec_03_60_an_initialized_node_comes_first() {
    let starting: Vec<String> = (0..99).map(|i| format!("node m{i} pool=p type=s uninitialized")).collect();
    let starting = starting.join("\n");
    let text = format!(
        "type s cpu=4 mem=16Gi price=0.1 \n pool p \n node z pool=p type=s \n node n1 pool=p type=s \n {starting} \n \
         pod a on=n1 cpu=1"
    );
    let mut simulator = simulator(&text, &[]);
    assert_eq!(without(&mut simulator, &["n1"], Purpose::Consolidation), "node z: a");
}

#[test]
fn spec_03_61_pods_of_a_leaving_node_may_wait_for_an_uninitialized_one() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p
        node n1 pool=p type=s leaving
        node n2 pool=p type=s uninitialized
        pod a on=n1 cpu=1
    ";
    assert_eq!(without(&mut simulator(text, &[]), &[], Purpose::Consolidation), "node n2: a");
}

#[test]
fn spec_03_62_a_pod_that_was_pending_may_stay_so() {
    let text = format!("{TWO} \n pod big cpu=100");
    let mut simulator = simulator(&text, &[]);
    assert_eq!(without(&mut simulator, &["n1"], Purpose::Consolidation), "node n2: a\npending big");
    let n1 = simulator.node("n1").unwrap();
    let answer = simulator.without(&[n1], Purpose::Consolidation);
    assert!(answer.all_scheduled());
    assert_eq!(answer.to_string(), "No Pod Scheduling Errors");
}

#[test]
fn spec_03_63_a_bound_pod_that_fits_nowhere_else_fails() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p limit=cpu:1
        node n1 cpu=32 pool=p
        pod a on=n1 cpu=20
    ";
    assert_eq!(without(&mut simulator(text, &[]), &["n1"], Purpose::Drift), "fails a");
}

#[test]
fn spec_03_64_a_pending_pod_takes_the_room_that_it_needs() {
    let text = "
        type s cpu=4 mem=16Gi price=0.1
        pool p
        node big cpu=32 pool=p
        node n2 pool=p type=s
        pod a on=big cpu=1
        pod waiting cpu=20
    ";
    let mut simulator = simulator(text, &[]);
    assert_eq!(without(&mut simulator, &["n2"], Purpose::Consolidation), "node big: waiting");
    assert_eq!(without(&mut simulator, &["big"], Purpose::Consolidation), "node n2: a\npending waiting");
}

#[test]
fn spec_03_65_a_resting_node_takes_no_pod_that_could_stay() {
    let text = format!("{TWO} \n pod waiting cpu=1");
    let mut simulator = simulator(&text, &["n2"]);
    assert_eq!(without(&mut simulator, &["n1"], Purpose::Consolidation), "node n2: waiting\nclaim p: a");
    assert_eq!(without(&mut simulator, &["n1"], Purpose::Drift), "node n2: a waiting");
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
    let text = simulator.without(&[n1], Purpose::Drift).to_string();
    assert!(text.starts_with("not all pods would schedule, default/a-1 => "), "{text}");
    assert!(text.ends_with("  and 2 other(s)"), "{text}");
}
