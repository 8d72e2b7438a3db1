//! Tests of the price limit of replacements, spot, reservations and `minValues` (spec 03 §8.5 and
//! §8.6).

use kerf_engine::with_commands_done;

use super::{block_reasons, check, commands_text};
use crate::fixture::Fixture;

#[test]
fn spec_03_93_even_the_most_expensive_offering_must_be_cheaper() {
    let fixture = |highest_price: &str| {
        format!("type old cpu=4 price=0.5 out=a/on-demand,b/on-demand,c/on-demand \n type new cpu=4
                 offer new zone=a ct=spot price={highest_price} \n offer new zone=b ct=spot price=0.2 \n offer new zone=c ct=spot price=0.4
                 pool p \n pool-node n type=old \n pod x on=n cpu=4")
    };
    check(&fixture("1.0"), "");
    assert_eq!(block_reasons(&fixture("1.0"), "n"), ["NoCheaperReplacement: Can't replace with a cheaper node"]);
    check(&fixture("0.49"), "single replace n -> p types=new ct=spot saves 0.3");
}

#[test]
fn spec_03_94_and_111_only_offerings_that_the_pool_allows_count() {
    let fixture = "type old cpu=4 price=0.5 out=a/on-demand,b/on-demand,c/on-demand \n type new cpu=4
                 offer new zone=a ct=on-demand price=0.6 \n offer new zone=a ct=spot price=0.2 \n offer new zone=b ct=on-demand price=0.1";
    let node = "pool-node n type=old \n pod x on=n cpu=4";
    check(&format!("{fixture} \n pool p req=\"ct In on-demand\" req=\"zone In a\" \n {node}"), "");
    check(
        &format!("{fixture} \n pool p req=\"zone In a\" \n {node}"),
        "single replace n -> p types=new ct=spot zone=a saves 0.3",
    );
    check(
        &format!("{fixture} \n pool p req=\"ct In on-demand\" req=\"zone In b\" \n {node}")
            .replace("pool-node n", "pool-node n zone=b"),
        "single replace n -> p types=new ct=on-demand zone=b saves 0.4",
    );
}

#[test]
fn spec_03_95_a_replacement_that_could_be_spot_is_spot_only() {
    check(
        "type l cpu=8 ct=spot,on-demand \n type s cpu=2 ct=spot,on-demand \n pool p \n pool-node n type=l \n pod x on=n cpu=1",
        "single replace n -> p types=s ct=spot saves 0.6",
    );
}

/// A spot node at $1.00 and `cheaper` cheaper types.
fn spot_node(cheaper: usize, pool: &str) -> String {
    let types: Vec<String> =
        (0..cheaper).map(|i| format!("type c{i:02} cpu=4 ct=spot zones=a price=0.{:02} ", 10 + i)).collect();
    format!(
        "type old cpu=4 ct=spot zones=a price=1 \n {} \n pool p {pool} \n pool-node n type=old ct=spot \n pod x on=n cpu=4",
        types.join("\n")
    )
}

#[test]
fn spec_03_96_without_the_gate_spot_is_not_replaced_by_spot() {
    assert_eq!(
        block_reasons(&spot_node(20, ""), "n"),
        ["SpotToSpotDisabled: SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"]
    );
    check(&spot_node(20, ""), "");
    let deletable = format!("{} \n pool-node spare type=old ct=spot protect=true", spot_node(20, ""));
    check(&deletable, "single delete n saves 1");
}

fn replacement_types(fixture: &str) -> Vec<String> {
    let plan = Fixture::new(&format!("settings spot-to-spot \n {fixture}")).disrupt();
    let types = plan.commands.first().map(|c| c.replacements[0].launch.instance_types.clone());
    types.unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn spec_03_97_a_spot_node_needs_fifteen_cheaper_types() {
    let fourteen = format!("settings spot-to-spot \n {}", spot_node(14, ""));
    check(&fourteen, "");
    assert_eq!(
        block_reasons(&fourteen, "n"),
        ["SpotToSpotFlexibility: SpotToSpotConsolidation requires 15 cheaper instance type options than the current \
          candidate to consolidate, got 14"]
    );
    let expected: Vec<String> = (0..15).map(|i| format!("c{i:02}")).collect();
    assert_eq!(replacement_types(&spot_node(15, "")), expected);
    assert_eq!(replacement_types(&spot_node(20, "")), expected);
}

#[test]
fn spec_03_98_min_values_may_require_more_types() {
    assert_eq!(replacement_types(&spot_node(17, "req=\"type Exists min 16\"")).len(), 16);
    assert_eq!(replacement_types(&spot_node(17, "req=\"type Exists min 10\"")).len(), 15);
    assert_eq!(replacement_types(&spot_node(15, "req=\"type Exists min 16\"")).len(), 0);
}

#[test]
fn spec_03_99_min_values_are_strict_for_replacements() {
    let fixture =
        "settings best-effort \n type old cpu=4 price=0.5 \n type new cpu=4 price=0.3 \n type dear cpu=4 price=0.9
                 pool p req=\"type Exists min 2\" \n pool-node n type=old \n pod x on=n cpu=4";
    check(fixture, "");
    assert_eq!(
        block_reasons(fixture, "n"),
        ["ReplacementMinValues: Filtering by price: minValues requirement is not met for label(s) \
          (label(s)=[node.kubernetes.io/instance-type])"]
    );
}

// Spec 02 Q18: the API server would reject the replacement.
#[test]
fn a_replacement_names_at_least_min_values_values() {
    let fixture = |pool: &str| {
        format!(
            "type old cpu=4 price=0.5 \n type new cpu=4 price=0.3 ct=spot,on-demand
             pool p {pool} \n pool-node n type=old \n pod x on=n cpu=4"
        )
    };
    check(&fixture(""), "single replace n -> p types=new ct=spot saves 0.2");
    let both = fixture("req=\"ct In spot,on-demand min 2\"");
    check(&both, "");
    assert_eq!(
        block_reasons(&both, "n"),
        ["ReplacementMinValues: Filtering by price: minValues requirement is not met for label(s) \
          (label(s)=[karpenter.sh/capacity-type])"]
    );
}

#[test]
fn spec_03_101_an_available_reservation_is_used() {
    for kind in ["on-demand", "spot"] {
        let fixture = format!(
            "type t cpu=4 \n offer t ct=on-demand price=0.4 \n offer t ct=spot price=0.2
             offer t ct=reserved price=0.00001 reservation=r1:1 \n pool p \n pool-node n type=t ct={kind} \n pod x on=n cpu=4"
        );
        let saved = if kind == "spot" { "0.19999" } else { "0.39999" };
        check(&fixture, &format!("single replace n -> p types=t ct=reserved saves {saved}"));
    }
    // Types that are listed besides the reservation have no price and are no replacement.
    check(
        "type t cpu=4 \n offer t ct=on-demand price=0.4 \n offer t ct=reserved price=0.00001 reservation=r1:1 \n type s cpu=4 price=0.3
         pool p \n pool-node n type=t ct=on-demand \n pod x on=n cpu=4",
        "single replace n -> p types=t ct=reserved saves 0.39999",
    );
    // No replacement is cheaper than a price of zero.
    check(
        "type t cpu=4 \n offer t ct=reserved price=0 reservation=r1:1 \n pool p \n pool-node n type=t ct=reserved \n pod x on=n cpu=4",
        "",
    );
}

// spec 05 §5.2: reserved capacity costs a ten-millionth of the on-demand price, which is above zero
#[test]
fn a_reserved_node_is_consolidated_although_it_costs_less_than_a_nano_dollar() {
    let types = "type large cpu=8 \n offer large ct=reserved price=0.00000000042 reservation=r1:1
                 type small cpu=2 \n offer small ct=reserved price=0.00000000021 reservation=r2:1";
    let node = "pool p \n pool-node n type=large ct=reserved \n pod x on=n cpu=1";
    check(&format!("{types} \n {node}"), "single replace n -> p types=small ct=reserved saves 0.00000000021");
    check(
        &format!("{types} \n {node} \n pool-node spare type=large ct=reserved protect=true"),
        "single delete n saves 0.00000000042",
    );
}

// The destination price of the savings is the price of the launch, spec 03 §11.
#[test]
fn spec_10_76_a_full_reservation_is_not_a_cheaper_replacement() {
    let fixture = |slots: u32, on_demand: &str| {
        format!(
            "settings fallback \n type old cpu=4 price=0.4 \n type new cpu=4
             offer new ct=reserved price=0 reservation=r1:{slots} \n offer new ct=on-demand price={on_demand}
             pool p \n pool-node n type=old \n pod x on=n cpu=4"
        )
    };
    check(&fixture(0, "0.5"), "");
    assert_eq!(block_reasons(&fixture(0, "0.5"), "n"), ["NoCheaperReplacement: Can't replace with a cheaper node"]);
    check(&fixture(1, "0.5"), "single replace n -> p types=new ct=reserved saves 0.4");
    check(&fixture(0, "0.3"), "single replace n -> p types=new ct=on-demand saves 0.1");
    // The worst launch price of a type is that of its launchable offerings. The claim may be
    // launched on reserved capacity, because another type has a free slot.
    let with_cheap_type = |offers: &str| {
        format!(
            "settings fallback no-reserved \n type old cpu=4 price=0.4 \n type cheap cpu=4
             offer cheap ct=reserved price=0.2 reservation=r2:1 \n offer cheap ct=on-demand price=0.35 \n type new cpu=4
             {offers} \n pool p \n pool-node n type=old \n pod x on=n cpu=4"
        )
    };
    check(
        &with_cheap_type("offer new ct=reserved price=0 reservation=r1:0 \n offer new ct=on-demand price=0.5"),
        "single replace n -> p types=cheap ct=on-demand|reserved saves 0.2",
    );
    check(
        &with_cheap_type("offer new ct=reserved price=0.9 reservation=r1:0 \n offer new ct=on-demand price=0.3"),
        "single replace n -> p types=cheap,new ct=on-demand|reserved saves 0.2",
    );
}

#[test]
fn a_planned_node_uses_a_slot_of_the_reservation_that_can_be_launched() {
    let fixture = Fixture::new(
        "settings fallback no-reserved \n type old cpu=4 price=0.4 \n type new cpu=4
         offer new ct=reserved price=0.1 reservation=full:0 \n offer new ct=reserved price=0.1 reservation=free:1
         pool p \n pool-node n type=old \n pod x on=n cpu=4",
    );
    let plan = fixture.disrupt();
    assert_eq!(commands_text(&plan), "single replace n -> p types=new ct=reserved saves 0.3\n");
    let after = with_commands_done(fixture.input.clone(), &plan.commands);
    let offerings = after.catalogues[0].find("new").unwrap().offerings();
    let states: Vec<(bool, i32)> = offerings.map(|o| (o.is_available(), o.reservation_capacity())).collect();
    assert_eq!(states, [(true, 0), (false, 0)], "the slot of the second reservation is used");
}

#[test]
fn spec_10_76_a_full_reservation_is_not_the_price_of_a_static_replacement() {
    let fixture = |slots: u32| {
        format!(
            "settings fallback \n type t cpu=4 \n offer t ct=reserved price=0 reservation=r1:{slots} \n offer t ct=on-demand price=0.4
             pool p replicas=1 hash=new:v3 \n pool-node n type=t hash=old:v3"
        )
    };
    check(&fixture(0), "static-drift replace n -> p types= ct= saves 0");
    check(&fixture(1), "static-drift replace n -> p types= ct= saves 0.4");
}

#[test]
fn spec_03_110_an_unavailable_offering_still_prices_its_node() {
    check(
        "type old cpu=4 price=0.5 zones=a out=a/on-demand \n type new cpu=4 price=0.3 \n pool p \n pool-node n type=old \n pod x on=n cpu=4",
        "single replace n -> p types=new ct=on-demand saves 0.2",
    );
}
