//! Scores of preferred pod affinity: the preferences of the pod itself, the preferences of existing
//! pods about it, and required affinity of existing pods that it would satisfy.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::MAX_NODE_SCORE;
use crate::cluster::scheduler::classes::{PodClass, affinity_term_selects};
use crate::cluster::scheduler::pod::PodInfo;
use crate::cluster::scheduler::view::{NodeIx, View};

/// Weight of an existing pod's required affinity term that selects this pod.
const HARD_AFFINITY_WEIGHT: i64 = 1;

/// Points for each value of each topology key.
type DomainPoints<'a> = BTreeMap<&'a str, FxHashMap<&'a str, i64>>;

/// Returns the score of each node; `None` if no term concerns the pod.
pub(super) fn scores(view: &View, pod: &PodInfo, nodes: &[NodeIx]) -> Option<Vec<i64>> {
    let ours = view.classes.get(pod.class)?;
    let mut points = DomainPoints::new();
    for theirs in view.classes.with_terms() {
        let about_us =
            |term| affinity_term_selects(term, &theirs.namespace, &ours.namespace, &ours.labels, &view.namespaces);
        for term in theirs.terms.required.iter().filter(|term| about_us(term)) {
            add_points(view, &mut points, &term.topology_key, theirs, HARD_AFFINITY_WEIGHT);
        }
        for wish in theirs.terms.preferred.iter().filter(|wish| about_us(&wish.pod_affinity_term)) {
            add_points(view, &mut points, &wish.pod_affinity_term.topology_key, theirs, i64::from(wish.weight));
        }
        for wish in theirs.terms.preferred_anti.iter().filter(|wish| about_us(&wish.pod_affinity_term)) {
            add_points(view, &mut points, &wish.pod_affinity_term.topology_key, theirs, -i64::from(wish.weight));
        }
    }
    let (near, away) = (&ours.terms.preferred, &ours.terms.preferred_anti);
    if !near.is_empty() || !away.is_empty() {
        for theirs in view.classes.all() {
            let wishes = near.iter().map(|wish| (wish, 1)).chain(away.iter().map(|wish| (wish, -1)));
            for (wish, sign) in wishes {
                let term = &wish.pod_affinity_term;
                if affinity_term_selects(term, &ours.namespace, &theirs.namespace, &theirs.labels, &view.namespaces) {
                    add_points(view, &mut points, &term.topology_key, theirs, sign * i64::from(wish.weight));
                }
            }
        }
    }
    if points.is_empty() {
        return None;
    }
    let raw: Vec<i64> = nodes
        .iter()
        .map(|node| {
            let labels = &view.node(*node).labels;
            let of = |(key, values): (&&str, &FxHashMap<&str, i64>)| {
                labels.get(*key).and_then(|value| values.get(value.as_str())).copied().unwrap_or_default()
            };
            points.iter().map(of).sum()
        })
        .collect();
    let least = raw.iter().copied().min().unwrap_or_default();
    let span = raw.iter().copied().max().unwrap_or_default() - least;
    let score =
        |raw: &i64| if span == 0 { 0 } else { (MAX_NODE_SCORE as f64 * ((raw - least) as f64 / span as f64)) as i64 };
    Some(raw.iter().map(score).collect())
}

/// Adds `weight` to each domain that contains pods of the class, once per pod.
fn add_points<'a>(view: &'a View, points: &mut DomainPoints<'a>, key: &'a str, class: &PodClass, weight: i64) {
    for (node, count) in &class.nodes {
        if let Some(value) = view.node(*node).labels.get(key) {
            *points.entry(key).or_default().entry(value.as_str()).or_default() += weight * i64::from(count.all);
        }
    }
}
