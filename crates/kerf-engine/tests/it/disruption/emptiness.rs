//! Tests of emptiness: nodes without reschedulable pods (spec 03 §8.1).

use super::{THREE_TYPES, block_codes, block_reasons, check};

#[test]
fn spec_03_76_a_node_with_only_daemons_and_ending_pods_is_empty() {
    let with = |pods: &str| format!("{THREE_TYPES} \n pool-node n type=m \n {pods}");
    let deletes_n = "empty delete n saves 0.4";
    check(&with(""), deletes_n);
    check(
        &with("pod d on=n owner=DaemonSet/d \n pod m on=n owner=Node/n \n pod t on=n terminating owner=ReplicaSet/w"),
        deletes_n,
    );
    check(&with("pod f on=n phase=Failed \n pod s on=n phase=Succeeded"), deletes_n);
    // A pod whose eviction costs nothing does not count either.
    check(&with("pod x on=n cost=-2000000000"), deletes_n);
    check(&with("pod s on=n cpu=3 terminating owner=StatefulSet/s"), "");
}

#[test]
fn spec_03_77_all_empty_nodes_within_budgets_are_deleted_in_one_command() {
    let ten: Vec<String> = (0..10).map(|i| format!("pool-node n{i} type=s")).collect();
    check(&format!("{THREE_TYPES} budget=30% \n {}", ten.join("\n")), "empty delete n0,n1,n2 saves 0.6");
    let pools: Vec<String> = (0..10)
        .map(|p| {
            let nodes: Vec<String> = (0..3).map(|n| format!("pool-node p{p}n{n} pool=q{p} type=s")).collect();
            format!("pool q{p} budget=50% \n {}", nodes.join("\n"))
        })
        .collect();
    let fixture = crate::fixture::Fixture::new(&format!("type s cpu=2 \n {}", pools.join("\n")));
    let plan = fixture.disrupt();
    assert_eq!(plan.commands.len(), 1);
    assert_eq!(plan.commands[0].nodes.len(), 20);
}

#[test]
fn spec_03_78_a_node_kept_for_a_buffer_stays() {
    let fixture = format!("{THREE_TYPES} \n pool-node n type=m buffer=1 \n pool-node m type=m buffer=0");
    check(&fixture, "empty delete m saves 0.4");
    assert_eq!(block_reasons(&fixture, "n"), ["BufferPods: Node \"n\" has buffer pods"]);
}

#[test]
fn spec_03_80_a_blocking_budget_is_reported_for_all_methods() {
    let fixture = format!("{THREE_TYPES} budget=0 \n pool-node e type=m \n pool-node n type=m \n pod x on=n");
    check(&fixture, "");
    assert_eq!(
        (block_codes(&fixture, "e"), block_codes(&fixture, "n")),
        (vec!["DisruptionBudget".into()], vec!["DisruptionBudget".into()])
    );
}

#[test]
fn spec_03_81_every_policy_deletes_empty_nodes() {
    for policy in ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] {
        check(&format!("{THREE_TYPES} policy={policy} \n pool-node n type=m"), "empty delete n saves 0.4");
    }
    let never = format!("{THREE_TYPES} after=Never \n pool-node n type=m");
    check(&never, "");
    assert_eq!(block_reasons(&never, "n"), ["ConsolidationDisabled: NodePool \"p\" has consolidation disabled"]);
    let early = format!("{THREE_TYPES} after=1m \n pool-node n type=m event=59");
    assert_eq!(block_codes(&early, "n"), ["ConsolidateAfter"]);
}

#[test]
fn spec_03_58_emptiness_is_tried_before_drift() {
    check(&format!("{THREE_TYPES} \n pool-node n type=m provider-drift=AMIDrift"), "empty delete n saves 0.4");
}

#[test]
fn the_most_expensive_empty_nodes_are_deleted_first() {
    check(
        &format!("{THREE_TYPES} budget=2 \n pool-node a type=s \n pool-node b type=l \n pool-node c type=m"),
        "empty delete b,c saves 1.2",
    );
}
