//! Measures how long it takes to evaluate nodes for removal, as growth curves: each line doubles
//! the cluster of the line before it. Clusters have 20 pods per node and 50 pods per Deployment.
//! Nodes are two thirds full, or so full that moved pods need a new node.
//!
//! `cargo bench -p kerf-engine --bench disrupting [-- FILTER]`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::slim::{NodeCondition, PodPhase, Str, TopologySpreadConstraint};
use kerf_engine::{
    ClaimLifecycle, DisruptionSettings, Effort, IncrementalSolver, Input, NodeClaimInput, Passes, PoolInput, disrupt,
};

use cluster::{SplitMix64, Stopwatch, input, pod, resources, selector, settings};

#[allow(dead_code, reason = "each benchmark uses its part")]
mod cluster;
mod quality;

const NODE_COUNTS: [usize; 4] = [625, 1_250, 2_500, 5_000];

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let is_selected = |name: &str| filter.as_deref().is_none_or(|f| name.contains(f));
    println!("{:<64} {:>6} {:>7} {:>11} {:>11}", "work", "nodes", "pods", "prepare", "simulation");
    for (kind, shape) in [
        ("plain", ClusterShape { pools: 1, has_zone_spread: false, is_full: false }),
        ("full nodes", ClusterShape { pools: 1, has_zone_spread: false, is_full: true }),
        ("30 pools, half with zone spread", ClusterShape { pools: 30, has_zone_spread: true, is_full: false }),
        (
            "30 pools, half with zone spread, full nodes",
            ClusterShape { pools: 30, has_zone_spread: true, is_full: true },
        ),
    ] {
        for nodes in NODE_COUNTS {
            if is_selected("whatif") {
                bench_removal(kind, nodes, shape);
            }
        }
    }
    if is_selected("plan") {
        for nodes in [250, 500, 1_000, 2_000, 5_000] {
            plan("settled", nodes, ClusterShape { pools: 1, has_zone_spread: false, is_full: true }, Passes::First);
        }
        for nodes in [250, 500, 1_000, 2_000, 5_000] {
            plan(
                "settled, 30 pools, zone spread",
                nodes,
                ClusterShape { pools: 30, has_zone_spread: true, is_full: true },
                Passes::First,
            );
        }
        for nodes in [250, 500, 1_000, 2_000, 5_000] {
            plan(
                "first command, a third free",
                nodes,
                ClusterShape { pools: 1, has_zone_spread: false, is_full: false },
                Passes::First,
            );
        }
        for nodes in [250, 500, 1_000] {
            plan(
                "everything, a third free",
                nodes,
                ClusterShape { pools: 1, has_zone_spread: false, is_full: false },
                Passes::All,
            );
        }
    }
    if is_selected("memory") {
        memory(5_000);
    }
    if is_selected("quality") {
        quality::report(200);
    }
    if is_selected("onemore") {
        for nodes in NODE_COUNTS {
            one_more_pod(nodes);
        }
    }
}

/// Returns the resident memory of the process in MiB.
fn resident_memory_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0.0);
    pages * 4.0 / 1_024.0
}

/// Prints the memory of a prepared solver, without the objects that it is prepared from.
fn memory(nodes: usize) {
    let input = cluster_with_nodes(nodes, ClusterShape { pools: 30, has_zone_spread: true, is_full: false });
    let before = resident_memory_mib();
    let mut solver = IncrementalSolver::new(&input, &settings(Effort::FirstFit));
    let built = resident_memory_mib();
    for node in &input.nodes {
        solver.solve_without_nodes(std::slice::from_ref(&node.metadata.name));
    }
    println!(
        "memory of {nodes} nodes and {} pods: {:.0} MiB, {:.0} MiB after simulating the removal of each node",
        input.pods.len(),
        built - before,
        resident_memory_mib() - before
    );
}

/// Measures a whole plan with all candidates and all methods: up to its first command, or until all
/// candidates are evaluated without a command.
fn plan(kind: &str, nodes: usize, shape: ClusterShape, passes: Passes) {
    let input = cluster_with_nodes(nodes, shape);
    let settings = DisruptionSettings {
        scheduling: settings(Effort::Search),
        allows_spot_to_spot: false,
        allows_moves: true,
        passes,
    };
    let mut best = f64::INFINITY;
    let mut plan = kerf_engine::DisruptionPlan::default();
    for _ in 0..3 {
        let start = Stopwatch::start();
        plan = disrupt(&input, &settings);
        best = best.min(start.seconds());
    }
    let stats = &plan.stats;
    let is_whole = plan.commands.is_empty() || passes == Passes::All;
    assert!(!is_whole || stats.candidates == stats.candidates_evaluated, "every candidate is evaluated");
    println!(
        "{:<64} {:>6} {:>7} {:>9.1}ms, {} simulations, {} passes, {} commands",
        format!("all candidates, all methods: {kind}"),
        input.nodes.len(),
        input.pods.len(),
        best * 1e3,
        stats.simulations,
        stats.passes,
        plan.commands.len()
    );
}

/// Measures the removal of each node by itself.
fn bench_removal(kind: &str, nodes: usize, shape: ClusterShape) {
    let input = cluster_with_nodes(nodes, shape);
    let start = Stopwatch::start();
    let mut solver = IncrementalSolver::new(&input, &settings(Effort::FirstFit));
    let prepare = start.seconds();
    let (mut total, mut count) = (0.0, 0);
    // Every node twice: the first round fills caches.
    for round in 0..2 {
        for node in input.nodes.iter().step_by(nodes / 500) {
            let name = [node.metadata.name.clone()];
            let start = Stopwatch::start();
            let solution = solver.solve_without_nodes(&name);
            let time = start.seconds();
            assert!(solution.unplaced.is_empty(), "every pod is placed");
            if round == 1 {
                total += time;
                count += 1;
            }
        }
    }
    print_line(&format!("removal of one node: {kind}"), &input, prepare, total / f64::from(count));
}

/// Measures one more pending pod of a new pod class.
fn one_more_pod(nodes: usize) {
    let input = cluster_with_nodes(nodes, ClusterShape { pools: 30, has_zone_spread: true, is_full: false });
    let start = Stopwatch::start();
    let mut solver = IncrementalSolver::new(&input, &settings(Effort::Search));
    let prepare = start.seconds();
    let mut total = 0.0;
    for i in 0..50 {
        let mut more = pod(format!("more-{i}"), "more", "7", "14Gi");
        more.metadata.labels = [(Str::from("app"), Str::from(format!("more-{i}")))].into_iter().collect();
        more.spec.topology_spread_constraints.push(zone_spread(&format!("more-{i}")));
        let start = Stopwatch::start();
        solver.update_pod(&more);
        let solution = solver.solve();
        solver.remove_pod(&more.namespaced_name());
        let time = start.seconds();
        assert_eq!(solution.claims.len(), 1, "the pod needs a new node");
        total += time;
    }
    print_line("one more pending pod, searched", &input, prepare, total / 50.0);
}

fn print_line(name: &str, input: &Input, prepare: f64, mean: f64) {
    println!(
        "{name:<64} {:>6} {:>7} {:>9.1}ms {:>9.3}ms",
        input.nodes.len(),
        input.pods.len(),
        prepare * 1e3,
        mean * 1e3
    );
}

#[derive(Clone, Copy)]
pub(crate) struct ClusterShape {
    pub(crate) pools: usize,
    pub(crate) has_zone_spread: bool,
    pub(crate) is_full: bool,
}

fn zone_spread(app: &str) -> TopologySpreadConstraint {
    let mut selector = selector("");
    selector.match_labels = [(Str::from("app"), Str::from(app))].into_iter().collect();
    TopologySpreadConstraint {
        max_skew: 2,
        topology_key: labels::ZONE.into(),
        label_selector: Some(selector),
        ..TopologySpreadConstraint::default()
    }
}

/// Nodes of eight CPUs with twenty pods each.
pub(crate) fn cluster_with_nodes(nodes: usize, shape: ClusterShape) -> Input {
    let mut rng = SplitMix64(11);
    let mut input = input(Vec::new(), nodes);
    let template = input.pools[0].clone();
    let long_ago = input.at - jiff::SignedDuration::from_hours(30);
    input.pools = (0..shape.pools)
        .map(|i| {
            let name = Str::from(format!("pool-{i:02}"));
            PoolInput {
                labels: [(Str::from(labels::NODEPOOL), name.clone())].into_iter().collect(),
                name,
                ..template.clone()
            }
        })
        .collect();
    for (i, node) in input.nodes.iter_mut().map(Arc::make_mut).enumerate() {
        let pool = Str::from(format!("pool-{:02}", i % shape.pools));
        let more =
            [(labels::NODEPOOL, pool), (labels::REGISTERED, "true".into()), (labels::INITIALIZED, "true".into())];
        node.metadata.labels = (node.metadata.labels.iter().map(|(k, v)| (k.clone(), v.clone())))
            .chain(more.into_iter().map(|(k, v)| (Str::from(k), v)))
            .collect();
        node.spec.provider_id = format!("bench:///{i}").into();
        node.status.allocatable = resources(&[("cpu", "8"), ("memory", "16Gi"), ("pods", "80")]);
        node.status.capacity = node.status.allocatable.clone();
        node.status.conditions = vec![NodeCondition {
            condition_type: "Ready".into(),
            status: "True".into(),
            last_transition_time: Some(long_ago),
            ..NodeCondition::default()
        }];
        input.node_claims.push(NodeClaimInput {
            name: format!("claim-{i:05}").into(),
            labels: node.metadata.labels.clone(),
            provider_id: node.spec.provider_id.clone(),
            capacity: node.status.capacity.clone(),
            allocatable: node.status.allocatable.clone(),
            lifecycle: ClaimLifecycle {
                created: Some(long_ago),
                is_launched: true,
                is_initialized: true,
                initialized_at: Some(long_ago),
                ..ClaimLifecycle::default()
            },
            ..NodeClaimInput::default()
        });
    }
    let count = nodes * 20;
    let deployments = (count / 50).max(1);
    let sizes: Vec<(&str, &str)> = (0..deployments)
        .map(|_| {
            let cpu = if shape.is_full { "400m" } else { rng.pick(&["100m", "200m", "250m", "500m"]) };
            (cpu, rng.pick(&["128Mi", "256Mi", "512Mi", "700Mi"]))
        })
        .collect();
    input.pods = (0..count)
        .map(|i| {
            let deployment = i % deployments;
            let app = format!("d{deployment}");
            let mut p = pod(format!("{app}-{i:06}"), &app, sizes[deployment].0, sizes[deployment].1);
            p.metadata.labels = [(Str::from("app"), Str::from(app.as_str()))].into_iter().collect();
            p.spec.node_name = Some(format!("node-{:05}", i / 20).into());
            p.status.phase = PodPhase::Running;
            if shape.has_zone_spread && deployment.is_multiple_of(2) {
                p.spec.topology_spread_constraints.push(zone_spread(&app));
            }
            p.into()
        })
        .collect();
    input
}
