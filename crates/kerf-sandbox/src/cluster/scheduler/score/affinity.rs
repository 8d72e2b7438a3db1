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
    let own_class = view.classes.get(pod.class)?;
    let mut points = DomainPoints::new();
    for other_class in view.classes.with_terms() {
        let selects_pod = |term| {
            affinity_term_selects(
                term,
                &other_class.namespace,
                &own_class.namespace,
                &own_class.labels,
                &view.namespaces,
            )
        };
        for term in other_class.terms.required.iter().filter(|term| selects_pod(term)) {
            add_points(view, &mut points, &term.topology_key, other_class, HARD_AFFINITY_WEIGHT);
        }
        for preference in
            other_class.terms.preferred.iter().filter(|preference| selects_pod(&preference.pod_affinity_term))
        {
            add_points(
                view,
                &mut points,
                &preference.pod_affinity_term.topology_key,
                other_class,
                i64::from(preference.weight),
            );
        }
        for preference in
            other_class.terms.preferred_anti.iter().filter(|preference| selects_pod(&preference.pod_affinity_term))
        {
            add_points(
                view,
                &mut points,
                &preference.pod_affinity_term.topology_key,
                other_class,
                -i64::from(preference.weight),
            );
        }
    }
    let (preferred, preferred_anti) = (&own_class.terms.preferred, &own_class.terms.preferred_anti);
    if !preferred.is_empty() || !preferred_anti.is_empty() {
        for other_class in view.classes.all() {
            let preferences = preferred
                .iter()
                .map(|preference| (preference, 1))
                .chain(preferred_anti.iter().map(|preference| (preference, -1)));
            for (preference, sign) in preferences {
                let term = &preference.pod_affinity_term;
                if affinity_term_selects(
                    term,
                    &own_class.namespace,
                    &other_class.namespace,
                    &other_class.labels,
                    &view.namespaces,
                ) {
                    add_points(view, &mut points, &term.topology_key, other_class, sign * i64::from(preference.weight));
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
            let points_of = |(key, values): (&&str, &FxHashMap<&str, i64>)| {
                labels.get(*key).and_then(|value| values.get(value.as_str())).copied().unwrap_or_default()
            };
            points.iter().map(points_of).sum()
        })
        .collect();
    let lowest = raw.iter().copied().min().unwrap_or_default();
    let span = raw.iter().copied().max().unwrap_or_default() - lowest;
    let score =
        |raw: &i64| if span == 0 { 0 } else { (MAX_NODE_SCORE as f64 * ((raw - lowest) as f64 / span as f64)) as i64 };
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
