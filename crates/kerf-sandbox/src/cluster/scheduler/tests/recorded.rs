//! Comparison with answers recorded from kube-scheduler 1.36.3. `hack/scheduler/ask.py` submitted
//! each cluster of the tables to it. `answers.json` has the results: the node to which the pod was
//! bound, or the message and the victims.

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
fn recorded_answers_of_kube_scheduler_are_ours() {
    if let Ok(file) = std::env::var("KERF_WRITE_WORLDS") {
        let written: BTreeMap<&str, _> = recordable_clusters()
            .into_iter()
            .map(|text| {
                let world = ClusterFixture::parse(text);
                (text, json!({"nodes": world.nodes, "pods": world.pods, "others": world.others}))
            })
            .collect();
        std::fs::write(file, serde_json::to_string(&written).unwrap()).unwrap();
        return;
    }
    let answers: BTreeMap<String, RecordedAnswer> = serde_json::from_str(include_str!("answers.json")).unwrap();
    let unasked: Vec<&str> = recordable_clusters().into_iter().filter(|text| !answers.contains_key(*text)).collect();
    assert!(unasked.is_empty(), "kube-scheduler has not been asked about {unasked:#?}");
    let mut wrong = Vec::new();
    for (text, answer) in &answers {
        if let Err(how) = check_answer(text, answer) {
            wrong.push(format!("{text}\n    {how}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
}

fn check_answer(text: &str, answer: &RecordedAnswer) -> Result<(), String> {
    let view = ClusterFixture::parse(text).view();
    let ours = feasible(&view);
    if let Some(node) = &answer.node {
        if !ours.contains(node) {
            return Err(format!("it went to {node}; ours are {ours:?}"));
        }
        let ranking: Vec<_> = ranking(&view).into_iter().filter(|(_, name)| ours.contains(name)).collect();
        let best = ranking.iter().filter(|(points, _)| *points == ranking[0].0);
        let best: Vec<&String> = best.map(|(_, name)| name).collect();
        return if best.contains(&node) { Ok(()) } else { Err(format!("it chose {node}; ours are {ranking:?}")) };
    }
    if !ours.is_empty() {
        return Err(format!("it went nowhere: {:?}; ours are {ours:?}", answer.message));
    }
    let (filters, more) = messages::message_parts(text);
    let words = more.map_or(filters.clone(), |more| format!("{filters} {more}"));
    if answer.message.as_deref() != Some(&words) {
        return Err(format!("it said {:?}; we say {words:?}", answer.message.as_deref().unwrap_or_default()));
    }
    if let Some(node) = &answer.nominated {
        let found = preemption::victims(text);
        let (where_, who) = found.split_once(": ").unwrap_or_default();
        let mut who: Vec<&str> = who.split_whitespace().collect();
        who.sort_unstable();
        if where_ != node || who != answer.victims {
            return Err(format!("it made {:?} leave {node}; we say {found}", answer.victims));
        }
    }
    Ok(())
}
