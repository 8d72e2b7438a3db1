//! Properties of plans that hold for any cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

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
        "leaving",
        "uninitialized",
        "notready",
        "nominated=9",
        "event=30",
    ]);
    let wish = prop::sample::select(vec![
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
    let pods = prop::collection::vec((1..4_u32, wish), 0..4);
    let machine = (
        0..4_usize,
        prop::sample::select(vec!["p", "q"]),
        prop::sample::select(vec!["spot", "on-demand"]),
        condition,
        pods,
    );
    let prices = prop::collection::vec(1..6_u32, 4);
    (prices, pool.clone(), pool, prop::collection::vec(machine, 1..7), 0..3_u32, any::<bool>()).prop_map(
        |(prices, p, q, machines, allowed, gate)| {
            let mut world = String::new();
            for (i, (cents, cpu)) in prices.into_iter().zip([1, 2, 4, 8]).enumerate() {
                let price = cents + 3 * cpu;
                writeln!(world, "type t{i} cpu={cpu} mem=64Gi zones=a,b ct=spot,on-demand price=0.{price:02}").unwrap();
            }
            writeln!(world, "pool p {p} \n pool q {q} \n pdb b sel=app=g1 allowed={allowed}").unwrap();
            if gate {
                writeln!(world, "settings spot-to-spot").unwrap();
            }
            for (i, machine) in machines.iter().enumerate() {
                write_node(&mut world, i, machine);
            }
            world
        },
    )
}

/// Writes the node and those of its pods that fit on it.
fn write_node(world: &mut String, i: usize, (size, pool, kind, condition, pods): &NodeFixture) {
    let zone = if i.is_multiple_of(2) { "a" } else { "b" };
    writeln!(world, "machine n{i} pool={pool} type=t{size} zone={zone} ct={kind} {condition}").unwrap();
    let mut room = 2 * (1_u32 << size);
    for (k, (halves, wish)) in pods.iter().enumerate() {
        if *halves <= room {
            room -= halves;
            let group = (i + k) % 3;
            let wish = wish.replace('G', &format!("g{group}"));
            writeln!(world, "pod x{i}-{k} on=n{i} cpu={}m labels=app:g{group} {wish}", halves * 500).unwrap();
        }
    }
}

/// Returns true if no command exceeds a budget, in the order of the commands.
fn keeps_budgets(plan: &DisruptionPlan) -> bool {
    let mut taken: BTreeMap<&str, u32> = BTreeMap::new();
    plan.commands.iter().all(|command| {
        command.nodes.iter().for_each(|n| *taken.entry(n.pool.as_str()).or_default() += 1);
        command.nodes.iter().all(|n| {
            let uses = plan.stats.budgets.iter().find(|u| u.pool == n.pool && u.reason == command.reason()).unwrap();
            taken[n.pool.as_str()] <= uses.allowed.saturating_sub(uses.disrupting)
        })
    })
}

/// Returns true if nodes with do-not-disrupt and nodes with such pods stay. The latter may be
/// removed for drift if their claim has a termination grace period.
fn keeps_protected_nodes(input: &Input, plan: &DisruptionPlan) -> bool {
    const KEY: &str = "karpenter.sh/do-not-disrupt";
    plan.commands.iter().flat_map(|c| c.nodes.iter().map(move |n| (c, n))).all(|(command, node)| {
        let own = input.nodes.iter().find(|n| n.metadata.name == node.name);
        let drain_ends =
            input.node_claims.iter().any(|c| c.name == node.claim && c.lifecycle.termination_grace_period.is_some());
        let is_drift = command.reason().as_str() == "Drifted";
        let held = input.pods.iter().any(|p| {
            p.spec.node_name.as_deref() == Some(&*node.name)
                && p.metadata.annotations.get(KEY).is_some()
                && !p.is_terminating()
        });
        own.is_none_or(|n| n.metadata.annotations.get(KEY).is_none()) && (!held || (is_drift && drain_ends))
    })
}

/// Returns true if after the plan every moved pod runs and no node is overcommitted.
fn every_moved_pod_fits(before: &Input, plan: &DisruptionPlan) -> bool {
    let world = with_commands_done(before.clone(), &plan.commands);
    let moved: Vec<_> = plan.commands.iter().flat_map(|c| &c.pods).collect();
    let requested = |node: &str| -> i128 {
        let on = world.pods.iter().filter(|p| p.spec.node_name.as_deref() == Some(node) && !p.is_terminal());
        on.filter_map(|p| p.spec.containers[0].resources.requests.get("cpu")).map(Quantity::nanos).sum()
    };
    let has_room = world
        .nodes
        .iter()
        .all(|n| n.status.allocatable.get("cpu").is_some_and(|cpu| requested(&n.metadata.name) <= cpu.nanos()));
    let runs = |name: &&kerf_api::slim::Str| world.pods.iter().any(|p| p.namespaced_name() == **name);
    has_room && moved.iter().all(runs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_keep_their_promises(text_of in cluster()) {
        let world = Fixture::new(&text_of);
        let plan = world.disrupt();
        assert_plan_invariants(&world, &plan);
        prop_assert!(keeps_budgets(&plan), "{}", commands_text(&plan));
        prop_assert!(keeps_protected_nodes(&world.input, &plan), "{}", commands_text(&plan));
        prop_assert!(every_moved_pod_fits(&world.input, &plan), "{}", commands_text(&plan));
        let gone = |name: &str| plan.commands.iter().flat_map(|c| &c.nodes).any(|n| n.name == name);
        for blocked in &plan.blocked {
            prop_assert!(!gone(&blocked.node) && !blocked.reasons.is_empty());
        }
        let stay = plan.blocked.iter().filter(|b| world.input.nodes.iter().any(|n| n.metadata.name == b.node)).count();
        let go = plan.commands.iter().flat_map(|c| &c.nodes).count();
        prop_assert_eq!(stay + go, world.input.nodes.len(), "every node goes or says why not");
    }

    #[test]
    fn one_question_has_one_answer(text_of in cluster()) {
        let world = Fixture::new(&text_of);
        let answer = commands_text(&world.disrupt());
        prop_assert_eq!(&answer, &commands_text(&world.disrupt()), "asked twice");
        let mut turned = world.clone();
        turned.input.pods.reverse();
        turned.input.pools.reverse();
        turned.input.nodes.reverse();
        turned.input.node_claims.reverse();
        prop_assert_eq!(&answer, &commands_text(&turned.disrupt()), "in another order");
    }

    #[test]
    fn ten_times_the_price_changes_only_the_money(text_of in cluster()) {
        let world = Fixture::new(&text_of);
        let mut dear = world.clone();
        for offering in dear.input.catalogues.iter_mut().flat_map(Arc::make_mut).flat_map(|t| &mut t.offerings) {
            offering.price = Price::from_nanos(offering.price.nanos() * 10);
        }
        let (cheap, dear) = (world.disrupt(), dear.disrupt());
        let nodes = |plan: &DisruptionPlan| plan.commands.iter().map(|c| c.nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>()).collect::<Vec<_>>();
        prop_assert_eq!(nodes(&cheap), nodes(&dear));
        let saved = |plan: &DisruptionPlan| plan.commands.iter().map(DisruptionCommand::saved).sum::<Price>().nanos();
        prop_assert_eq!(saved(&cheap) * 10, saved(&dear));
    }

    #[test]
    fn a_budget_of_nothing_allows_nothing(text_of in cluster()) {
        let world = Fixture::new(&text_of.replace("pool p", "pool p budget=0").replace("pool q", "pool q budget=0"));
        let plan = world.disrupt();
        prop_assert!(plan.commands.is_empty(), "{}", commands_text(&plan));
    }
}

/// Checks that the generator's clusters give every method commands, and some clusters none.
#[test]
fn clusters_are_worth_asking_about() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..96 {
        let world = cluster().new_tree(&mut runner).unwrap().current();
        let plan = Fixture::new(&world).disrupt();
        let methods = plan.commands.iter().map(|c| format!("{:?} {}", c.method, c.decision()));
        let all: Vec<String> = if plan.commands.is_empty() { vec!["nothing".into()] } else { methods.collect() };
        for what in all {
            *found.entry(what).or_default() += 1;
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
    for what in expected {
        assert!(found.get(what).is_some_and(|count| *count > 1), "{what} is missing: {found:?}");
    }
}
