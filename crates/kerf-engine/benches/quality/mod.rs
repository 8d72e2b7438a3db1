//! Measures how much plans save on clusters after a day of churn, and how much any plan could save.

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{Pod, PodPhase, Str};
use kerf_engine::{DisruptionSettings, Effort, Input, Passes, disrupt};

use super::cluster::{SplitMix64, instance_type_with, pod, resources, settings};
use super::{ClusterShape, cluster_with_nodes};

/// Prints the price of `clusters` clusters of 50 to 300 nodes after a day of churn: before, with
/// the methods that Karpenter has, with moves as well, and a lower bound for any plan.
pub(crate) fn report(clusters: u64) {
    println!(
        "{:<10} {:>7} {:>10} {:>11} {:>11} {:>11}",
        "clusters", "nodes", "before", "compatible", "with moves", "least"
    );
    let (mut nodes, mut sums) = (0, [0.0_f64; 4]);
    for seed in 0..clusters {
        let input = churned_cluster(seed);
        let plan_with = |moves| {
            let scheduling = settings(Effort::Search);
            disrupt(
                &input,
                &DisruptionSettings {
                    scheduling,
                    allows_spot_to_spot: false,
                    allows_moves: moves,
                    passes: Passes::All,
                },
            )
        };
        let (compatible, with_moves) = (plan_with(false), plan_with(true));
        assert!(with_moves.price_after <= compatible.price_after, "moves never raise the price");
        nodes += input.nodes.len();
        let prices = [
            compatible.price_before.dollars(),
            compatible.price_after.dollars(),
            with_moves.price_after.dollars(),
            lower_bound_price(&input),
        ];
        sums.iter_mut().zip(prices).for_each(|(sum, price)| *sum += price);
    }
    println!("{clusters:<10} {nodes:>7} {:>10.2} {:>11.2} {:>11.2} {:>11.2}", sums[0], sums[1], sums[2], sums[3]);
}

/// The three families with their GiB of memory per CPU.
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];

/// Returns a cluster with nodes of three families and five sizes. Most of the pods that filled the
/// nodes are deleted. No other instance types are offered.
fn churned_cluster(seed: u64) -> Input {
    let mut rng = SplitMix64(seed);
    let nodes = 50 + rng.below(251);
    let mut input = cluster_with_nodes(nodes, ClusterShape { pools: 1, has_zone_spread: false, is_full: false });
    input.pools[0].disruption.budgets.clear();
    input.pods.clear();
    let sizes = [2, 4, 8, 16, 32];
    // Approximately as clouds charge: most of the price is for the CPUs.
    let price = |cpus: i64, gibibytes: i64| cpus * 35_500_000 + gibibytes * 3_400_000;
    input.catalogues[0] = FAMILIES
        .iter()
        .flat_map(|(family, per_cpu)| {
            let type_of_size = |cpus: i64| {
                instance_type_with(&format!("{family}-{cpus}"), cpus, per_cpu * cpus, price(cpus, per_cpu * cpus))
            };
            sizes.map(type_of_size)
        })
        .collect();
    for i in 0..nodes {
        let (cpus, (family, per_cpu)) = (rng.pick(&[2, 4, 8, 16, 32]), rng.pick(&FAMILIES));
        let gibibytes = cpus * per_cpu as usize;
        let node_resources =
            [("cpu", cpus.to_string()), ("memory", format!("{gibibytes}Gi")), ("pods", (10 * cpus).to_string())];
        let node_resources: Vec<(&str, &str)> =
            node_resources.iter().map(|(name, amount)| (*name, amount.as_str())).collect();
        let (node, claim) = (Arc::make_mut(&mut input.nodes[i]), &mut input.node_claims[i]);
        node.metadata.labels = (node.metadata.labels.iter().map(|(k, v)| (k.clone(), v.clone())))
            .chain([(Str::from(labels::INSTANCE_TYPE), Str::from(format!("{family}-{cpus}")))])
            .collect();
        claim.labels = node.metadata.labels.clone();
        node.status.allocatable = resources(&node_resources);
        node.status.capacity = node.status.allocatable.clone();
        let (mut milli, mut mebi) = (1_000 * cpus, 1_024 * gibibytes);
        for j in 0.. {
            let (cpu, memory) = (rng.pick(&[100, 250, 500, 1_000, 2_000]), rng.pick(&[128, 512, 1_024, 4_096, 8_192]));
            if cpu > milli || memory > mebi {
                break;
            }
            (milli, mebi) = (milli - cpu, mebi - memory);
            if rng.below(5) < 2 {
                let mut p = pod(format!("p{i}-{j}"), "churn", &format!("{cpu}m"), &format!("{memory}Mi"));
                p.spec.node_name = Some(input.nodes[i].metadata.name.clone());
                p.status.phase = PodPhase::Running;
                input.pods.push(p.into());
            }
        }
    }
    input
}

/// Returns a lower bound: the price of all requested resources if instances could be bought in
/// parts. That is a linear program with one row per resource. Its dual has one unknown per row, the
/// price of one unit of each resource, so its optimum is found by checking all corners.
fn lower_bound_price(input: &Input) -> f64 {
    let amount = |q: Option<Quantity>| q.map_or(0.0, |q| q.nanos() as f64 / 1e9);
    let pod_requests = |p: &Pod| {
        let of = |name: &str| p.spec.containers.iter().map(|c| amount(c.resources.requests.get(name))).sum::<f64>();
        [of("cpu"), of("memory") / GIBIBYTE, 1.0]
    };
    let mut total_requests = [0.0; 3];
    for pod in &input.pods {
        total_requests.iter_mut().zip(pod_requests(pod)).for_each(|(sum, more)| *sum += more);
    }
    // The resources of an instance are worth at most its price, and no resource has a negative
    // price.
    let mut faces: Vec<([f64; 3], f64)> = Vec::new();
    for instance_type in input.catalogues[0].iter() {
        let of = |name: &str| amount(instance_type.capacity.get(name));
        let cheapest = instance_type.offerings.iter().map(|o| o.price.dollars()).fold(f64::INFINITY, f64::min);
        faces.push(([of("cpu"), of("memory") / GIBIBYTE, of("pods")], cheapest));
    }
    faces.extend([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]].map(|face| (face, 0.0)));
    let mut best = 0.0_f64;
    for i in 0..faces.len() {
        for j in 0..i {
            for k in 0..j {
                let Some(corner) = plane_intersection([faces[i], faces[j], faces[k]]) else { continue };
                if faces.iter().all(|(face, bound)| dot(*face, corner) <= bound + 1e-9) {
                    best = best.max(dot(total_requests, corner));
                }
            }
        }
    }
    best
}

const GIBIBYTE: f64 = 1_073_741_824.0;

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Returns the point in which three planes intersect (Cramer's rule), if there is one.
fn plane_intersection([(a, p), (b, q), (c, r)]: [([f64; 3], f64); 3]) -> Option<[f64; 3]> {
    let cross =
        |u: [f64; 3], v: [f64; 3]| [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    let (bc, ca, ab) = (cross(b, c), cross(c, a), cross(a, b));
    let volume = dot(a, bc);
    let at = |axis: usize| (p * bc[axis] + q * ca[axis] + r * ab[axis]) / volume;
    (volume.abs() > 1e-9).then(|| [at(0), at(1), at(2)])
}
