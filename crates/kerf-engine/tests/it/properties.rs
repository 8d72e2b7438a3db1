//! Properties that hold for any input, without knowledge of its solution: equivalent inputs have
//! the same solution.

use std::fmt::Write as _;

use kerf_api::quantity::Quantity;
use kerf_engine::catalogue::{InstanceType, InstanceTypeRef, OfferingState};
use kerf_engine::{Effort, Input, Solution};
use proptest::prelude::*;

use crate::check_solution::solution_text;
use crate::fixture::Fixture;

/// Generates a small fixture: a few types, pools, nodes and groups of pods, some with constraints.
fn fixture_text(is_constrained: bool) -> impl Strategy<Value = String> {
    let types = prop::collection::vec((1..9_u32, 1..5_u32, prop::sample::select(vec!["a,b,c", "a,b", "c"])), 1..5);
    let pools = prop::collection::vec(
        (0..3_u32, prop::sample::select(vec!["", "req=\"zone In a,b\"", "taint=k=v:NoSchedule"])),
        1..3,
    );
    let nodes = prop::collection::vec((1..6_u32, prop::sample::select(vec!["a", "b", "c"])), 0..4);
    let rules = if is_constrained {
        vec![
            "",
            "",
            "spread=zone:1:app=G",
            "spread=host:1:app=G:any",
            "anti=host:app=G",
            "aff=zone:app=G",
            "anti=zone:app=G",
            "pref=\"1 zone In b\"",
            "sel=zone:a",
            "tol=k",
            "port=80",
        ]
    } else {
        vec![""]
    };
    let groups = prop::collection::vec((1..6_usize, 1..30_u32, 1..9_u32, prop::sample::select(rules)), 1..5);
    (types, pools, nodes, groups).prop_map(|(types, pools, nodes, groups)| {
        let mut fixture = String::new();
        for (i, (cpu, dimes, zones)) in types.into_iter().enumerate() {
            writeln!(fixture, "type t{i} cpu={cpu} mem={}Gi zones={zones} price={}.{i}", cpu * 3, dimes).unwrap();
        }
        for (i, (weight, rest)) in pools.into_iter().enumerate() {
            writeln!(fixture, "pool p{i} weight={weight} {rest}").unwrap();
        }
        for (i, (cpu, zone)) in nodes.into_iter().enumerate() {
            writeln!(fixture, "node n{i} cpu={cpu} zone={zone} \n pod old{i} on=n{i} cpu=0.5 labels=app:g{i}").unwrap();
        }
        for (i, (count, tenths, gigs, rule)) in groups.into_iter().enumerate() {
            let rule = rule.replace('G', &format!("g{i}"));
            writeln!(fixture, "pod g{i} x{count} cpu={}m mem={gigs}Gi labels=app:g{i} {rule}", tenths * 100).unwrap();
        }
        fixture
    })
}

fn fixture_with_search(text: &str) -> Fixture {
    Fixture::new(text).with_settings(|s| s.effort = Effort::Search)
}

fn placed_pod_count(solution: &Solution) -> usize {
    solution.claims.iter().map(|c| c.pods.len()).sum::<usize>()
        + solution.nodes.iter().map(|n| n.pods.len()).sum::<usize>()
}

fn reversed(input: &Input) -> Input {
    let mut input = input.clone();
    input.pods.reverse();
    input.pools.reverse();
    input.nodes.reverse();
    input.node_claims.reverse();
    for types in &mut input.catalogues {
        let mut all: Vec<(InstanceType, Vec<OfferingState>)> = types.iter().map(InstanceTypeRef::to_pair).collect();
        all.reverse();
        *types = all.into_iter().collect();
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equivalent_inputs_have_one_solution(text in fixture_text(true), seed in 0..4_u64) {
        let fixture = fixture_with_search(&text).with_settings(|s| s.seed = seed);
        let solution = solution_text(&fixture.input, &fixture.solve());
        prop_assert_eq!(&solution, &solution_text(&fixture.input, &fixture.solve()), "called twice");
        let two = fixture.with_settings(|s| s.threads = 2);
        prop_assert_eq!(&solution, &solution_text(&two.input, &two.solve()), "on two threads");
        let reordered = Fixture { input: reversed(&fixture.input), ..fixture.clone() };
        prop_assert_eq!(&solution, &solution_text(&fixture.input, &reordered.solve()), "in another order");
    }

    #[test]
    fn a_search_is_no_worse_than_first_fit(text in fixture_text(true)) {
        let (first, best) = (Fixture::new(&text).solve(), fixture_with_search(&text).solve());
        prop_assert!(placed_pod_count(&best) >= placed_pod_count(&first));
        prop_assert!(placed_pod_count(&best) > placed_pod_count(&first) || best.price() <= first.price());
    }

    /// Adds limits to every pool: they hold even if each claim is launched as its largest type (spec
    /// 02 §4.6), and limits that are not reached change nothing.
    #[test]
    fn limits_are_never_exceeded(text in fixture_text(true), cpu in 1..40_i64, gigabytes in 1..120_i64, with_memory: bool) {
        let memory = if with_memory { format!(",mem:{gigabytes}Gi") } else { String::new() };
        let limited = fixture_with_search(&text.replace(" weight=", &format!(" limit=cpu:{cpu}{memory} weight=")));
        let solution = limited.solve();
        for pool in &limited.input.pools {
            for (resource, limit) in pool.limits.iter() {
                let of_nodes: Quantity = Quantity::ZERO;
                let largest = solution.claims.iter().filter(|claim| claim.pool == pool.name).map(|claim| {
                    let types = claim.launch.instance_types.iter();
                    types.filter_map(|name| limited.input.catalogues[0].find(name)?.capacity.get(resource)).max().unwrap_or_default()
                });
                let used = largest.fold(of_nodes, |sum, amount| sum + amount);
                prop_assert!(used <= limit, "pool {}: {resource} {used} of {limit}", pool.name);
            }
        }
        let unlimited = fixture_with_search(&text);
        let roomy = fixture_with_search(&text.replace(" weight=", " limit=cpu:100000,mem:100000Gi weight="));
        prop_assert_eq!(solution_text(&unlimited.input, &unlimited.solve()), solution_text(&roomy.input, &roomy.solve()));
    }

    #[test]
    fn scaling_all_prices_changes_only_the_price(text in fixture_text(true)) {
        let fixture = fixture_with_search(&text);
        let mut expensive = fixture.clone();
        expensive.multiply_prices(10);
        let (cheap, expensive) = (fixture.solve(), expensive.solve());
        prop_assert_eq!(solution_text(&fixture.input, &cheap), solution_text(&fixture.input, &expensive));
        prop_assert_eq!(cheap.price().times(10), expensive.price());
    }

    /// Uses first fit, which depends only on the types that remain on a claim, and inputs without
    /// constraints, because the zones of a type matter for constraints.
    #[test]
    fn removing_an_unlisted_type_changes_nothing(text in fixture_text(false)) {
        let fixture = Fixture::new(&text);
        let solution = fixture.solve();
        let before = solution_text(&fixture.input, &solution);
        for index in 0..fixture.input.catalogues[0].len() {
            let name = fixture.input.catalogues[0].types()[index].name.clone();
            if solution.claims.iter().any(|c| c.launch.instance_types.contains(&name)) {
                continue;
            }
            let mut without = fixture.clone();
            let types = &mut without.input.catalogues[0];
            *types = types.iter().filter(|t| t.name != name).map(InstanceTypeRef::to_pair).collect();
            let solution = without.solve();
            let without_codes = |text: &str| text.lines().filter(|l| !l.starts_with("unplaced")).map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(without_codes(&before), without_codes(&solution_text(&fixture.input, &solution)), "without {}", name);
        }
    }

    #[test]
    fn one_more_node_places_no_fewer_pods(text in fixture_text(false), cpu in 1..9_u32) {
        let before = placed_pod_count(&Fixture::new(&text).solve());
        let after = Fixture::new(&format!("{text} \n node extra cpu={cpu} mem=32Gi zone=a"));
        // Pods that fit only on nodes compete for them, and first fit may then place one instead of
        // two.
        let largest = after.input.catalogues[0].iter().filter_map(|t| t.capacity.get("cpu")).max().unwrap();
        let fits = after.input.pods.iter().all(|p| p.spec.containers[0].resources.requests.get("cpu").is_none_or(|c| c <= largest));
        prop_assume!(fits);
        prop_assert!(placed_pod_count(&after.solve()) >= before);
    }

    /// Checks that the generator's inputs are not trivial.
    #[test]
    fn generated_fixtures_have_pods_and_types(text in fixture_text(true)) {
        let fixture = Fixture::new(&text);
        prop_assert!(!fixture.input.pods.is_empty() && !fixture.input.catalogues[0].is_empty() && !fixture.input.pools.is_empty());
    }
}
