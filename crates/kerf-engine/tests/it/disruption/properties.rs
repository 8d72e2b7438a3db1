//! Properties of plans that hold for any cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kerf_api::quantity::Quantity;
use kerf_engine::{DisruptionCommand, DisruptionPlan, Input, Price, with_commands_done};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::{assert_plan_invariants, commands_text};
use crate::fixture::Fixture;

type NodeFixture = (usize, &'static str, &'static str, &'static str, Vec<(u32, &'static str)>);

/// Generates a small cluster with different nodes: full and empty, spot and on-demand, drifted,
/// protected, and being deleted.
fn cluster() -> impl Strategy<Value = String> {
    let pool = prop::sample::select(vec![
        "",
        "",
        "budget=50%",
        "budget=1",
        "budget=2;Underutilized",
        "policy=Balanced",
        "policy=WhenEmpty",
        "after=1m",
        "after=Never",
        "limit=cpu:24",
    ]);
    let condition = prop::sample::select(vec![
        "",
        "",
        "",
        "",
        "provider-drift=AMIDrift drifted=60",
        "provider-drift=AMIDrift grace=1h",
        "protect=true",
        "deleting",
        "uninitialized",
        "notready",
        "nominated=9",
        "event=30",
    ]);
    let constraint = prop::sample::select(vec![
        "",
        "",
        "",
        "",
        "protect=true",
        "anti=host:app=G",
        "spread=zone:1:app=G",
        "sel=zone:a",
        "owner=DaemonSet/d",
        "terminating",
    ]);
    let pods = prop::collection::vec((1..4_u32, constraint), 0..4);
    let node = (
        0..4_usize,
        prop::sample::select(vec!["p", "q"]),
        prop::sample::select(vec!["spot", "on-demand"]),
        condition,
        pods,
    );
    let prices = prop::collection::vec(1..6_u32, 4);
    (prices, pool.clone(), pool, prop::collection::vec(node, 1..7), 0..3_u32, any::<bool>()).prop_map(
        |(prices, p, q, nodes, allowed, gate)| {
            let mut fixture = String::new();
            for (i, (cents, cpu)) in prices.into_iter().zip([1, 2, 4, 8]).enumerate() {
                let price = cents + 3 * cpu;
                writeln!(fixture, "type t{i} cpu={cpu} mem=64Gi zones=a,b ct=spot,on-demand price=0.{price:02}")
                    .unwrap();
            }
            writeln!(fixture, "pool p {p} \n pool q {q} \n pdb b sel=app=g1 allowed={allowed}").unwrap();
            if gate {
                writeln!(fixture, "settings spot-to-spot").unwrap();
            }
            for (i, node) in nodes.iter().enumerate() {
                write_node(&mut fixture, i, node);
            }
            fixture
        },
    )
}

/// Writes the node and those of its pods that fit on it.
fn write_node(fixture: &mut String, i: usize, (size, pool, kind, condition, pods): &NodeFixture) {
    let zone = if i.is_multiple_of(2) { "a" } else { "b" };
    writeln!(fixture, "pool-node n{i} pool={pool} type=t{size} zone={zone} ct={kind} {condition}").unwrap();
    let mut free_halves = 2 * (1_u32 << size);
    for (k, (halves, constraint)) in pods.iter().enumerate() {
        if *halves <= free_halves {
            free_halves -= halves;
            let group = (i + k) % 3;
            let constraint = constraint.replace('G', &format!("g{group}"));
            writeln!(fixture, "pod x{i}-{k} on=n{i} cpu={}m labels=app:g{group} {constraint}", halves * 500).unwrap();
        }
    }
}

/// Returns true if no command exceeds a budget, in the order of the commands.
fn keeps_budgets(plan: &DisruptionPlan) -> bool {
    let mut removed: BTreeMap<&str, u32> = BTreeMap::new();
    plan.commands.iter().all(|command| {
        command.nodes.iter().for_each(|n| *removed.entry(n.pool.as_str()).or_default() += 1);
        command.nodes.iter().all(|n| {
            let uses = plan.stats.budgets.iter().find(|u| u.pool == n.pool && u.reason == command.reason()).unwrap();
            removed[n.pool.as_str()] <= uses.allowed.saturating_sub(uses.disrupting)
        })
    })
}

/// Returns true if nodes with do-not-disrupt and nodes with such pods stay. The latter may be
/// removed for drift if their claim has a termination grace period.
fn keeps_protected_nodes(input: &Input, plan: &DisruptionPlan) -> bool {
    const KEY: &str = "karpenter.sh/do-not-disrupt";
    plan.commands.iter().flat_map(|c| c.nodes.iter().map(move |n| (c, n))).all(|(command, node)| {
        let node_object = input.nodes.iter().find(|n| n.metadata.name == node.name);
        let drain_ends =
            input.node_claims.iter().any(|c| c.name == node.claim && c.lifecycle.termination_grace_period.is_some());
        let is_drift = command.reason().as_str() == "Drifted";
        let has_protected_pod = input.pods.iter().any(|p| {
            p.spec.node_name.as_deref() == Some(&*node.name)
                && p.metadata.annotations.get(KEY).is_some()
                && !p.is_terminating()
        });
        node_object.is_none_or(|n| n.metadata.annotations.get(KEY).is_none())
            && (!has_protected_pod || (is_drift && drain_ends))
    })
}

/// Returns true if after the plan every moved pod runs and no node is overcommitted.
fn every_moved_pod_fits(before: &Input, plan: &DisruptionPlan) -> bool {
    let fixture = with_commands_done(before.clone(), &plan.commands);
    let moved: Vec<_> = plan.commands.iter().flat_map(|c| &c.pods).collect();
    let requested = |node: &str| -> i128 {
        let pods_on_node =
            fixture.pods.iter().filter(|p| p.spec.node_name.as_deref() == Some(node) && !p.is_terminal());
        pods_on_node.filter_map(|p| p.spec.containers[0].resources.requests.get("cpu")).map(Quantity::nanos).sum()
    };
    let fits = fixture
        .nodes
        .iter()
        .all(|n| n.status.allocatable.get("cpu").is_some_and(|cpu| requested(&n.metadata.name) <= cpu.nanos()));
    let runs = |name: &&kerf_api::slim::Str| fixture.pods.iter().any(|p| p.namespaced_name() == **name);
    fits && moved.iter().all(runs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_keep_the_invariants(text in cluster()) {
        let fixture = Fixture::new(&text);
        let plan = fixture.disrupt();
        assert_plan_invariants(&fixture, &plan);
        prop_assert!(keeps_budgets(&plan), "{}", commands_text(&plan));
        prop_assert!(keeps_protected_nodes(&fixture.input, &plan), "{}", commands_text(&plan));
        prop_assert!(every_moved_pod_fits(&fixture.input, &plan), "{}", commands_text(&plan));
        let is_removed = |name: &str| plan.commands.iter().flat_map(|c| &c.nodes).any(|n| n.name == name);
        for blocked in &plan.blocked {
            prop_assert!(!is_removed(&blocked.node) && !blocked.reasons.is_empty());
        }
        let staying = plan.blocked.iter().filter(|b| fixture.input.nodes.iter().any(|n| n.metadata.name == b.node)).count();
        let removed = plan.commands.iter().flat_map(|c| &c.nodes).count();
        prop_assert_eq!(staying + removed, fixture.input.nodes.len(), "every node is removed or has a block reason");
    }

    #[test]
    fn equivalent_inputs_have_one_plan(text in cluster()) {
        let fixture = Fixture::new(&text);
        let commands = commands_text(&fixture.disrupt());
        prop_assert_eq!(&commands, &commands_text(&fixture.disrupt()), "called twice");
        let mut reordered = fixture.clone();
        reordered.input.pods.reverse();
        reordered.input.pools.reverse();
        reordered.input.nodes.reverse();
        reordered.input.node_claims.reverse();
        prop_assert_eq!(&commands, &commands_text(&reordered.disrupt()), "in another order");
    }

    #[test]
    fn scaling_all_prices_changes_only_the_prices(text in cluster()) {
        let fixture = Fixture::new(&text);
        let mut expensive = fixture.clone();
        expensive.multiply_prices(10);
        let (cheap, expensive) = (fixture.disrupt(), expensive.disrupt());
        let nodes = |plan: &DisruptionPlan| plan.commands.iter().map(|c| c.nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>()).collect::<Vec<_>>();
        prop_assert_eq!(nodes(&cheap), nodes(&expensive));
        let saved = |plan: &DisruptionPlan| plan.commands.iter().map(DisruptionCommand::saved).sum::<Price>();
        prop_assert_eq!(saved(&cheap).times(10), saved(&expensive));
    }

    #[test]
    fn a_budget_of_zero_allows_no_command(text in cluster()) {
        let fixture = Fixture::new(&text.replace("pool p", "pool p budget=0").replace("pool q", "pool q budget=0"));
        let plan = fixture.disrupt();
        prop_assert!(plan.commands.is_empty(), "{}", commands_text(&plan));
    }
}

/// Checks that the generator's clusters give every method commands, and some clusters none.
#[test]
fn generated_clusters_exercise_every_method() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..96 {
        let fixture = cluster().new_tree(&mut runner).unwrap().current();
        let plan = Fixture::new(&fixture).disrupt();
        let methods = plan.commands.iter().map(|c| format!("{:?} {}", c.method, c.decision()));
        let all: Vec<String> = if plan.commands.is_empty() { vec!["nothing".into()] } else { methods.collect() };
        for kind in all {
            *counts.entry(kind).or_default() += 1;
        }
    }
    let expected = [
        "Emptiness delete",
        "Drift delete",
        "Drift replace",
        "MultiNode replace",
        "SingleNode delete",
        "SingleNode replace",
        "nothing",
    ];
    for kind in expected {
        assert!(counts.get(kind).is_some_and(|count| *count > 1), "{kind} is missing: {counts:?}");
    }
}
