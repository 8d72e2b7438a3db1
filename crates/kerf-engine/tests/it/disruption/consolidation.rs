//! Tests of multi-node and single-node consolidation (spec 03 §8.4, §8.5 and §8.7).

use std::fmt::Write as _;

use kerf_api::slim::ResourceList;
use kerf_engine::{Method, MethodFilter, Passes, next_commands, with_commands_done};

use super::{THREE_TYPES, block_codes, block_reasons, check, commands_text};
use crate::fixture::Fixture;

#[test]
fn spec_03_91_of_two_underused_nodes_of_the_cheapest_type_one_is_deleted() {
    check(
        &format!("{THREE_TYPES} \n pool-node a type=s \n pool-node b type=s \n pod x on=a cpu=1 \n pod y on=b cpu=1"),
        "single delete a saves 0.2",
    );
}

#[test]
fn spec_03_92_three_underused_nodes_become_one() {
    for kinds in [["on-demand"; 3], ["spot"; 3], ["spot", "on-demand", "spot"]] {
        let nodes: Vec<String> = kinds
            .iter()
            .enumerate()
            .map(|(i, ct)| format!("pool-node n{i} type=l ct={ct} \n pod x{i} on=n{i} cpu=4500m"))
            .collect();
        let fixture = format!(
            "settings spot-to-spot \n type l cpu=8 price=0.8 ct=spot,on-demand \n type xl cpu=16 price=1.2 ct=spot,on-demand
             pool p \n {}",
            nodes.join("\n")
        );
        check(&fixture, "multi replace n0,n1,n2 -> p types=xl ct=spot saves 1.2");
    }
}

#[test]
fn spec_03_100_a_shorter_list_is_tried_if_the_replacement_has_the_same_type() {
    // Together they would become one node of the same type, which deleting one of them achieves.
    check(
        &format!("{THREE_TYPES} \n pool-node a type=l \n pool-node b type=l \n pod x on=a cpu=3 \n pod y on=b cpu=4"),
        "single delete a saves 0.8",
    );
    // Without the nodes' own type too few types remain for `minValues`.
    let few = format!(
        "{THREE_TYPES} req=\"type Exists min 3\" \n pool-node a type=l \n pool-node b type=l \n pod x on=a cpu=1 \n pod y on=b cpu=1"
    );
    check(&few, "single delete a saves 0.8");
    assert_eq!(block_codes(&few, "b"), ["ReplacementMinValues"]);
    check(&few.replace("min 3", "min 2"), "multi replace a,b -> p types=s,m ct=on-demand saves 1.4");
}

#[test]
fn spec_03_103_policy_when_empty_keeps_nodes_with_pods() {
    let fixture = format!("{THREE_TYPES} policy=WhenEmpty \n pool-node n type=l \n pod x on=n cpu=1");
    check(&fixture, "");
    assert_eq!(
        block_reasons(&fixture, "n"),
        ["ConsolidationPolicy: NodePool \"p\" has consolidation policy WhenEmpty, but node is not empty"]
    );
}

#[test]
fn a_node_without_a_cheaper_replacement_stays() {
    let settled = format!("{THREE_TYPES} \n pool-node n type=s \n pod x on=n cpu=2");
    check(&settled, "");
    assert_eq!(block_reasons(&settled, "n"), ["NoCheaperReplacement: Can't replace with a cheaper node"]);
    let wide = "type s cpu=2 \n type l cpu=8 out=a/on-demand,b/on-demand,c/on-demand \n pool p
                pool-node n type=l \n pod x x4 on=n cpu=2";
    check(wide, "");
    assert_eq!(block_reasons(wide, "n"), ["TooManyReplacements: Can't remove without creating 4 candidates"]);
}

#[test]
fn pools_take_turns_the_most_profitable_first() {
    // The most profitable node of pool p is full. The first node of pool q is tried before the
    // second node of p, although that one saves more.
    check(
        &format!(
            "{THREE_TYPES} \n pool q \n pool-node a1 type=l \n pool-node a2 type=l \n pool-node b1 pool=q type=m
             pod x on=a1 cpu=7 sel=pool:p \n pod y on=a2 cpu=2 sel=pool:p \n pod z on=b1 cpu=2 sel=pool:q"
        ),
        "single replace b1 -> q types=s ct=on-demand saves 0.2
         single replace a2 -> p types=s,m ct=on-demand saves 0.6",
    );
}

#[test]
fn no_pod_is_moved_without_a_saving() {
    let free = "type f cpu=4 price=0 \n pool p \n pool-node a type=f \n pool-node b type=f \n pod x on=a cpu=1 \n pod y on=b cpu=1";
    check(free, "");
    assert_eq!(block_codes(free, "a"), ["NoSaving"]);
}

#[test]
fn an_offering_in_launch_backoff_is_not_used() {
    let fixture = "type s cpu=2 zones=a \n type l cpu=8 zones=a \n pool p \n pool-node n type=l \n pod x on=n cpu=1";
    check(fixture, "single replace n -> p types=s ct=on-demand saves 0.6");
    let waiting = format!("{fixture} \n backoff type=s zone=a ct=on-demand for=1");
    check(&waiting, "");
    assert_eq!(block_codes(&waiting, "n"), ["NoCheaperReplacement"]);
    check(
        &format!("{fixture} \n backoff type=s zone=a ct=on-demand for=0"),
        "single replace n -> p types=s ct=on-demand saves 0.6",
    );
    check(
        &format!("{fixture} \n backoff type=s zone=b ct=on-demand for=9"),
        "single replace n -> p types=s ct=on-demand saves 0.6",
    );
}

#[test]
fn a_type_that_no_command_lists_does_not_matter() {
    let fixture = format!("{THREE_TYPES} \n pool-node n type=l \n pod x on=n cpu=3");
    check(&fixture, "single replace n -> p types=m ct=on-demand saves 0.4");
    let without_s = fixture.replace("type s cpu=2 mem=8Gi \n", "");
    check(&without_s, "single replace n -> p types=m ct=on-demand saves 0.4");
}

/// Karpenter records the pools that it did not evaluate before its timeout. Kerf has no timeout:
/// every pass evaluates every candidate.
#[test]
fn spec_03_104_every_pass_evaluates_every_candidate_of_every_pool() {
    let mut cluster = String::from(THREE_TYPES);
    for i in 0..30 {
        writeln!(cluster, "\npool p{i} \npool-node a{i} pool=p{i} type=s \npool-node b{i} pool=p{i} type=l").unwrap();
        writeln!(cluster, "pod x{i} on=a{i} cpu=2 sel=pool:p{i} \npod y{i} on=b{i} cpu=8 sel=pool:p{i}").unwrap();
    }
    let fixture = Fixture::new(&cluster);
    let settings = fixture.disruption_settings(Passes::First);
    let run_pass = || {
        let mut reports = Vec::new();
        let plan = next_commands(&fixture.input, &settings, MethodFilter::ALL, |method| {
            reports.push((method.method, method.eligible));
        });
        (plan, reports)
    };
    let (plan, reports) = run_pass();
    assert!(plan.commands.is_empty(), "{}", commands_text(&plan));
    assert!(reports.contains(&(Method::SingleNode, 60)) && reports.contains(&(Method::MultiNode, 60)), "{reports:?}");
    assert_eq!((plan.stats.candidates, plan.stats.candidates_evaluated), (60, 60));
    assert_eq!(plan.blocked.len(), 60, "every node has a block reason");
    let (again, _) = run_pass();
    assert_eq!(again.blocked, plan.blocked, "a pass does not depend on earlier passes");
}

/// The longest list of nodes that can be removed together does not always save most.
#[test]
fn the_list_of_nodes_that_saves_most_is_chosen() {
    let fixture = "type s cpu=2 price=0.2 \n type m cpu=3 price=0.9 \n type x cpu=32 price=1.5 \n pool p
        pool-node a type=m \n pool-node b type=m \n pool-node c type=s \n pool-node d type=s
        pod a1 on=a cpu=1 \n pod b1 on=b cpu=1 \n pod c1 on=c cpu=2 \n pod d1 on=d cpu=2";
    check(fixture, "multi replace a,b -> p types=s ct=on-demand saves 1.6");
}

/// A replacement that is offered on-demand only is not requested as spot.
#[test]
fn a_replacement_without_a_spot_offering_is_launched_on_demand() {
    let fixture = "type m cpu=4 price=0.3 ct=on-demand \n type l cpu=8 price=0.9 ct=on-demand,spot \n pool p
        pool-node n type=l ct=on-demand \n pod x on=n cpu=3";
    check(fixture, "single replace n -> p types=m ct=on-demand saves 0.6");
}

// spec 04 #36, #37: huge pages are subtracted from memory, and overrides replace single resources
#[test]
fn a_planned_node_has_the_resources_that_the_solver_counted_on() {
    let fixture = Fixture::new(
        "type old cpu=8 mem=32Gi price=0.9 \n type new cpu=4 mem=16Gi res=hugepages-2Mi:2Gi overhead=cpu:1,memory:1Gi
         offer new price=0.2 capacity=pods:58 overhead=cpu:2
         pool p \n pool-node n type=old \n pod x on=n cpu=2",
    );
    let plan = fixture.disrupt();
    assert_eq!(commands_text(&plan), "single replace n -> p types=new ct=on-demand saves 0.7\n");
    let after = with_commands_done(fixture.input.clone(), &plan.commands);
    let (node, claim) = (&after.nodes[0], &after.node_claims[0]);
    let text = |list: &ResourceList| {
        list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<String>>().join(" ")
    };
    assert_eq!(text(&node.status.capacity), "cpu=4 hugepages-2Mi=2Gi memory=16Gi pods=58");
    assert_eq!(text(&node.status.allocatable), "cpu=2 hugepages-2Mi=2Gi memory=13Gi pods=58");
    assert_eq!((&claim.capacity, &claim.allocatable), (&node.status.capacity, &node.status.allocatable));
}
