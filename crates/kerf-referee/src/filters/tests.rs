//! Tests of each filter with kube-scheduler's texts.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{node, object, pod};

const ZONE: &str = "topology.kubernetes.io/zone";

fn node_view<'a>(node: &'a Node, pods: &[&'a Pod]) -> NodeView<'a> {
    NodeView { node, pods: pods.to_vec(), csi: None }
}

fn cluster_view<'a>(nodes: &[NodeView<'a>]) -> ClusterView<'a> {
    ClusterView { nodes: nodes.to_vec(), ..ClusterView::default() }
}

/// Returns for each node `ok` or the scheduler's reasons.
fn filter_messages<'a>(pod: &'a Pod, cluster: &ClusterView<'a>) -> Vec<String> {
    let filters = Filters::new(pod, cluster);
    let message = |node: &NodeView<'a>| {
        let reasons: Vec<String> = filters.reasons(node).iter().map(ToString::to_string).collect();
        if reasons.is_empty() { "ok".to_owned() } else { reasons.join("; ") }
    };
    cluster.nodes.iter().map(message).collect()
}

fn pod_requesting(name: &str, requests: Value) -> Pod {
    pod(name, json!({}), json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
}

fn node_in_zone(name: &str, zone: &str) -> Node {
    node(name, json!({ZONE: zone}))
}

#[test]
fn resources_are_summed_over_all_pods_that_still_run() {
    let big = pod_requesting("big", json!({"cpu": "3", "memory": "1Gi"}));
    let mut done = pod_requesting("done", json!({"cpu": "3"}));
    done.status = object(json!({"phase": "Succeeded"}));
    let (full, free) = (node("full", json!({})), node("free", json!({})));
    let cluster = cluster_view(&[node_view(&full, &[&big]), node_view(&free, &[&done])]);
    assert_eq!(
        filter_messages(&pod_requesting("p", json!({"cpu": "2", "memory": "8Gi"})), &cluster),
        ["Insufficient cpu; Insufficient memory", "ok"]
    );
    assert_eq!(
        filter_messages(&pod_requesting("p", json!({"example.com/gpu": "1"})), &cluster)[1],
        "Insufficient example.com/gpu"
    );
    assert_eq!(filter_messages(&pod_requesting("p", json!({"example.com/gpu": "0"})), &cluster)[1], "ok");
}

#[test]
fn a_node_has_a_limit_of_pods() {
    let pods: Vec<Pod> = (0..10).map(|i| pod(&format!("p{i}"), json!({}), json!({}))).collect();
    let node = node("n", json!({}));
    let cluster = cluster_view(&[node_view(&node, &pods.iter().collect::<Vec<_>>())]);
    assert_eq!(filter_messages(&pod("one-more", json!({}), json!({})), &cluster), ["Too many pods"]);
}

#[test]
fn cordons_taints_and_selectors() {
    let mut cordoned = node("cordoned", json!({}));
    cordoned.spec = object(json!({"unschedulable": true}));
    let mut tainted = node("tainted", json!({}));
    tainted.spec = object(json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}));
    let plain = node("plain", json!({}));
    let cluster = cluster_view(&[node_view(&cordoned, &[]), node_view(&tainted, &[]), node_view(&plain, &[])]);
    let all = pod("p", json!({}), json!({}));
    assert_eq!(
        filter_messages(&all, &cluster),
        ["node(s) were unschedulable", "node(s) had untolerated taint(s)", "ok"]
    );
    let tolerant = pod("p", json!({}), json!({"tolerations": [{"operator": "Exists"}]}));
    assert_eq!(filter_messages(&tolerant, &cluster), ["ok", "ok", "ok"]);
    let selective = pod("p", json!({}), json!({"nodeSelector": {"disk": "fast"}}));
    assert_eq!(filter_messages(&selective, &cluster)[2], "node(s) didn't match Pod's node affinity/selector");
    let first = Filters::new(&selective, &cluster).reported_reasons(&cluster.nodes[0]);
    assert_eq!(first, [FilterReason::Unschedulable], "only the first plug-in that objects is reported");
}

#[test]
fn a_host_port_is_used_by_one_pod() {
    let port = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
    let (one, two) = (pod("one", json!({}), port.clone()), pod("two", json!({}), port));
    let node = node("n", json!({}));
    let cluster = cluster_view(&[node_view(&node, &[&one])]);
    assert_eq!(filter_messages(&two, &cluster), ["node(s) didn't have free ports for the requested pod ports"]);
}

fn pod_affinity_spec(kind: &str, key: &str, app: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}},
    ]}}})
}

#[test]
fn affinity_requires_a_matching_pod_in_the_domain() {
    let (a1, a2, b) = (node_in_zone("a1", "a"), node_in_zone("a2", "a"), node_in_zone("b", "b"));
    let db = pod("db", json!({"app": "db"}), json!({}));
    let cluster = cluster_view(&[node_view(&a1, &[&db]), node_view(&a2, &[]), node_view(&b, &[])]);
    let web = pod("web", json!({"app": "web"}), pod_affinity_spec("podAffinity", ZONE, "db"));
    assert_eq!(filter_messages(&web, &cluster), ["ok", "ok", "node(s) didn't match pod affinity rules"]);
    let web = pod("web", json!({"app": "web"}), pod_affinity_spec("podAffinity", "kubernetes.io/hostname", "db"));
    assert_eq!(filter_messages(&web, &cluster)[1], "node(s) didn't match pod affinity rules");
    let unmatched = pod("p", json!({"app": "web"}), pod_affinity_spec("podAffinity", ZONE, "none"));
    assert_eq!(filter_messages(&unmatched, &cluster)[0], "node(s) didn't match pod affinity rules");
}

#[test]
fn the_first_pod_that_selects_itself_may_be_on_any_node_with_the_key() {
    let (a, bare) = (node_in_zone("a", "a"), node("bare", json!({})));
    let first = pod("first", json!({"app": "db"}), pod_affinity_spec("podAffinity", ZONE, "db"));
    let nodes = cluster_view(&[node_view(&a, &[]), node_view(&bare, &[])]);
    assert_eq!(filter_messages(&first, &nodes), ["ok", "node(s) didn't match pod affinity rules"]);
    let (b, second) =
        (node_in_zone("b", "b"), pod("second", json!({"app": "db"}), pod_affinity_spec("podAffinity", ZONE, "db")));
    let nodes = cluster_view(&[node_view(&a, &[&first]), node_view(&b, &[])]);
    assert_eq!(filter_messages(&second, &nodes), ["ok", "node(s) didn't match pod affinity rules"]);
}

#[test]
fn anti_affinity_holds_both_ways() {
    let (a, b) = (node_in_zone("a", "a"), node_in_zone("b", "b"));
    let repelling = pod("shy", json!({"app": "shy"}), pod_affinity_spec("podAntiAffinity", ZONE, "web"));
    let web = pod("web", json!({"app": "web"}), json!({}));
    let with_web = cluster_view(&[node_view(&a, &[&web]), node_view(&b, &[])]);
    assert_eq!(filter_messages(&repelling, &with_web), ["node(s) didn't match pod anti-affinity rules", "ok"]);
    let with_repelling = cluster_view(&[node_view(&a, &[&repelling]), node_view(&b, &[])]);
    assert_eq!(
        filter_messages(&web, &with_repelling),
        ["node(s) didn't satisfy existing pods anti-affinity rules", "ok"]
    );
}

fn zone_spread_spec(max_skew: i32, extra: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": max_skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    constraint.as_object_mut().into_iter().for_each(|c| c.extend(extra.as_object().cloned().unwrap_or_default()));
    json!({"topologySpreadConstraints": [constraint]})
}

#[test]
fn spread_compares_with_the_domain_with_the_fewest_pods() {
    let (a, b, bare) = (node_in_zone("a", "a"), node_in_zone("b", "b"), node("bare", json!({})));
    let web = pod("web", json!({"app": "web"}), json!({}));
    let nodes = cluster_view(&[node_view(&a, &[&web]), node_view(&b, &[]), node_view(&bare, &[])]);
    let spec = |skew, extra| pod("p", json!({"app": "web"}), zone_spread_spec(skew, extra));
    let too_full = "node(s) didn't match pod topology spread constraints";
    assert_eq!(
        filter_messages(&spec(1, json!({})), &nodes),
        [too_full, "ok", "node(s) didn't match pod topology spread constraints (missing required label)"]
    );
    assert_eq!(filter_messages(&spec(2, json!({})), &nodes)[0], "ok");
    let soft = spec(1, json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    assert_eq!(filter_messages(&soft, &nodes), ["ok", "ok", "ok"]);
    let both = cluster_view(&[node_view(&a, &[&web]), node_view(&b, &[&web])]);
    assert_eq!(filter_messages(&spec(1, json!({})), &both), ["ok", "ok"]);
    assert_eq!(filter_messages(&spec(1, json!({"minDomains": 3})), &both), [too_full, too_full]);
}

#[test]
fn spec_02_90_terminating_pods_and_other_namespaces_do_not_count() {
    let (a, b) = (node_in_zone("a", "a"), node_in_zone("b", "b"));
    let mut terminating = pod("leaving", json!({"app": "web"}), json!({}));
    terminating.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
    let mut foreign = pod("foreign", json!({"app": "web"}), json!({}));
    foreign.metadata.namespace = Some("blue".to_owned());
    let nodes = cluster_view(&[node_view(&a, &[&terminating, &foreign]), node_view(&b, &[])]);
    assert_eq!(filter_messages(&pod("p", json!({"app": "web"}), zone_spread_spec(1, json!({}))), &nodes), ["ok", "ok"]);
}

#[test]
fn volumes_restrict_nodes_and_are_limited() {
    let claim: PersistentVolumeClaim = object(json!({
        "metadata": {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "pv"},
    }));
    let new: PersistentVolumeClaim =
        object(json!({"metadata": {"name": "new", "namespace": "default"}, "spec": {"storageClassName": "sc"}}));
    let volume: PersistentVolume = object(json!({
        "metadata": {"name": "pv", "labels": {ZONE: "a"}},
        "spec": {
            "csi": {"driver": "disk.example.com", "volumeHandle": "v"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]},
            ]}},
        },
    }));
    let class: StorageClass = object(json!({
        "metadata": {"name": "sc"}, "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}],
    }));
    let csi: CSINode = object(json!({
        "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": "disk.example.com", "nodeID": "a", "allocatable": {"count": 1}}]},
    }));
    let using = |name: &str, claim: &str| {
        pod(name, json!({}), json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}))
    };
    let (a, b, user) = (node_in_zone("a", "a"), node_in_zone("b", "b"), using("user", "data"));
    let mut nodes = cluster_view(&[node_view(&a, &[&user]), node_view(&b, &[])]);
    nodes.nodes[0].csi = Some(&csi);
    nodes.storage = VolumeObjects::new([&claim, &new], [&volume], [&class]);
    let other_zone = "node(s) didn't match PersistentVolume's node affinity; node(s) had no available volume zone";
    assert_eq!(filter_messages(&using("p", "data"), &nodes), ["ok", other_zone], "a shared volume counts once");
    assert_eq!(
        filter_messages(&using("p", "new"), &nodes),
        ["node(s) exceed max volume count; node(s) didn't find available persistent volumes to bind", "ok"]
    );
    assert_eq!(filter_messages(&using("p", "none"), &nodes)[1], "persistentvolumeclaim \"none\" not found");
}
