//! Tests of the consolidation policy `Balanced` (spec 03 §8.8).

use kerf_engine::{BalancedScore, DisruptionPlan, Method, MethodFilter, Passes, next_commands};

use super::{block_reasons, check};
use crate::fixture::Fixture;

/// Returns the plan of one pass.
fn next_plan(text: &str) -> DisruptionPlan {
    let fixture = Fixture::new(text);
    next_commands(&fixture.input, &fixture.disruption_settings(Passes::First), MethodFilter::ALL, |_| ())
}

/// Returns a score as `pool score saving% disruption%`.
fn score_text(score: &BalancedScore) -> String {
    let BalancedScore { pool, score, saved_share, disruption_share, .. } = score;
    format!("{pool} {score:.2} {:.0}% {:.0}%", saved_share * 100.0, disruption_share * 100.0)
}

/// A pool of ten nodes with eight pods each, so that each has a disruption cost of 9 and all
/// together 90. The node `n` costs `price`, each other node costs `others`.
fn pool(price: &str, others: &str, policy: &str) -> String {
    let mut text = format!(
        "type t cpu=4 price={price} pods=110 \n type o cpu=4 price={others} pods=110 \n pool p policy={policy} \n"
    );
    text.push_str("pool-node n type=t \n pod x x8 on=n \n pool-node spare type=o protect=true \n pod y x8 on=spare \n");
    let others = (0..8).map(|i| format!("pool-node o{i} type=o protect=true \n pod z{i} x8 on=o{i} cpu=500m \n"));
    text.extend(others);
    text
}

#[test]
fn spec_03_106_a_command_must_save_half_the_share_that_it_disrupts() {
    // Saves 2.42 of 58.08 at a disruption cost of 9 of 90: score 0.4167.
    let rejected = pool("2.42", "6.18444444", "Balanced");
    check(&rejected, "");
    assert_eq!(
        block_reasons(&rejected, "n"),
        ["BalancedScore: Score 0.42 < threshold 0.50 of consolidation policy Balanced"]
    );
    check(&pool("2.42", "6.18444444", "WhenEmptyOrUnderutilized"), "single delete n saves 2.42");
    // Saves 2.42 of 48.40: score exactly 0.5.
    let others = "5.10888888";
    let approved = pool("2.42", others, "Balanced").replace("pool-node spare type=o", "pool-node spare type=r")
        + "type r cpu=4 price=5.10888896 pods=110";
    check(&approved, "single delete n saves 2.42");
}

#[test]
fn spec_03_107_the_only_node_of_a_pool_scores_one() {
    check(
        "type t cpu=4 \n pool p policy=Balanced \n pool-node n type=t \n pod x on=n cpu=1
         pool q after=Never \n pool-node spare pool=q type=t",
        "single delete n saves 0.4",
    );
}

#[test]
fn spec_03_109_only_balanced_pools_of_a_command_are_scored() {
    // The command has one node of each pool. The balanced pool has a second, expensive node, so the
    // saving is a small share of its price.
    let fixture = |policy: &str| {
        format!(
            "type l cpu=8 price=1 \n type xl cpu=16 price=1.5 \n pool p \n pool q policy={policy} \n pool-node n type=l \n pool-node m pool=q type=l
             pod x on=n cpu=5 \n pod y on=m cpu=5 \n type huge cpu=64 price=40 \n pool-node h pool=q type=huge protect=true \n pod z on=h cpu=64"
        )
    };
    check(&fixture("WhenEmptyOrUnderutilized"), "multi replace m,n -> q types=xl ct=on-demand saves 0.5");
    check(&fixture("Balanced"), "");
}

// spec 03 §8.8
#[test]
fn commands_and_rejected_commands_carry_scores() {
    let fixture = |small: &str, policy: &str| {
        format!(
            "type l cpu=8 price=1 \n type s cpu=4 price={small} \n pool p policy={policy} \n pool-node n type=l \n pod x on=n cpu=3"
        )
    };
    let approved = next_plan(&fixture("0.4", "Balanced"));
    assert_eq!((approved.commands.len(), approved.rejected_commands.len()), (1, 0));
    assert_eq!(approved.commands[0].scores.iter().map(score_text).collect::<Vec<_>>(), ["p 0.60 60% 100%"]);
    assert_eq!(approved.commands[0].pools(), ["p"]);
    let rejected = next_plan(&fixture("0.9", "Balanced"));
    assert_eq!((rejected.commands.len(), rejected.rejected_commands.len()), (0, 1));
    let command = &rejected.rejected_commands[0];
    assert_eq!((command.method, command.nodes, command.decision), (Method::SingleNode, 1, "replace"));
    assert_eq!(command.scores.iter().map(score_text).collect::<Vec<_>>(), ["p 0.10 10% 100%"]);
    assert_eq!(command.pools, ["p"]);
    let unscored = next_plan(&fixture("0.9", "WhenEmptyOrUnderutilized"));
    assert_eq!((unscored.commands[0].scores.len(), unscored.rejected_commands.len()), (0, 0));
}

// spec 03 §8.8: of rejected batches the last is reported, and only if no command was found
#[test]
fn the_last_rejected_batch_is_reported() {
    let fixture = |price: &str| {
        format!(
            "type l cpu=8 price=1 \n type xl cpu=16 price={price} \n pool p policy=Balanced \n pool-node n type=l \n pool-node m type=l
             pod x on=n cpu=5 \n pod y on=m cpu=5"
        )
    };
    let rejected = next_plan(&fixture("1.9"));
    let multi: Vec<_> =
        rejected.rejected_commands.iter().filter(|command| command.method == Method::MultiNode).collect();
    assert_eq!((multi.len(), multi[0].nodes, rejected.commands.len()), (1, 2, 0));
    assert_eq!(multi[0].scores.iter().map(score_text).collect::<Vec<_>>(), ["p 0.05 5% 100%"]);
    let approved = next_plan(&fixture("0.5"));
    assert_eq!((approved.commands[0].method, approved.rejected_commands.len()), (Method::MultiNode, 0));
    assert_eq!(approved.commands[0].scores.iter().map(score_text).collect::<Vec<_>>(), ["p 0.75 75% 100%"]);
}
