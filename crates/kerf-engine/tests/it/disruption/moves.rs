//! Tests of moves, which Karpenter does not have: nodes are replaced by two or three cheaper ones.

use std::fmt::Write as _;
use std::sync::Arc;

use kerf_engine::{Passes, disrupt, validate};
use proptest::prelude::*;

use super::{assert_plan_invariants, block_codes, check, commands_text};
use crate::fixture::Fixture;

/// A large node with `pods` pods of 2 CPUs, while only small instances are available.
fn large_node(pods: usize, small_price: &str, more: &str) -> String {
    format!(
        "settings {more} \n type s cpu=2 price={small_price} \n type l cpu=8 price=0.8 out=a/on-demand,b/on-demand,c/on-demand
         pool p \n pool-node n type=l \n pod x x{pods} on=n cpu=2"
    )
}

#[test]
fn a_node_is_replaced_by_two_or_three_cheaper_nodes() {
    let fixture = large_node(2, "0.2", "moves");
    check(&fixture, "move replace n -> p types=s ct=on-demand -> p types=s ct=on-demand saves 0.4");
    check(
        &large_node(3, "0.2", "moves"),
        &format!("move replace n {} saves 0.2", "-> p types=s ct=on-demand ".repeat(3).trim()),
    );
    // Without the setting `moves` only Karpenter's methods are used.
    check(&large_node(2, "0.2", ""), "");
    assert_eq!(block_codes(&large_node(2, "0.2", ""), "n"), ["TooManyReplacements"]);
}

#[test]
fn a_move_must_save_a_twentieth_with_at_most_three_replacements() {
    check(
        &large_node(2, "0.379", "moves"),
        "move replace n -> p types=s ct=on-demand -> p types=s ct=on-demand saves 0.042",
    );
    check(&large_node(2, "0.38", "moves"), "");
    check(&large_node(4, "0.1", "moves"), "");
}

#[test]
fn moves_are_tried_after_all_other_methods() {
    let fixture = "settings moves \n type m cpu=4 price=0.3 \n type l cpu=8 price=0.8 out=a/on-demand,b/on-demand,c/on-demand \n pool p
        pool-node a type=l \n pool-node b type=l \n pool-node c type=l
        pod x on=a cpu=3 \n pod y on=b cpu=3 \n pod z on=c cpu=3";
    check(
        fixture,
        "multi replace a,b -> p types=m ct=on-demand saves 1.3
         move replace c -> p types=m ct=on-demand -> p types=m ct=on-demand saves 0.2",
    );
}

#[test]
fn a_move_respects_budgets_and_spot_rules() {
    check(&large_node(2, "0.2", "moves").replace("pool p", "pool p budget=0"), "");
    let spot = |settings: &str| {
        format!(
            "settings {settings} \n type s cpu=2 price=0.2 ct=spot \n type l cpu=8 price=0.8 ct=spot out=a/spot,b/spot,c/spot
             pool p \n pool-node n type=l ct=spot \n pod x x2 on=n cpu=2"
        )
    };
    // Without the feature gate spot is not replaced by spot. With it, one node needs fifteen
    // cheaper types.
    check(&spot("moves"), "");
    check(&spot("moves spot-to-spot"), "");
    let on_demand = spot("moves")
        .replace("type=l ct=spot", "type=l ct=on-demand")
        .replace("ct=spot out=", "ct=spot,on-demand out=a/on-demand,b/on-demand,c/on-demand,");
    check(&on_demand, "move replace n -> p types=s ct=spot -> p types=s ct=spot saves 0.4");
    // First fit finds one node for both pods. Two nodes are cheaper, which only a search finds.
    let searched =
        "settings moves search \n type s cpu=2 price=0.2 \n type m cpu=4 price=0.8 \n type l cpu=8 price=0.8 \n pool p
        pool-node n type=l \n pod x x2 on=n cpu=2";
    check(searched, "move replace n -> p types=s ct=on-demand -> p types=s ct=on-demand saves 0.4");
}

#[test]
fn a_move_is_validated_like_any_other_command() {
    let fixture = Fixture::new(&large_node(2, "0.2", "moves"));
    let settings = fixture.disruption_settings(Passes::First);
    let plan = disrupt(&fixture.input, &settings);
    let command = &plan.commands[0];
    assert!(validate(&fixture.input, &settings, command).is_ok());
    let mut more = fixture.input.clone();
    let mut pod = more.pods[0].clone();
    Arc::make_mut(&mut pod).metadata.name = "late".into();
    more.pods.push(pod);
    assert_eq!(validate(&more, &settings, command).unwrap_err().category(), "scheduling");
}

/// Generates a few nodes of every size with random pods.
fn cluster() -> impl Strategy<Value = String> {
    prop::collection::vec((0..3_usize, prop::collection::vec(1..30_u32, 1..4)), 1..8).prop_map(|nodes| {
        let mut fixture = String::from(
            "settings moves search \n type s cpu=2 mem=8Gi price=0.19 \n type m cpu=4 mem=16Gi price=0.4 \n \
             type l cpu=8 mem=32Gi price=0.85 \n pool p \n",
        );
        for (i, (size, pods)) in nodes.iter().enumerate() {
            let (name, tenths_of_node) = [("s", 20), ("m", 40), ("l", 80)][*size];
            writeln!(fixture, "pool-node n{i} type={name}").unwrap();
            let mut tenths_left = tenths_of_node;
            for (j, tenths) in pods.iter().enumerate().filter(|(_, tenths)| **tenths <= tenths_of_node) {
                if *tenths <= tenths_left {
                    tenths_left -= tenths;
                    writeln!(fixture, "pod x{i}-{j} on=n{i} cpu={}m", tenths * 100).unwrap();
                }
            }
        }
        fixture
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks the invariants of a plan, and that a plan with moves saves at least as much as one
    /// without.
    #[test]
    fn plans_with_moves_keep_the_invariants(text in cluster()) {
        let fixture = Fixture::new(&text);
        let plan = fixture.disrupt();
        assert_plan_invariants(&fixture, &plan);
        let without = Fixture { allows_moves: false, ..fixture.clone() }.disrupt();
        prop_assert!(plan.price_after <= without.price_after, "{}\nagainst\n{}", commands_text(&plan), commands_text(&without));
    }
}

#[test]
fn nodes_are_replaced_by_fewer_of_the_same_type() {
    // Without its small pods each node would fit one more large pod.
    let node = |n| format!("pool-node n{n} type=l \n pod big{n} x2 on=n{n} cpu=2 \n pod small{n} x3 on=n{n} cpu=100m");
    let nodes = [1, 2, 3, 4].map(node).join("\n");
    let fixture = format!("settings moves search \n type l cpu=6 price=0.6 \n pool p \n {nodes}");
    check(&fixture, "move replace n1,n2,n3 -> p types=l ct=on-demand -> p types=l ct=on-demand saves 0.6");
}
