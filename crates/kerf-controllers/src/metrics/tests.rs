//! Series appear with what they count and go with their object; the text is what Prometheus reads (spec 07 §8).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod};
use serde_json::json;

use super::*;
use crate::context::SharedCluster;

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

#[test]
fn the_text_is_what_prometheus_reads() {
    let registry = Registry::default();
    registry.gauge("unused", "Never set.", &["a"]);
    registry.counter("b_total", "Bs.", &["x", "y"]).inc(&["1\"", "2\\\n"]);
    let histogram = registry.histogram("c_seconds", "Cs.", &["x"], &[0.5, 1.0]);
    for value in [0.5, 0.7, 3.0] {
        histogram.observe(&["z"], value);
    }
    registry.gauge("a", "As.", &[]).set(&[], 1.5);
    let expected = "\
# HELP a As.
# TYPE a gauge
a 1.5
# HELP b_total Bs.
# TYPE b_total counter
b_total{x=\"1\\\"\",y=\"2\\\\\\n\"} 1
# HELP c_seconds Cs.
# TYPE c_seconds histogram
c_seconds_bucket{x=\"z\",le=\"0.5\"} 1
c_seconds_bucket{x=\"z\",le=\"1\"} 2
c_seconds_bucket{x=\"z\",le=\"+Inf\"} 3
c_seconds_sum{x=\"z\"} 4.2
c_seconds_count{x=\"z\"} 3
";
    assert_eq!(registry.text(noon()), expected);
}

// spec 07 #52
#[test]
fn a_summary_has_five_quantiles_a_sum_and_a_count() {
    let registry = Registry::default();
    let summary = registry.summary("s_seconds", "S.", &["nodepool"]);
    for value in 1..=100 {
        summary.observe(&["a"], f64::from(value), noon());
    }
    let text = registry.text(noon());
    for line in [
        "s_seconds{nodepool=\"a\",quantile=\"0\"} 1",
        "s_seconds{nodepool=\"a\",quantile=\"0.5\"} 50",
        "s_seconds{nodepool=\"a\",quantile=\"0.9\"} 90",
        "s_seconds{nodepool=\"a\",quantile=\"0.99\"} 99",
        "s_seconds{nodepool=\"a\",quantile=\"1\"} 100",
        "s_seconds_sum{nodepool=\"a\"} 5050",
        "s_seconds_count{nodepool=\"a\"} 100",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn buckets_are_the_published_ones() {
    assert_eq!(doubling(1.0, 11).last(), Some(&1024.0));
    assert_eq!(LIFETIME_BUCKETS.map(|seconds| seconds / 3600.0)[3..6], [1.0, 2.0, 4.0]);
    assert!(DURATION_BUCKETS.is_sorted() && LIFETIME_BUCKETS.is_sorted());
    let metrics = Metrics::new();
    assert!(metrics.text(noon()).contains("karpenter_build_info{version="));
}

fn told<T: serde::de::DeserializeOwned + kerf_state::Tracked>(cluster: &SharedCluster, object: serde_json::Value) {
    cluster.lock().apply::<T>(serde_json::from_value(object).unwrap());
}

fn shown(cluster: &SharedCluster) -> String {
    let class = ["karpenter.kwok.sh/kwoknodeclass".to_owned()];
    state::text(cluster, &["karpenter.sh/nodepool", "topology.kubernetes.io/zone"], &class, noon())
}

// spec 07 #38, #40 and #41, spec 04 #141
#[test]
fn nodes_and_pods_are_shown_as_long_as_they_are_there() {
    let cluster = SharedCluster::default();
    let node = |name: &str, labels: serde_json::Value| {
        json!({"metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T11:59:00Z"},
            "status": {"capacity": {"cpu": "2", "memory": "1Gi"}, "allocatable": {"cpu": "1500m", "memory": "1Gi"}}})
    };
    told::<Node>(&cluster, node("ours", json!({"karpenter.sh/nodepool": "a", "topology.kubernetes.io/zone": "z"})));
    told::<Node>(&cluster, node("other", json!({})));
    told::<Pod>(
        &cluster,
        json!({"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]}, "spec": {"nodeName": "ours", "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let text = shown(&cluster);
    for line in [
        "karpenter_nodes_allocatable{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\",resource_type=\"cpu\"} 1.5",
        "karpenter_nodes_allocatable{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\",resource_type=\"memory\"} 1073741824",
        "karpenter_nodes_allocatable{node_name=\"other\",phase=\"\",managed=\"false\",nodepool=\"\",zone=\"\",resource_type=\"cpu\"} 1.5",
        "karpenter_nodes_system_overhead{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\",resource_type=\"cpu\"} 0.5",
        "karpenter_nodes_current_lifetime_seconds{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\"} 60",
        "karpenter_pods_state{name=\"p\",namespace=\"ns\",owner=\"/apis/apps/v1/namespaces/ns/replicasets/r\",node=\"ours\",scheduled=\"true\",nodepool=\"a\",zone=\"z\",arch=\"\",capacity_type=\"\",instance_type=\"\",phase=\"Running\",ready=\"true\",managed=\"true\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let pod = cluster.lock().get::<Pod>("ns/p").cloned().unwrap();
    cluster.lock().delete(pod.as_ref());
    let ours = cluster.lock().get::<Node>("ours").cloned().unwrap();
    cluster.lock().delete(ours.as_ref());
    let text = shown(&cluster);
    assert!(!text.contains("ours") && !text.contains("karpenter_pods_state") && text.contains("other"), "{text}");
}

// spec 07 #39 and #49
#[test]
fn pools_show_their_limits_and_conditions() {
    let cluster = SharedCluster::default();
    let pool = |limits: serde_json::Value, reason: &str| {
        json!({"metadata": {"name": "a"}, "spec": {"limits": limits, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}},
            "status": {"resources": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "False", "reason": reason,
                "message": "", "lastTransitionTime": "2026-01-01T11:59:30Z"}]}})
    };
    told::<NodePool>(&cluster, pool(json!({"cpu": "10", "memory": "1Ki"}), "One"));
    let text = shown(&cluster);
    assert!(text.contains("karpenter_nodepools_limit{resource_type=\"cpu\",nodepool=\"a\"} 10\n"), "{text}");
    assert!(text.contains("karpenter_nodepools_limit{resource_type=\"memory\",nodepool=\"a\"} 1024\n"));
    assert!(text.contains("karpenter_nodepools_usage{resource_type=\"cpu\",nodepool=\"a\"} 4\n"));
    assert!(text.contains("operator_nodepool_status_condition_current_status_seconds{namespace=\"\",name=\"a\",type=\"Ready\",status=\"False\",reason=\"One\"} 30\n"));
    told::<NodePool>(&cluster, pool(json!({"cpu": "10"}), "Two"));
    let text = shown(&cluster);
    assert!(!text.contains("memory") && !text.contains("One") && text.contains("reason=\"Two\""), "{text}");
}
