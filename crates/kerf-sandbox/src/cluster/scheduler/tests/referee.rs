//! Comparison with the referee's filters, which are slow and obvious, on the tables and on random
//! clusters.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use kerf_referee::filters::{ClusterView, Filters, NodeView};
use kerf_referee::placement::Namespaces;
use kerf_referee::storage::VolumeObjects;
use kerf_runtime::Rng;

use super::fixture::ClusterFixture;
use super::placement::feasible as fast;

/// Returns the nodes that the referee finds feasible for `new`; `None` if the cluster has no such
/// pod.
pub(super) fn feasible(fixture: &ClusterFixture) -> Option<Vec<String>> {
    let objects = fixture.decoded();
    let on = |pod: &&Pod, node: &str| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
    let nodes = objects.nodes.iter().map(|node| {
        let name = node.metadata.name.as_deref().unwrap();
        let csi = objects.csi.iter().find(|csi| csi.metadata.name.as_deref() == Some(name));
        NodeView { node, pods: objects.pods.iter().filter(|pod| on(pod, name)).collect(), csi }
    });
    let namespaces: Namespaces = objects
        .namespaces
        .iter()
        .map(|namespace| {
            let labels = namespace.metadata.labels.clone().unwrap_or_default();
            (namespace.metadata.name.clone().unwrap(), labels)
        })
        .collect();
    let cluster = ClusterView {
        nodes: nodes.collect(),
        namespaces,
        storage: VolumeObjects::new(&objects.claims, &objects.volumes, &objects.classes),
    };
    let pod = objects.pods.iter().find(|pod| pod.metadata.name.as_deref() == Some("new"))?;
    let filters = Filters::new(pod, &cluster);
    let feasible = cluster.nodes.iter().filter(|node| filters.reasons(node).is_empty());
    let mut names: Vec<String> = feasible.map(|node| node.name().to_owned()).collect();
    names.sort();
    Some(names)
}

/// Returns a random cluster in the fixture's language.
fn random_cluster(rng: &mut Rng) -> String {
    let mut text = String::from("ns default | ns other team=x");
    let nodes = 1 + rng.below(6);
    for node in 0..nodes {
        write!(text, " | node n{node} cpu={}", 1 + rng.below(4)).unwrap();
        let words = [
            "zone=x",
            "zone=y",
            "zone=z",
            "label:g=1",
            "taint=k=v:NoSchedule",
            "taint=j:PreferNoSchedule",
            "cordoned",
            "pods=2",
        ];
        append_random_words(&mut text, rng, &words, 6);
    }
    for pod in 0..rng.below(14) {
        write!(text, " | pod p{pod} on=n{} cpu={}m", rng.below(nodes), rng.below(1200)).unwrap();
        append_random_traits(&mut text, rng, 12);
    }
    text.push_str(" | new");
    write!(text, " cpu={}m", rng.below(2000)).unwrap();
    append_random_traits(&mut text, rng, 5);
    let rules = [
        "select:g=1",
        "want=zone:In:x,y",
        "want=zone:Exists&g:DoesNotExist",
        "tolerate=k",
        "spread=1*app:w@zone",
        "spread=2*app:v@zone!min=3",
        "spread=1*tier:t@host",
        "spread=1*app:In:w,v@zone!taints=Honor",
        "spread=1*app:w@zone!affinity=Ignore",
        "near=app:w@zone",
        "near=tier:t@host/?team:x",
        "away=app:v@host/?*",
    ];
    append_random_words(&mut text, rng, &rules, 10);
    text
}

fn append_random_traits(text: &mut String, rng: &mut Rng, rarity: u64) {
    let traits = [
        "app=w",
        "app=v",
        "tier=t",
        "ns=other",
        "deleting",
        "done",
        "port=80",
        "port=80/UDP",
        "port=81@10.0.0.1",
        "away=app:w@zone",
        "away=app:v@host/default",
        "away=tier:t@zone/?team:x",
        "near=app:w@zone",
    ];
    let traits = if text.ends_with('m') && text.contains("| new") { &traits[..3] } else { &traits[..] };
    append_random_words(text, rng, traits, rarity);
}

fn append_random_words(text: &mut String, rng: &mut Rng, words: &[&str], rarity: u64) {
    for word in words {
        let key = |word: &str| word.split_once(['=', ':']).map_or(word, |(key, _)| key).to_owned();
        let last = text.rsplit('|').next().unwrap_or_default();
        let repeatable =
            matches!(key(word).as_str(), "taint" | "spread" | "away" | "near" | "port" | "tolerate" | "label");
        let is_present = last.split_whitespace().any(|other| key(other) == key(word)) && !repeatable;
        if rng.below(rarity) == 0 && !is_present {
            write!(text, " {word}").unwrap();
        }
    }
}

#[test]
fn filters_agree_with_the_referee_on_random_clusters() {
    let mut rng = Rng::new(2026);
    let (mut some, mut all, mut none) = (0, 0, 0);
    for round in 0..600 {
        let text = random_cluster(&mut rng);
        let fixture = ClusterFixture::parse(&text);
        let nodes = fast(&fixture.view());
        assert_eq!(Some(&nodes), feasible(&fixture).as_ref(), "round {round}: {text}");
        match nodes.len() {
            0 => none += 1,
            count if count == fixture.nodes.len() => all += 1,
            _ => some += 1,
        }
    }
    // The generator must produce different outcomes; otherwise the comparison proves nothing.
    assert!(some > 150 && all > 20 && none > 50, "some {some}, all {all}, none {none}");
}
