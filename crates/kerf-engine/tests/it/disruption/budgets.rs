//! Tests of NodePool disruption budgets (spec 03 §6).

use kerf_api::nodepool::DisruptionReason;

use super::{THREE_TYPES, block_codes, block_reasons, check, commands_text, warnings_text};
use crate::fixture::Fixture;

/// A pool with budgets and `count` empty nodes, followed by the lines of `more`.
fn empty_nodes(count: usize, budgets: &str, more: &str) -> String {
    let nodes: Vec<String> = (0..count).map(|i| format!("pool-node n{i:02} type=s")).collect();
    format!("{THREE_TYPES} {budgets} \n {} \n {more}", nodes.join("\n"))
}

fn removed_node_count(fixture: &str) -> usize {
    Fixture::new(fixture).disrupt().commands.iter().map(|c| c.nodes.len()).sum()
}

#[test]
fn spec_03_43_percentages_are_rounded_up() {
    for (nodes, budget, expected) in
        [(10, "30%", 3), (3, "50%", 2), (10, "5%", 1), (19, "20%", 4), (10, "0%", 0), (10, "4", 4), (3, "100%", 3)]
    {
        assert_eq!(
            removed_node_count(&empty_nodes(nodes, &format!("budget={budget}"), "")),
            expected,
            "{budget} of {nodes}"
        );
    }
}

#[test]
fn spec_03_44_to_46_deleting_and_unready_nodes_count_against_the_budget() {
    let two_nodes = |state: &str| format!("pool-node x1 type=s {state} \n pool-node x2 type=s {state}");
    assert_eq!(removed_node_count(&empty_nodes(8, "budget=100%", &two_nodes("notready protect=true"))), 8);
    assert_eq!(removed_node_count(&empty_nodes(8, "budget=100%", &two_nodes("deleting"))), 8);
    assert_eq!(removed_node_count(&empty_nodes(8, "budget=5", &two_nodes("deleting"))), 3);
    assert_eq!(removed_node_count(&empty_nodes(8, "budget=5", &two_nodes("marked"))), 3);
    // 45
    for uncounted in ["uninitialized notready", "deleting terminating", "unmanaged notready"] {
        assert_eq!(removed_node_count(&empty_nodes(10, "budget=10", &two_nodes(uncounted))), 10, "{uncounted}");
        assert_eq!(removed_node_count(&empty_nodes(10, "budget=50%", &two_nodes(uncounted))), 5, "{uncounted}");
    }
    // 46
    let deleting_nodes: Vec<String> = (0..10).map(|i| format!("pool-node n{i} type=s deleting")).collect();
    assert_eq!(removed_node_count(&format!("{THREE_TYPES} budget=10% \n {}", deleting_nodes.join("\n"))), 0);
}

fn allowed(pool: &str) -> Vec<u32> {
    let fixture = Fixture::new(&format!("{THREE_TYPES} {pool}"));
    let uses = fixture.disrupt().stats.budgets;
    [DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized]
        .iter()
        .map(|reason| uses.iter().find(|u| u.reason == *reason).unwrap().allowed)
        .collect()
}

const UNBOUNDED: u32 = i32::MAX as u32;

#[test]
fn spec_03_47_and_48_the_smallest_budget_for_the_reason_counts() {
    assert_eq!(allowed("budget=10 budget=5;Drifted budget=4;Empty"), [4, 5, 10]);
    assert_eq!(allowed(""), [UNBOUNDED; 3]);
    assert_eq!(allowed("budget=4;Empty"), [4, UNBOUNDED, UNBOUNDED]);
}

#[test]
fn spec_03_49_an_invalid_budget_blocks_all_disruption_of_its_pool() {
    for schedule in ["@wrongly", "0 0 * * tue-mon", "0 19-8 * * *"] {
        let pool = format!("budget=10 budget=\"5;Drifted;{schedule};30m\"");
        assert_eq!(allowed(&pool), [0; 3], "{schedule}");
        let warnings = warnings_text(&format!("{THREE_TYPES} {pool}"));
        assert!(
            warnings[0].starts_with("InvalidDisruptionBudget NodePool p: invalid disruption budgets in nodepool p, "),
            "{warnings:?}"
        );
    }
}

/// The fixture's time is Friday, 15 January 2027, 08:00 UTC.
#[test]
fn spec_03_50_to_52_budgets_apply_in_their_windows() {
    let is_active = |schedule: &str, duration: &str| allowed(&format!("budget=\"2;;{schedule};{duration}\""))[0] == 2;
    assert!(is_active("@daily", "8h1m"));
    assert!(!is_active("@daily", "8h"));
    assert!(is_active("@daily", "48h"));
    assert!(is_active("0 8 * * *", "1m"));
    assert!(!is_active("1 8 * * *", "23h"));
    assert!(is_active("@yearly", "400h"));
    assert!(!is_active("@yearly", "24h"));
    assert!(is_active("30 7 * * FRI", "31m"));
    assert!(!is_active("30 7 * * FRI", "30m"));
    // A schedule that never occurs makes the budget permanent.
    assert!(is_active("0 0 30 2 *", "1m"));
}

#[test]
fn spec_03_54_a_blocking_budget_is_the_reason_of_the_node() {
    let fixture = empty_nodes(2, "budget=0", "");
    check(&fixture, "");
    assert_eq!(
        block_reasons(&fixture, "n00"),
        ["DisruptionBudget: No allowed disruptions for disruption reason Empty due to blocking budget"]
    );
    let full = format!(
        "{THREE_TYPES} budget=0;Underutilized \n pool-node n type=m \n pool-node m type=m \n pod x on=n \n pod y on=m"
    );
    check(&full, "");
    assert_eq!(
        block_reasons(&full, "n"),
        ["DisruptionBudget: No allowed disruptions for disruption reason Underutilized due to blocking budget"]
    );
}

#[test]
fn spec_03_55_budgets_are_checked_before_the_balanced_score() {
    let fixture = format!(
        "{THREE_TYPES} policy=Balanced budget=0% \n pool-node n type=m \n pool-node m type=m \n pod x on=n \n pod y on=m"
    );
    check(&fixture, "");
    assert_eq!(block_codes(&fixture, "n"), ["DisruptionBudget"]);
}

#[test]
fn one_budget_limits_the_whole_plan_over_all_reasons() {
    // Two drifted, two empty and two underutilized nodes: three may be removed in total, in the
    // order of the methods.
    let fixture = Fixture::new(&format!(
        "{THREE_TYPES} budget=3 \n pool-node e1 type=s \n pool-node e2 type=s
         pool-node d1 type=s provider-drift=AMIDrift drifted=60 \n pool-node d2 type=s provider-drift=AMIDrift drifted=90
         pool-node u1 type=m \n pool-node u2 type=m \n pod a on=d1 \n pod b on=d2 \n pod c on=u1 cpu=1 \n pod d on=u2 cpu=1"
    ));
    let plan = fixture.disrupt();
    assert_eq!(commands_text(&plan), "empty delete e1,e2 saves 0.4\ndrift delete d2 saves 0.2\n");
    let used = &plan.stats.budgets[0];
    assert_eq!((used.allowed, used.disrupting, used.planned), (3, 0, 3));
}
