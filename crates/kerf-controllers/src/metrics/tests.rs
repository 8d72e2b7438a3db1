//! Series appear when something is counted and disappear with their object. The output is
//! Prometheus' text format (spec 07 §6).

mod offerings;
mod provider;
mod table;

use kerf_api::nodepool::NodePool;
use kerf_api::slim::{Node, Pod};
use serde_json::json;

use super::*;
use kerf_operator::SharedCluster;

const EC2_NODE_CLASS: kerf_cloud::NodeClassKind = kerf_cloud::NodeClassKind {
    group: "karpenter.k8s.aws",
    version: "v1",
    kind: "EC2NodeClass",
    plural: "ec2nodeclasses",
};

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

#[test]
fn output_is_in_the_prometheus_text_format() {
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
        assert!(text.lines().any(|served| served == line), "{line} in {text}");
    }
}

#[test]
fn buckets_are_the_published_ones() {
    assert_eq!(exponential_buckets(1.0, 11).last(), Some(&1024.0));
    assert_eq!(LIFETIME_BUCKETS.map(|seconds| seconds / 3600.0)[3..6], [1.0, 2.0, 4.0]);
    assert!(DURATION_BUCKETS.is_sorted() && LIFETIME_BUCKETS.is_sorted());
    let metrics = Metrics::new();
    assert!(metrics.text(noon()).contains("karpenter_build_info{version="));
}

fn apply_object<T: serde::de::DeserializeOwned + kerf_state::Tracked>(
    cluster: &SharedCluster,
    object: serde_json::Value,
) {
    cluster.lock().apply::<T>(serde_json::from_value(object).unwrap());
}

fn state_metrics(cluster: &SharedCluster) -> String {
    state_metrics_at(cluster, &Metrics::new(), noon())
}

fn state_metrics_at(cluster: &SharedCluster, metrics: &Metrics, now: Timestamp) -> String {
    let input = StateMetricsInput {
        metrics,
        well_known: &["karpenter.sh/nodepool", "topology.kubernetes.io/zone"],
        node_class_keys: &["karpenter.kwok.sh/kwoknodeclass".to_owned()],
        reported_class: Some(EC2_NODE_CLASS),
        has_reserved: true,
        has_object_gauges: true,
        now,
    };
    state_text(cluster, &input)
}

// spec 07 #14
#[test]
fn conditions_of_node_classes_are_shown_without_the_gauges_of_other_objects() {
    let cluster = SharedCluster::default();
    let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T11:59:00Z"});
    let class: kerf_state::NodeClass =
        serde_json::from_value(json!({"metadata": {"name": "c"}, "status": {"conditions": [condition]}})).unwrap();
    let class = class.with_kind("karpenter.k8s.aws", "v1", "EC2NodeClass");
    cluster.lock().reset_node_classes("karpenter.k8s.aws", "EC2NodeClass", vec![class]);
    apply_object::<NodePool>(
        &cluster,
        json!({"metadata": {"name": "a"}, "spec": {"limits": {"cpu": "1"}, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}}}},
            "status": {"conditions": [condition]}}),
    );
    let metrics = Metrics::new();
    let input = |has_object_gauges| StateMetricsInput {
        metrics: &metrics,
        well_known: &[],
        node_class_keys: &[],
        reported_class: Some(EC2_NODE_CLASS),
        has_reserved: true,
        has_object_gauges,
        now: noon(),
    };
    for has_object_gauges in [true, false] {
        let text = state_text(&cluster, &input(has_object_gauges));
        let has = |start: &str| text.lines().any(|line| line.starts_with(start));
        assert!(has("operator_ec2nodeclass_status_condition_count{"), "{text}");
        assert_eq!(has("operator_nodepool_status_condition_count{"), has_object_gauges, "{text}");
        assert_eq!(has("karpenter_nodepools_limit{"), has_object_gauges, "{text}");
    }
}

// spec 07 #38, #40 and #41, spec 04 #141
#[test]
fn series_of_nodes_and_pods_disappear_with_their_objects() {
    let cluster = SharedCluster::default();
    let node = |name: &str, labels: serde_json::Value| {
        json!({"metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T11:59:00Z"},
            "status": {"capacity": {"cpu": "2", "memory": "1Gi"}, "allocatable": {"cpu": "1500m", "memory": "1Gi"}}})
    };
    apply_object::<Node>(
        &cluster,
        node("ours", json!({"karpenter.sh/nodepool": "a", "topology.kubernetes.io/zone": "z"})),
    );
    apply_object::<Node>(&cluster, node("other", json!({})));
    apply_object::<Pod>(
        &cluster,
        json!({"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]}, "spec": {"nodeName": "ours", "containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let text = state_metrics(&cluster);
    for line in [
        "karpenter_nodes_allocatable{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\",resource_type=\"cpu\"} 1.5",
        "karpenter_nodes_allocatable{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\",resource_type=\"memory\"} 1073741824",
        "karpenter_nodes_allocatable{node_name=\"other\",phase=\"\",managed=\"false\",nodepool=\"\",zone=\"\",resource_type=\"cpu\"} 1.5",
        "karpenter_nodes_system_overhead{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\",resource_type=\"cpu\"} 0.5",
        "karpenter_nodes_current_lifetime_seconds{node_name=\"ours\",phase=\"\",managed=\"true\",nodepool=\"a\",zone=\"z\"} 60",
        "karpenter_pods_state{name=\"p\",namespace=\"ns\",owner=\"/apis/apps/v1/namespaces/ns/replicasets/r\",node=\"ours\",scheduled=\"true\",nodepool=\"a\",zone=\"z\",arch=\"\",capacity_type=\"\",instance_type=\"\",phase=\"Running\",ready=\"true\",managed=\"true\"} 1",
    ] {
        assert!(text.lines().any(|served| served == line), "{line} in {text}");
    }
    let pod = cluster.lock().get::<Pod>("ns/p").cloned().unwrap();
    cluster.lock().delete(pod.as_ref());
    let ours = cluster.lock().get::<Node>("ours").cloned().unwrap();
    cluster.lock().delete(ours.as_ref());
    let text = state_metrics(&cluster);
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
    apply_object::<NodePool>(&cluster, pool(json!({"cpu": "10", "memory": "1Ki"}), "One"));
    let text = state_metrics(&cluster);
    assert!(text.contains("karpenter_nodepools_limit{resource_type=\"cpu\",nodepool=\"a\"} 10\n"), "{text}");
    assert!(text.contains("karpenter_nodepools_limit{resource_type=\"memory\",nodepool=\"a\"} 1024\n"));
    assert!(text.contains("karpenter_nodepools_usage{resource_type=\"cpu\",nodepool=\"a\"} 4\n"));
    assert!(text.contains("operator_nodepool_status_condition_current_status_seconds{namespace=\"\",name=\"a\",type=\"Ready\",status=\"False\",reason=\"One\"} 30\n"));
    apply_object::<NodePool>(&cluster, pool(json!({"cpu": "10"}), "Two"));
    let text = state_metrics(&cluster);
    assert!(!text.contains("memory") && !text.contains("One") && text.contains("reason=\"Two\""), "{text}");
}

/// The sums of the pods on a node, and their share of all allocatable resources.
// spec 07 §6.2, spec 04 §13.1
#[test]
fn nodes_show_the_requests_and_limits_of_their_pods() {
    let cluster = SharedCluster::default();
    apply_object::<Node>(&cluster, json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}));
    apply_object::<Node>(
        &cluster,
        json!({"metadata": {"name": "idle"}, "status": {"allocatable": {"cpu": "4", "gpu": "0"}}}),
    );
    let pod = |name: &str, phase: &str, owner: &str| {
        json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u"}]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}}]},
            "status": {"phase": phase}})
    };
    apply_object::<Pod>(&cluster, pod("web", "Running", "ReplicaSet"));
    apply_object::<Pod>(&cluster, pod("daemon", "Running", "DaemonSet"));
    apply_object::<Pod>(&cluster, pod("done", "Succeeded", "Job"));
    let text = state_metrics(&cluster);
    let labels = "node_name=\"n\",phase=\"\",managed=\"false\",nodepool=\"\",zone=\"\",resource_type=\"cpu\"";
    for (name, value) in [
        ("total_pod_requests", 1.0),
        ("total_pod_limits", 2.0),
        ("total_daemon_requests", 0.5),
        ("total_daemon_limits", 1.0),
    ] {
        let line = format!("karpenter_nodes_{name}{{{labels}}} {value}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains("karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 12.5\n"), "{text}");
    assert!(!text.contains("karpenter_cluster_utilization_percent{resource_type=\"gpu\"}"));
}

/// A pod whose changes are fed to the metrics.
struct TrackedPod {
    metrics: Metrics,
    cluster: SharedCluster,
}

impl TrackedPod {
    fn new() -> Self {
        Self { metrics: Metrics::new(), cluster: SharedCluster::default() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(noon().as_second() + second).unwrap()
    }

    /// Changes phase and conditions of the pod, which was created at noon.
    fn update(&self, second: i64, phase: &str, conditions: &[&str]) {
        let conditions: Vec<serde_json::Value> = conditions
            .iter()
            .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": Self::at(second).to_string()}))
            .collect();
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": noon().to_string()},
            "spec": {"containers": []}, "status": {"phase": phase, "conditions": conditions}});
        let change = self.cluster.lock().apply::<Pod>(serde_json::from_value(pod).unwrap()).unwrap();
        self.metrics.pod_changed(&change, Self::at(second));
    }

    fn delete(&self, second: i64) {
        let pod = self.cluster.lock().get::<Pod>("ns/p").cloned().unwrap();
        let change = self.cluster.lock().delete(pod.as_ref()).unwrap();
        self.metrics.pod_changed(&change, Self::at(second));
    }

    fn decide(&self, second: i64, is_placed: bool) {
        let pod = [kerf_api::slim::Str::new_static("ns/p")];
        let (placed, unplaced) = if is_placed { (&pod[..], &[][..]) } else { (&[][..], &pod[..]) };
        self.metrics.pods_decided(placed.iter(), unplaced.iter(), Self::at(second));
    }

    /// Returns the current value of a gauge of the pod.
    fn gauge(&self, second: i64, name: &str) -> Option<f64> {
        let text = state_metrics_at(&self.cluster, &self.metrics, Self::at(second));
        let head = format!("karpenter_pods_{name}_time_seconds{{name=\"p\",namespace=\"ns\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&head)).map(|value| value.parse().unwrap())
    }
}

// spec 07 #42, #44, #45
#[test]
fn a_pod_is_tracked_until_it_is_ready() {
    let pod = TrackedPod::new();
    pod.update(0, "Pending", &[]);
    assert_eq!(pod.gauge(5, "unstarted"), Some(5.0));
    assert_eq!(pod.gauge(5, "unbound"), Some(5.0));
    assert_eq!(pod.gauge(5, "provisioning_scheduling_undecided"), None, "no pass has seen the pod");
    pod.metrics.pod_acknowledged("ns/p", TrackedPod::at(2));
    pod.metrics.pod_acknowledged("ns/p", TrackedPod::at(4));
    assert_eq!(pod.gauge(5, "provisioning_scheduling_undecided"), Some(3.0));
    assert_eq!(pod.gauge(5, "provisioning_unstarted"), None, "no pass has placed the pod");
    pod.decide(6, true);
    assert_eq!(pod.gauge(7, "provisioning_scheduling_undecided"), None);
    assert_eq!(pod.metrics.pods_scheduling_decision_duration.count(&[]), 1);
    assert_eq!((pod.gauge(8, "provisioning_unbound"), pod.gauge(8, "provisioning_unstarted")), (Some(2.0), Some(2.0)));
    pod.update(10, "Pending", &["PodScheduled"]);
    pod.update(20, "Running", &["PodScheduled", "Ready"]);
    for name in
        ["unstarted", "unbound", "provisioning_unstarted", "provisioning_unbound", "provisioning_scheduling_undecided"]
    {
        assert_eq!(pod.gauge(21, name), None, "{name}");
    }
    let durations = &pod.metrics.pod_durations;
    let counts = || {
        (
            durations.startup.count(&[]),
            durations.bound.count(&[]),
            durations.provisioning_startup.count(&[]),
            durations.provisioning_bound.count(&[]),
        )
    };
    assert_eq!(counts(), (1, 1, 1, 1));
    pod.update(30, "Running", &["PodScheduled", "Ready"]);
    assert_eq!(counts(), (1, 1, 1, 1), "once");
    assert!(pod.metrics.text(TrackedPod::at(30)).contains("karpenter_pods_startup_duration_seconds_sum 20\n"));
}

// spec 07 #43, spec 04 #139
#[test]
fn a_pod_that_ends_before_it_is_ready_is_not_measured() {
    for phase in ["Succeeded", "Failed"] {
        let pod = TrackedPod::new();
        pod.update(0, "Pending", &[]);
        assert!(pod.gauge(1, "unstarted").is_some());
        pod.update(5, phase, &["PodScheduled"]);
        assert_eq!((pod.gauge(6, "unstarted"), pod.gauge(6, "unbound")), (None, None));
        assert_eq!(pod.metrics.pod_durations.startup.count(&[]), 0);
    }
    let pod = TrackedPod::new();
    pod.update(0, "Pending", &[]);
    pod.delete(3);
    assert_eq!(pod.gauge(4, "unstarted"), None);
    // A pod that was running when it was first seen.
    pod.update(0, "Running", &["PodScheduled", "Ready"]);
    assert_eq!(pod.metrics.pod_durations.startup.count(&[]), 0);
}

// spec 04 #140
#[test]
fn the_unbound_time_stops_when_a_pending_pod_is_bound() {
    let pod = TrackedPod::new();
    pod.update(0, "Pending", &[]);
    pod.update(10, "Pending", &["PodScheduled"]);
    assert_eq!((pod.gauge(50, "unbound"), pod.gauge(50, "unstarted")), (Some(10.0), Some(50.0)));
    pod.update(60, "Running", &["PodScheduled"]);
    assert_eq!((pod.gauge(61, "unbound"), pod.gauge(61, "unstarted")), (None, Some(61.0)));
}

// spec 04 #34
#[test]
fn the_first_decision_that_places_a_pod_counts() {
    let pod = TrackedPod::new();
    pod.update(0, "Pending", &[]);
    pod.decide(10, true);
    pod.decide(20, true);
    assert_eq!(pod.gauge(30, "provisioning_unbound"), Some(20.0));
    pod.decide(30, false);
    assert_eq!(pod.gauge(31, "provisioning_unbound"), None);
    pod.update(40, "Pending", &["PodScheduled"]);
    pod.decide(50, true);
    assert_eq!(pod.gauge(51, "provisioning_unbound"), None, "the pod is bound already");
}

// spec 07 #47
#[test]
fn the_created_metric_shows_whether_min_values_were_relaxed() {
    let metrics = Metrics::new();
    let relaxed = json!({"metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "p"},
        "annotations": {"karpenter.sh/nodeclaim-min-values-relaxed": "true"}},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}});
    metrics.claim_created(&serde_json::from_value(relaxed).unwrap(), "provisioned");
    let line =
        "karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"p\",min_values_relaxed=\"true\"} 1\n";
    assert!(metrics.text(noon()).contains(line));
}

// spec 07 #48
#[test]
fn consolidation_timeouts_have_series_from_the_start() {
    let text = Metrics::new().text(noon());
    for kind in ["multi", "single"] {
        let line =
            format!("karpenter_voluntary_disruption_consolidation_timeouts_total{{consolidation_type=\"{kind}\"}} 0\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}
