//! Kube-scheduler's default scores, which select the best of the feasible nodes. Each plug-in gives
//! a node 0 to 100 points, multiplied by its weight. A seeded draw decides between nodes with equal
//! points.

mod affinity;
mod spread;

use k8s_openapi::api::core::v1::{Pod, PreferredSchedulingTerm};
use kerf_referee::selectors::term_matches;
use kerf_referee::taints::toleration_tolerates;
use kerf_runtime::Rng;

use super::amounts::{CPU, MEMORY};
use super::node::NodeInfo;
use super::pod::PodInfo;
use super::view::{NodeIx, View};

/// Maximum score of one plug-in.
const MAX_NODE_SCORE: i64 = 100;
/// Weights of kube-scheduler's default configuration.
const TAINT_TOLERATION_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const POD_TOPOLOGY_SPREAD_WEIGHT: i64 = 2;
const INTER_POD_AFFINITY_WEIGHT: i64 = 2;
const NODE_RESOURCES_FIT_WEIGHT: i64 = 1;
const BALANCED_ALLOCATION_WEIGHT: i64 = 1;
const IMAGE_LOCALITY_WEIGHT: i64 = 1;

const MIB: i64 = 1024 * 1024;
/// Bounds of the image sizes that count: less counts as zero, and more per container counts as this
/// maximum.
const MIN_SCORED_IMAGE_BYTES: i64 = 23 * MIB;
const MAX_SCORED_CONTAINER_IMAGE_BYTES: i64 = 1000 * MIB;

/// Returns the points of each node, in the order of `nodes`.
pub(super) fn score_nodes(view: &View, pod: &Pod, info: &PodInfo, nodes: &[NodeIx]) -> Vec<i64> {
    let mut points = vec![0; nodes.len()];
    let mut add = |weight: i64, scores: &[i64]| {
        for (points, score) in points.iter_mut().zip(scores) {
            *points += weight * score;
        }
    };
    let each =
        |score: &dyn Fn(&NodeInfo) -> i64| -> Vec<i64> { nodes.iter().map(|node| score(view.node(*node))).collect() };

    let mut taint_scores = each(&|node| untolerated_soft_taints(pod, node));
    normalize(&mut taint_scores);
    for score in &mut taint_scores {
        *score = MAX_NODE_SCORE - *score;
    }
    add(TAINT_TOLERATION_WEIGHT, &taint_scores);

    let preferences = preferred_terms(pod);
    if !preferences.is_empty() {
        let mut affinity_scores = each(&|node| preference_weight(preferences, node));
        normalize(&mut affinity_scores);
        add(NODE_AFFINITY_WEIGHT, &affinity_scores);
    }
    add(NODE_RESOURCES_FIT_WEIGHT, &each(&|node| least_allocated(info, node)));
    if [CPU, MEMORY].into_iter().any(|resource| info.requests.get(resource) != 0) {
        add(BALANCED_ALLOCATION_WEIGHT, &each(&|node| balanced(info, node)));
    }
    let images = images_of(pod);
    add(IMAGE_LOCALITY_WEIGHT, &each(&|node| image_locality(view, &images, node)));
    if let Some(scores) = spread::scores(view, pod, nodes) {
        add(POD_TOPOLOGY_SPREAD_WEIGHT, &scores);
    }
    if let Some(scores) = affinity::scores(view, info, nodes) {
        add(INTER_POD_AFFINITY_WEIGHT, &scores);
    }
    points
}

/// Returns one of the nodes with the most points; `None` if `nodes` is empty.
pub(super) fn pick_best_node(
    view: &View,
    pod: &Pod,
    info: &PodInfo,
    nodes: &[NodeIx],
    rng: &mut Rng,
) -> Option<NodeIx> {
    if let [only] = nodes {
        return Some(*only);
    }
    let points = score_nodes(view, pod, info, nodes);
    let highest = points.iter().max()?;
    let best: Vec<NodeIx> =
        nodes.iter().zip(&points).filter(|(_, points)| *points == highest).map(|(node, _)| *node).collect();
    best.get(rng.below(best.len() as u64) as usize).copied()
}

/// Scales scores to 0..=100 so that the highest becomes 100. Scores that are all zero stay.
fn normalize(scores: &mut [i64]) {
    let highest = scores.iter().copied().max().unwrap_or_default();
    if highest > 0 {
        for score in scores {
            *score = MAX_NODE_SCORE * *score / highest;
        }
    }
}

/// Returns the number of `PreferNoSchedule` taints that the pod does not tolerate.
fn untolerated_soft_taints(pod: &Pod, node: &NodeInfo) -> i64 {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let is_untolerated = |taint: &&k8s_openapi::api::core::v1::Taint| {
        taint.effect == "PreferNoSchedule"
            && !tolerations.iter().any(|toleration| {
                matches!(toleration.effect.as_deref(), None | Some("" | "PreferNoSchedule"))
                    && toleration_tolerates(toleration, taint)
            })
    };
    node.taints.iter().filter(is_untolerated).count() as i64
}

fn preferred_terms(pod: &Pod) -> &[PreferredSchedulingTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    terms.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

fn preference_weight(terms: &[PreferredSchedulingTerm], node: &NodeInfo) -> i64 {
    let matching = terms.iter().filter(|term| term_matches(&term.preference, &node.name, &node.labels));
    matching.map(|term| i64::from(term.weight)).sum()
}

/// Scores free CPU and memory as a share of allocatable, with the pod on the node. More is better.
fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let (mut sum, mut count) = (0, 0);
    for (index, resource) in [CPU, MEMORY].into_iter().enumerate() {
        let capacity = node.allocatable.get(resource);
        if capacity == 0 {
            continue;
        }
        let requested = node.nonzero_used[index].saturating_add(pod.nonzero_requests[index]);
        let free = capacity.saturating_sub(requested).max(0);
        sum += match free.checked_mul(MAX_NODE_SCORE) {
            Some(product) => product / capacity,
            None => (i128::from(free) * i128::from(MAX_NODE_SCORE) / i128::from(capacity)) as i64,
        };
        count += 1;
    }
    if count == 0 { 0 } else { sum / count }
}

/// Scores the change in balance between used CPU and memory. Better balance is better; 75 means no
/// change.
fn balanced(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let balance = |with_pod: bool| {
        let fraction = |resource| {
            let capacity = node.allocatable.get(resource);
            let pod = if with_pod { pod.requests.get(resource) } else { 0 };
            let used = node.used.get(resource).saturating_add(pod);
            (capacity != 0).then(|| (used as f64 / capacity as f64).min(1.0))
        };
        // A single resource is always in balance.
        let deviation = match (fraction(CPU), fraction(MEMORY)) {
            (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
    };
    MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + balance(true) - balance(false)) / 2
}

/// Returns the pod's images, by the names under which nodes list them.
fn images_of(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.map(|container| with_tag(container.image.as_deref().unwrap_or_default())).collect()
}

fn with_tag(image: &str) -> String {
    let colon = image.rfind(':').map_or(-1, |at| at as i64);
    let slash = image.rfind('/').map_or(-1, |at| at as i64);
    if colon <= slash { format!("{image}:latest") } else { image.to_owned() }
}

/// Scores the pod's images that are on the node. An image counts by its size and by the share of
/// nodes that have it.
fn image_locality(view: &View, images: &[String], node: &NodeInfo) -> i64 {
    if node.images.is_empty() || images.is_empty() {
        return 0;
    }
    let nodes = view.node_count().max(1) as f64;
    let scaled = |image: &String| {
        let size = node.images.get(image.as_str())?;
        Some((*size as f64 * (view.image_node_count(image) as f64 / nodes)) as i64)
    };
    let sum: i64 = images.iter().filter_map(scaled).sum();
    let max_bytes = MAX_SCORED_CONTAINER_IMAGE_BYTES * images.len() as i64;
    MAX_NODE_SCORE * (sum.clamp(MIN_SCORED_IMAGE_BYTES, max_bytes) - MIN_SCORED_IMAGE_BYTES)
        / (max_bytes - MIN_SCORED_IMAGE_BYTES)
}
