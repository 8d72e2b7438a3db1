//! Tests of drift: nodes that no longer match their pool (spec 03 §8.2 and §8.3).

use super::{THREE_TYPES, block_codes, block_reasons, check};
use crate::fixture::Fixture;

const DRIFTED: &str = "provider-drift=AMIDrift";

#[test]
fn spec_03_82_empty_nodes_are_removed_first_then_the_longest_drifted() {
    let fixture = format!(
        "{THREE_TYPES} after=Never \n pool-node late type=s {DRIFTED} drifted=10 \n pool-node early type=s {DRIFTED} drifted=90
         pool-node empty type=s {DRIFTED} drifted=5 \n pod x on=late cpu=2 \n pod y on=early cpu=2"
    );
    check(
        &fixture,
        "drift delete empty saves 0.2
         drift replace early -> p types=s,m,l ct=on-demand saves 0
         drift replace late -> p types=s,m,l ct=on-demand saves 0",
    );
    assert_eq!(super::first_commands_text(&fixture), "drift delete empty saves 0.2\n");
}

#[test]
fn spec_03_83_a_node_whose_pods_fit_nowhere_is_skipped() {
    let fixture = format!(
        "{THREE_TYPES} after=Never \n pool-node stuck type=m {DRIFTED} drifted=90 label=only:here \n pool-node n type=m {DRIFTED} drifted=10
         pod x on=stuck cpu=1 sel=only:here \n pod y on=n cpu=1"
    );
    check(&fixture, "drift delete n saves 0.4");
    let reasons = block_reasons(&fixture, "stuck");
    assert!(reasons[1].starts_with("PodsUnschedulable: Not all pods would schedule, default/x => "), "{reasons:?}");
}

// Beyond spec 03 §8.3 (§16 item 20): a pod that moves to a drifted node has to move again.
#[test]
fn pods_are_not_moved_to_other_drifted_nodes() {
    let fixture = |more: &str| {
        format!(
            "{THREE_TYPES} after=Never {more} \n pool-node a type=m {DRIFTED} drifted=90 \n pool-node b type=m {DRIFTED} drifted=10
             pod x on=a cpu=1 \n pod y on=b cpu=1"
        )
    };
    let both = "drift replace a -> p types=s,m,l ct=on-demand saves 0.2
                drift replace b -> p types=s,m,l ct=on-demand saves 0.2";
    check(&fixture(""), both);
    // A node that has not drifted is as good as a new one.
    check(
        &format!("{} \n pool-node c type=s \n pod z on=c cpu=1", fixture("")),
        "drift delete a saves 0.4 \n drift replace b -> p types=s,m,l ct=on-demand saves 0.2",
    );
    // Moving twice is better than staying on a drifted node.
    check(
        &fixture("limit=nodes:1"),
        "drift delete a saves 0.4 \n drift replace b -> p types=s,m,l ct=on-demand saves 0.2",
    );
}

#[test]
fn spec_03_84_all_nodes_that_the_pods_need_are_launched() {
    let fixture = "type s cpu=2 \n type xl cpu=6 out=a/on-demand,b/on-demand,c/on-demand \n pool p after=Never
                 pool-node n type=xl provider-drift=AMIDrift \n pod x x3 on=n cpu=2";
    check(
        fixture,
        "drift replace n -> p types=s ct=on-demand -> p types=s ct=on-demand -> p types=s ct=on-demand saves 0",
    );
}

#[test]
fn spec_03_85_a_drifted_empty_node_is_removed_with_consolidation_disabled() {
    check(&format!("{THREE_TYPES} after=Never \n pool-node n type=m {DRIFTED}"), "drift delete n saves 0.4");
}

#[test]
fn spec_03_86_no_node_is_launched_for_a_pod_that_cannot_be_evicted() {
    let fixture =
        format!("{THREE_TYPES} after=Never \n pool-node n type=m {DRIFTED} grace=1h \n pod x on=n cpu=4 labels=app:x");
    check(&format!("{fixture} \n pdb b sel=app=x max=0 allowed=0"), "drift delete n saves 0.4");
    // A pod that may be evicted later gets a replacement node.
    check(
        &format!("{fixture} \n pdb b sel=app=x max=1 allowed=0"),
        "drift replace n -> p types=m,l ct=on-demand saves 0",
    );
}

#[test]
fn spec_03_87_five_drifted_nodes_under_a_budget_of_three() {
    let nodes: Vec<String> =
        (0..5).map(|i| format!("pool-node n{i} type=s {DRIFTED} drifted=60 \n pod x{i} on=n{i} cpu=2")).collect();
    let fixture = Fixture::new(&format!("{THREE_TYPES} after=Never budget=3 \n {}", nodes.join("\n")));
    let plan = fixture.disrupt();
    let removed: Vec<&str> = plan.commands.iter().map(|c| c.nodes[0].name.as_str()).collect();
    assert_eq!(removed, ["n0", "n1", "n2"]);
    // The commands are independent, so one pass finds them all and the second pass none.
    assert_eq!(plan.stats.passes, 2);
}

fn static_pool(replicas: usize, count: usize, more: &str) -> String {
    let nodes: Vec<String> =
        (0..count).map(|i| format!("pool-node n{i} type=s {DRIFTED} drifted={}", 60 + i)).collect();
    format!("{THREE_TYPES} static replicas={replicas} {more} \n {}", nodes.join("\n"))
}

fn static_drift_count(fixture: &str) -> usize {
    super::first_commands_text(fixture).lines().filter(|line| line.starts_with("static-drift replace")).count()
}

#[test]
fn spec_03_88_a_static_pool_replaces_as_many_nodes_as_its_limit_allows() {
    assert_eq!(static_drift_count(&static_pool(5, 5, "limit=nodes:5")), 0);
    assert_eq!(block_codes(&static_pool(5, 5, "limit=nodes:5"), "n0"), ["StaticNodePool", "NodeLimit"]);
    assert_eq!(static_drift_count(&static_pool(5, 5, "limit=nodes:7")), 2);
    assert_eq!(static_drift_count(&static_pool(5, 5, "limit=nodes:6")), 1);
    assert_eq!(static_drift_count(&static_pool(5, 5, "")), 5);
    assert_eq!(static_drift_count(&static_pool(5, 5, "budget=3")), 3);
    // The node that drifted first is replaced first, whatever its name.
    assert!(
        super::first_commands_text(&static_pool(5, 5, "limit=nodes:6")).starts_with("static-drift replace n4 -> p ")
    );
}

#[test]
fn spec_03_89_a_static_pool_shrinks_before_it_replaces() {
    assert_eq!(static_drift_count(&static_pool(4, 5, "")), 0);
    assert_eq!(static_drift_count(&static_pool(0, 5, "")), 0);
    assert_eq!(block_codes(&static_pool(4, 5, ""), "n0"), ["StaticNodePool", "ScaleDownFirst"]);
}

#[test]
fn spec_03_21_and_90_nodes_of_static_pools_are_neither_emptied_nor_consolidated() {
    let empty =
        format!("{THREE_TYPES} static replicas=2 \n pool-node n type=l \n pool-node m type=l \n pod x on=n cpu=1");
    check(&empty, "");
    assert_eq!(block_codes(&empty, "m"), ["StaticNodePool"]);
    assert_eq!(block_codes(&empty, "n"), ["StaticNodePool"]);
    let fixture = Fixture::new(&static_pool(2, 2, ""));
    let methods: Vec<_> = fixture.disrupt().commands.iter().map(|c| c.method).collect();
    assert_eq!(methods, [kerf_engine::Method::StaticDrift; 2]);
}

#[test]
fn drift_of_a_pool_with_failed_replacements_waits() {
    let fixture = |backoff: &str| {
        format!(
            "{THREE_TYPES} after=Never {backoff} \n pool-node n type=s {DRIFTED} \n pod x on=n cpu=2
                 pool q after=Never \n pool-node m pool=q type=s {DRIFTED} \n pod y on=m cpu=2"
        )
    };
    let removed = |fixture: &str| {
        let plan = Fixture::new(fixture).disrupt();
        plan.commands.iter().map(|c| c.nodes[0].name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(removed(&fixture("")), ["m", "n"]);
    assert_eq!(removed(&fixture("backoff=1")), ["m"]);
    assert_eq!(removed(&fixture("backoff=0")), ["m", "n"]);
    assert_eq!(block_codes(&fixture("backoff=1"), "n")[1], "DriftBackoff");
}

/// The replacement of a drifted node could at once be merged with another node. Drift and
/// consolidation cannot be one command, so the replacement stays for now, and the plan reports that
/// it could be removed later.
#[test]
fn a_plan_does_not_remove_nodes_that_it_launches() {
    let fixture = "type s cpu=2 price=0.2 \n type m cpu=4 price=0.35 \n type l cpu=8 price=0.8 \n pool p
        pool-node d type=l provider-drift=AMIDrift drifted=60 \n pool-node b type=s \n pod x on=d cpu=1 \n pod y on=b cpu=1500m";
    check(fixture, "drift replace d -> p types=s,m,l ct=on-demand saves 0.6");
    assert_eq!(
        block_reasons(fixture, "p-replacement-1"),
        ["LaunchedByPlan: A command of this plan launches the node, a later plan could remove it"]
    );
}

fn drifted_nodes(count: usize, pool: &str, more: &str) -> String {
    let node = |i: usize| format!("pool-node n{i:03} type=s {DRIFTED} {more} \n pod x{i:03} on=n{i:03} cpu=2");
    format!("{THREE_TYPES} after=Never {pool} \n {}", (0..count).map(node).collect::<Vec<_>>().join("\n"))
}

// spec 04 §15, item 23
#[test]
fn at_most_a_quarter_of_a_pool_is_replaced_for_drift_at_once() {
    let replaced = |text: &str| {
        let plan = Fixture::new(text).disrupt();
        let surge = plan.blocked.iter().filter(|b| b.reasons.iter().any(|r| r.code() == "DriftSurge")).count();
        (plan.commands.len(), surge)
    };
    assert_eq!(replaced(&drifted_nodes(60, "budget=100%", "")), (15, 45));
    assert_eq!(replaced(&drifted_nodes(41, "budget=100%", "")), (11, 30), "rounded up");
    assert_eq!(replaced(&drifted_nodes(20, "budget=100%", "")), (10, 10), "always ten");
    assert_eq!(replaced(&drifted_nodes(20, "budget=5", "")), (5, 0), "within budgets");
    // Replacements that are being launched count.
    let in_flight = "pool-node f type=s provider-drift=AMIDrift disrupting \n pool-node g type=s disrupting
                     pod f on=f cpu=2 \n pod g on=g cpu=2";
    assert_eq!(replaced(&format!("{} \n {in_flight}", drifted_nodes(20, "budget=100%", ""))), (9, 11));
    // Nodes that are being deleted do not count: their replacements count in their place.
    let deleting: Vec<String> = (0..20).map(|i| format!("pool-node g{i} type=s deleting")).collect();
    let text = format!("{} \n {}", drifted_nodes(60, "budget=100%", ""), deleting.join("\n"));
    assert_eq!(replaced(&text), (15, 45));
    // A node that is not replaced needs no limit.
    let empty: Vec<String> = (0..40).map(|i| format!("pool-node e{i} type=s {DRIFTED}")).collect();
    let text = format!("{THREE_TYPES} after=Never budget=100% \n {}", empty.join("\n"));
    assert_eq!(replaced(&text), (40, 0));
}
