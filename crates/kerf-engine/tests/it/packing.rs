//! Tests of how pods share new and existing nodes (spec 02 §5.5, §6 and §9.3).

use std::fmt::Write as _;

use kerf_api::labels;
use kerf_engine::{Effort, Price};

use crate::check_solution::{check, check_search, solution_text};
use crate::fixture::Fixture;

#[test]
fn spec_02_61_small_pods_fill_the_gaps() {
    let fixture = Fixture::new("type t cpu=4 \n pool p \n pod big x40 cpu=1.8 \n pod small x20 cpu=0.4");
    let solution = fixture.solve();
    assert_eq!(solution.claims.len(), 20);
    assert!(solution.unplaced.is_empty());
    check_search(&fixture, &solution);
}

#[test]
fn spec_02_62_the_number_of_pods_is_a_resource() {
    let solution = Fixture::new("type t pods=5 \n pool p \n pod tiny x25 cpu=10m").solve();
    assert_eq!(solution.claims.len(), 5);
    assert!(solution.claims.iter().all(|c| c.pods.len() == 5));
}

#[test]
fn spec_02_63_every_fitting_type_is_listed_by_price() {
    check(
        "type a cpu=2 price=0.9 \n type b cpu=8 price=0.1 \n type c cpu=4 price=0.5 \n type d cpu=1 price=0.01
         type e cpu=4 price=0.5 \n pool p \n pod x cpu=1.5",
        "claim pool=p types=b,c,e,a pods=x",
    );
}

#[test]
fn spec_02_64_prices_of_excluded_offerings_do_not_count() {
    let types = "type a \n offer a ct=spot price=0.1 \n offer a ct=on-demand price=0.9
        type b \n offer b ct=spot price=0.5 \n offer b ct=on-demand price=0.6
        type c \n offer c ct=spot price=0.01 \n offer c zone=b ct=on-demand price=0.01 out \n offer c ct=on-demand price=0.7";
    check(&format!("{types} \n pool p \n pod x cpu=1"), "claim pool=p types=c,a,b pods=x");
    check(&format!("{types} \n pool p req=\"ct In on-demand\" \n pod x cpu=1"), "claim pool=p types=b,c,a pods=x");
    check(
        &format!("{types} \n pool p \n pod x cpu=1 sel=ct:on-demand"),
        "claim pool=p types=b,c,a pods=x ct=on-demand",
    );
    let estimate = Fixture::new(&format!("{types} \n pool p \n pod x cpu=1 sel=ct:on-demand")).solve().claims[0]
        .launch
        .estimate
        .clone()
        .unwrap();
    assert_eq!(
        (&*estimate.instance_type, &*estimate.capacity_type, estimate.price),
        ("b", "on-demand", Price::from_nanos(600_000_000))
    );
}

// The node fits one of the four pods that must share a host. The large pod would take their place
// on a new node.
#[test]
fn pods_that_must_share_a_host_are_placed_where_all_of_them_fit() {
    let fixture = Fixture::new(
        "type t cpu=8 price=1 \n pool p \n node n1 cpu=1.8 \n pod large cpu=2.1 labels=app:large
         pod web x4 cpu=1.5 labels=app:web aff=host:app=web \n pod plain cpu=1.5 labels=app:plain",
    );
    assert_eq!(fixture.solve().unplaced.len(), 1);
    let solution = fixture.with_settings(|s| s.effort = Effort::Search).solve();
    assert_eq!(
        solution_text(&fixture.input, &solution),
        "claim pool=p types=t pods=large\nclaim pool=p types=t pods=web-1..4\nnode n1 pods=plain\n"
    );
}

#[test]
fn spec_02_65_a_host_port_is_used_once() {
    check(
        "pool p \n pod a cpu=1 port=8080 \n pod b cpu=1 port=8080 \n pod c cpu=1 port=8081",
        "claim pool=p types=t pods=a,c \n claim pool=p types=t pods=b",
    );
    check("pool p \n daemonset d port=8080 \n pod a cpu=1 port=8080", "unplaced a HostPortConflict");
    let large_only = "type s cpu=2 \n type l cpu=4 \n pool p \n daemonset d port=8080 sel=type:l";
    check(&format!("{large_only} \n pod a cpu=1 port=8080"), "claim pool=p types=s pods=a");
    check(&format!("{large_only} \n pod a cpu=3 port=8080"), "unplaced a NoInstanceTypeFits");
    // On an existing node, bound pods hold their ports, and a pod of the pass blocks the next one.
    let node = "pool p limit=nodes:0 \n node n1 \n pod old on=n1 port=8080";
    check(
        &format!("{node} \n pod a port=8080 \n pod b x2 port=9090"),
        "node n1 pods=b-1 \n unplaced a,b-2 LimitExceeded",
    );
    check(
        "pool p limit=nodes:0 \n node n1 \n pod old on=n1 port=8080 phase=Failed \n pod a port=8080",
        "node n1 pods=a",
    );
}

#[test]
fn spec_02_66_host_ports_conflict_by_address_and_protocol() {
    for (one, other, together) in [
        ("8080@10.0.0.1", "8080", false),
        ("8080@10.0.0.1", "8080@::", false),
        ("8080@10.0.0.1", "8080@10.0.0.1", false),
        ("8080@10.0.0.1", "8080@10.0.0.2", true),
        ("8080/TCP", "8080/SCTP", true),
        ("8080/UDP", "8080/UDP", false),
        ("8080", "8081", true),
    ] {
        let solution = Fixture::new(&format!("pool p \n pod a cpu=1 port={one} \n pod b cpu=1 port={other}")).solve();
        assert_eq!(solution.claims.len(), if together { 1 } else { 2 }, "{one} and {other}");
    }
    // A pod does not conflict with itself.
    check("pool p \n pod a cpu=1 port=8080,8080", "claim pool=p types=t pods=a");
}

#[test]
fn spec_02_67_launched_nodes_are_used_before_new_ones() {
    for state in ["inflight", "unregistered", "uninitialized", ""] {
        check(&format!("pool p \n node n1 pool=p type=t zone=a {state} \n pod a cpu=1"), "node n1 pods=a");
        check(
            &format!("pool p \n node n1 pool=p type=t zone=a {state} \n pod a x5 cpu=1"),
            "claim pool=p types=t pods=a-5 \n node n1 pods=a-1..4",
        );
    }
}

#[test]
fn spec_02_68_a_starting_node_in_another_zone_is_not_used() {
    let node = "pool p \n node n1 pool=p type=t zone=a inflight";
    check(&format!("{node} \n pod a cpu=1 req=\"zone In b,c\""), "claim pool=p types=t pods=a zone=b|c");
    check(&format!("{node} \n pod a cpu=1 req=\"zone In a,c\""), "node n1 pods=a");
}

#[test]
fn spec_02_69_initialized_nodes_are_used_first() {
    let mut nodes = String::from("pool p \n node z-ready pool=p zone=a");
    for i in 0..100 {
        write!(nodes, "\n node a-{i:03} pool=p zone=a uninitialized").unwrap();
    }
    check(&format!("{nodes} \n pod a x4 cpu=1"), "node z-ready pods=a-1..4");
    check(&format!("{nodes} \n pod a x6 cpu=1"), "node a-000 pods=a-5..6 \n node z-ready pods=a-1..4");
}

#[test]
fn spec_02_70_until_initialization_the_claim_supplies_missing_resources() {
    let node = |rest: &str| format!("pool p limit=nodes:0 \n node n1 pool=p zone=a {rest} \n pod a cpu=1 res=gpu:1");
    check(&node("uninitialized res=gpu:0 claimed=gpu:2"), "node n1 pods=a");
    check(&node("uninitialized claimed=gpu:2"), "node n1 pods=a");
    check(&node("res=gpu:0 claimed=gpu:2"), "unplaced a LimitExceeded");
    // Resources that the kubelet does report override those of the claim.
    let two = "pool p limit=nodes:0 \n node n1 pool=p zone=a uninitialized res=gpu:1 claimed=gpu:2 \n pod a x2 cpu=1 res=gpu:1";
    check(two, "node n1 pods=a-1 \n unplaced a-2 LimitExceeded");
}

#[test]
fn spec_02_71_ephemeral_taints_of_starting_nodes_are_ignored() {
    let with = |state: &str, taint: &str| {
        format!(
            "pool p limit=nodes:0 \n node n1 pool=p zone=a {state} startup=own:NoSchedule taint={taint} \n pod a cpu=1"
        )
    };
    let ephemeral = [
        "node.kubernetes.io/not-ready:NoExecute",
        "node.kubernetes.io/not-ready:NoSchedule",
        "node.kubernetes.io/unreachable:NoSchedule",
        "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule",
        "karpenter.sh/unregistered:NoExecute",
        "readiness.k8s.io/net:NoSchedule",
        "readiness.k8s.io/net:NoExecute",
        "own:NoSchedule",
        "own=any:NoSchedule",
    ];
    for taint in ephemeral {
        check(&with("uninitialized", taint), "node n1 pods=a");
        check(&with("", taint), "unplaced a LimitExceeded");
    }
    for taint in [
        "foo/readiness.k8s.io/bar:NoSchedule",
        "own:NoExecute",
        "node.kubernetes.io/unreachable:NoExecute",
        "x:NoSchedule",
    ] {
        check(&with("uninitialized", taint), "unplaced a LimitExceeded");
    }
    // Taints of an unmanaged node count as they are.
    check(
        "pool p limit=nodes:0 \n node n1 taint=node.kubernetes.io/not-ready:NoExecute \n pod a cpu=1",
        "unplaced a LimitExceeded",
    );
    // Until the node is registered, the claim's taints count, not the node's.
    check(
        "pool p limit=nodes:0 \n node n1 pool=p unregistered taint=x claimtaint=y \n pod a cpu=1 tol=y",
        "node n1 pods=a",
    );
}

#[test]
fn spec_02_72_unmanaged_nodes_are_used() {
    check("pool p \n node own \n pod a cpu=1", "node own pods=a");
    check("pool p \n node own pool=p unmanaged type=t \n pod a cpu=1", "node own pods=a");
}

#[test]
fn spec_02_73_a_label_that_a_node_lacks_is_not_assumed() {
    check("pool p \n node n1 \n pod a cpu=1 req=\"zone In a,b,c\"", "claim pool=p types=t pods=a zone=a|b|c");
    check("pool p \n node n1 \n pod a cpu=1 req=\"zone Exists\"", "claim pool=p types=t pods=a zone=*");
    check("pool p \n node n1 \n pod a cpu=1 req=\"zone NotIn a\"", "node n1 pods=a");
    check("pool p \n node n1 \n pod a cpu=1 req=\"team DoesNotExist\"", "node n1 pods=a");
}

#[test]
fn spec_02_74_the_claim_with_the_fewest_pods_is_tried_first() {
    check(
        "type t cpu=4 \n pool p \n pod a x2 cpu=1.9 sel=zone:a \n pod b cpu=1.8 sel=zone:b \n pod small cpu=0.1",
        "claim pool=p types=t pods=a-1..2 zone=a \n claim pool=p types=t pods=b,small zone=b",
    );
}

#[test]
fn the_solution_reports_price_and_statistics() {
    let fixture =
        Fixture::new("type s cpu=2 price=0.25 \n type l cpu=4 price=0.4 \n pool p \n pod a x2 cpu=2 anti=host:*");
    let solution = fixture.solve();
    assert_eq!(solution.price(), Price::from_nanos(500_000_000));
    assert_eq!(solution.stats.pods, 2);
    assert_eq!(solution.stats.pod_classes, 1);
    assert_eq!(solution.stats.instance_types, 2);
    let searched = fixture.with_settings(|s| s.effort = Effort::Search).solve();
    assert_eq!(searched.stats.first_fit_price, solution.price());
    assert!(searched.stats.attempts > 1);
}

/// The search is cheaper than first fit where several solutions keep every rule: two small nodes
/// instead of a large one.
#[test]
fn a_search_finds_cheaper_nodes_than_first_fit() {
    let fixture = Fixture::new("type s cpu=2 price=0.1 \n type l cpu=4 price=0.5 \n pool p \n pod a x2 cpu=2");
    assert_eq!(solution_text(&fixture.input, &fixture.solve()), "claim pool=p types=l pods=a-1..2\n");
    let searched = fixture.with_settings(|s| s.effort = Effort::Search);
    assert_eq!(
        solution_text(&searched.input, &searched.solve()),
        "claim pool=p types=s,l pods=a-1\nclaim pool=p types=s,l pods=a-2\n"
    );
    assert_eq!(searched.solve().claims[0].launch.requirements.get(labels::INSTANCE_TYPE).unwrap().values().len(), 2);
}

// First fit places the pod with more CPU on the only node that fits the pod with more memory.
#[test]
fn a_search_tries_another_order_for_unplaced_pods() {
    let fixture = "pool p limit=nodes:0 \n node n1 cpu=2 mem=8Gi \n node n2 cpu=2 mem=2Gi
         pod a cpu=1.5 mem=1Gi \n pod b cpu=1 mem=4Gi";
    check(fixture, "node n1 pods=a \n unplaced b LimitExceeded");
    let searched = Fixture::new(fixture).with_settings(|settings| settings.effort = Effort::Search);
    assert_eq!(solution_text(&searched.input, &searched.solve()), "node n1 pods=b\nnode n2 pods=a\n");
}
