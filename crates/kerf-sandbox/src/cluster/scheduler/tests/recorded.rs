//! Comparison with results recorded from kube-scheduler 1.36.3. `hack/scheduler/record.py`
//! submitted each cluster of the tables to it. `answers.json` has the results: the node to which
//! the pod was bound, or the message and the victims.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::json;

use super::fixture::ClusterFixture;
use super::placement::feasible;
use super::scores::ranking;
use super::{messages, placement, preemption, scores};

/// The recorded result for one cluster.
#[derive(Debug, Deserialize)]
struct RecordedAnswer {
    node: Option<String>,
    message: Option<String>,
    nominated: Option<String>,
    #[serde(default)]
    victims: Vec<String>,
}

/// Returns the clusters that a real scheduler can be tested with: those without nominated pods.
fn recordable_clusters() -> BTreeSet<&'static str> {
    let tables = placement::cluster_texts()
        .chain(scores::cluster_texts())
        .chain(messages::cluster_texts())
        .chain(preemption::cluster_texts());
    tables.filter(|text| !text.contains("nominated=")).collect()
}

#[test]
fn results_equal_the_recorded_answers_of_kube_scheduler() {
    if let Ok(file) = std::env::var("KERF_WRITE_WORLDS") {
        let written: BTreeMap<&str, _> = recordable_clusters()
            .into_iter()
            .map(|text| {
                let cluster = ClusterFixture::parse(text);
                (text, json!({"nodes": cluster.nodes, "pods": cluster.pods, "others": cluster.others}))
            })
            .collect();
        std::fs::write(file, serde_json::to_string(&written).unwrap()).unwrap();
        return;
    }
    let answers: BTreeMap<String, RecordedAnswer> = serde_json::from_str(include_str!("answers.json")).unwrap();
    let unrecorded: Vec<&str> = recordable_clusters().into_iter().filter(|text| !answers.contains_key(*text)).collect();
    assert!(unrecorded.is_empty(), "kube-scheduler has not been asked about {unrecorded:#?}");
    let mut mismatches = Vec::new();
    for (text, answer) in &answers {
        if let Err(mismatch) = check_answer(text, answer) {
            mismatches.push(format!("{text}\n    {mismatch}"));
        }
    }
    assert!(mismatches.is_empty(), "{} of {} differ:\n{}", mismatches.len(), answers.len(), mismatches.join("\n"));
}

fn check_answer(text: &str, answer: &RecordedAnswer) -> Result<(), String> {
    let view = ClusterFixture::parse(text).view();
    let feasible_nodes = feasible(&view);
    if let Some(node) = &answer.node {
        if !feasible_nodes.contains(node) {
            return Err(format!("it went to {node}; ours are {feasible_nodes:?}"));
        }
        let ranking: Vec<_> = ranking(&view).into_iter().filter(|(_, name)| feasible_nodes.contains(name)).collect();
        let best = ranking.iter().filter(|(points, _)| *points == ranking[0].0);
        let best: Vec<&String> = best.map(|(_, name)| name).collect();
        return if best.contains(&node) { Ok(()) } else { Err(format!("it chose {node}; ours are {ranking:?}")) };
    }
    if !feasible_nodes.is_empty() {
        return Err(format!("it went nowhere: {:?}; ours are {feasible_nodes:?}", answer.message));
    }
    let (filters, suffix) = messages::message_parts(text);
    let message = suffix.map_or(filters.clone(), |suffix| format!("{filters} {suffix}"));
    if answer.message.as_deref() != Some(&message) {
        return Err(format!("it said {:?}; we say {message:?}", answer.message.as_deref().unwrap_or_default()));
    }
    if let Some(node) = &answer.nominated {
        let result = preemption::victims(text);
        let (node_name, victims) = result.split_once(": ").unwrap_or_default();
        let mut victims: Vec<&str> = victims.split_whitespace().collect();
        victims.sort_unstable();
        if node_name != node || victims != answer.victims {
            return Err(format!("it made {:?} leave {node}; we say {result}", answer.victims));
        }
    }
    Ok(())
}
