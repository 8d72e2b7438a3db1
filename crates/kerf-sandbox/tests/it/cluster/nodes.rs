//! Nodes and instances: simulated kubelets, missed heartbeats, taints, garbage collection.

use std::time::Duration;

use kerf_sandbox::{CloudFault, CloudFaultRule, Delay, Timing};
use serde_json::{Value, json};

use super::{DEPLOYMENTS, PODS, advance_seconds, create, delete, deployment, list, patch, phases, read, start};

fn ready(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == "Ready").map_or_else(String::new, |condition| {
        format!("{} {}", condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap())
    })
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_with_the_kwok_annotation_becomes_ready() {
    let cluster = start(Timing { node_ready: Delay::fixed(Duration::from_secs(20)), ..Timing::INSTANT });
    // The Node that the kwok provider creates on any cluster that runs KWOK.
    let node = |name: &str, annotations: Value| {
        json!({
            "metadata": {"name": name, "annotations": annotations, "labels": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {
                "providerID": format!("kwok://{name}"),
                "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
            },
            "status": {"phase": "Pending", "capacity": {"cpu": "2", "memory": "4Gi", "pods": "32"}},
        })
    };
    create(&cluster, "/api/v1/nodes", node("simulated", json!({"kwok.x-k8s.io/node": "fake"}))).await;
    create(&cluster, "/api/v1/nodes", node("real", json!({}))).await;
    advance_seconds(19).await;
    let simulated = read(&cluster, "/api/v1/nodes/simulated").await.unwrap();
    assert_eq!(ready(&simulated), "");
    assert_eq!(taints(&simulated), ["karpenter.sh/unregistered:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"]);
    advance_seconds(2).await;
    let simulated = read(&cluster, "/api/v1/nodes/simulated").await.unwrap();
    assert_eq!(ready(&simulated), "True KubeletReady");
    assert_eq!(taints(&simulated), ["karpenter.sh/unregistered:NoExecute"], "only the provider's taint is left");
    assert_eq!(simulated["status"]["allocatable"]["cpu"], "2");
    assert!(read(&cluster, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/simulated").await.is_some());
    advance_seconds(60).await;
    let real = read(&cluster, "/api/v1/nodes/real").await.unwrap();
    assert_eq!(ready(&real), "Unknown NodeStatusNeverUpdated", "no kubelet runs for the node");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_renews_its_lease_and_takes_it_back_from_another_holder() {
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    advance_seconds(1).await;
    let first = read(&cluster, LEASE).await.unwrap();
    advance_seconds(10).await;
    let second = read(&cluster, LEASE).await.unwrap();
    let time = |lease: &Value| lease["spec"]["renewTime"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(time(&second).duration_since(time(&first)), jiff::SignedDuration::from_secs(10));
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let managed_fields = |lease: &Value| lease["metadata"]["managedFields"][0].clone();
    assert_eq!(managed_fields(&second)["fieldsV1"], managed_fields(&first)["fieldsV1"]);
    assert_eq!(managed_fields(&second)["time"], "2026-01-01T00:00:10Z", "it is owned as of the renewal");
    assert_eq!(second["metadata"]["ownerReferences"], first["metadata"]["ownerReferences"]);

    patch(&cluster, LEASE, json!({"spec": {"holderIdentity": "somebody", "renewTime": null}})).await;
    advance_seconds(10).await;
    let third = read(&cluster, LEASE).await.unwrap();
    assert_eq!(third["spec"]["holderIdentity"], "node-1");
    assert_eq!(time(&third).duration_since(time(&second)), jiff::SignedDuration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_loses_its_pods_after_five_minutes_and_can_recover() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    create(&cluster, DEPLOYMENTS, deployment("web", 2)).await;
    advance_seconds(60).await;
    assert_eq!(phases(&cluster).await, "Running=2");
    cluster.instances().kill_kubelet("node-1");
    advance_seconds(35).await;
    let node = read(&cluster, "/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(ready(&node), "True KubeletReady", "not silent for long enough");
    advance_seconds(30).await;
    let node = read(&cluster, "/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(ready(&node), "Unknown NodeStatusUnknown");
    assert_eq!(
        taints(&node),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    let pod = &list(&cluster, PODS).await[0];
    let unready = pod["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "False");
    assert!(unready, "{}", pod["status"]);
    advance_seconds(300).await;
    assert_eq!(phases(&cluster).await, "Pending=2 Terminating=2", "evicted, and no kubelet stops them");
    cluster.instances().restart_kubelet("node-1");
    advance_seconds(30).await;
    let node = read(&cluster, "/api/v1/nodes/node-1").await.unwrap();
    assert_eq!((ready(&node), taints(&node)), ("True KubeletReady".into(), vec![]));
    assert_eq!(phases(&cluster).await, "Running=2");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_deleted() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(2).unwrap();
    create(&cluster, DEPLOYMENTS, deployment("web", 4)).await;
    advance_seconds(10).await;
    delete(&cluster, "/api/v1/nodes/node-1", json!({})).await;
    advance_seconds(30).await;
    let on_deleted_node = |pods: Vec<Value>| pods.iter().filter(|pod| pod["spec"]["nodeName"] == "node-1").count();
    assert!(on_deleted_node(list(&cluster, PODS).await) > 0, "in quarantine");
    advance_seconds(30).await;
    assert_eq!(on_deleted_node(list(&cluster, PODS).await), 0);
    assert_eq!(phases(&cluster).await, "Running=4");
    assert!(read(&cluster, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn toleration_seconds_limit_how_long_a_pod_stays() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    let pod = |name: &str, tolerations: Value| {
        json!({
            "metadata": {"name": name},
            "spec": {"tolerations": tolerations, "nodeName": "node-1", "containers": [{"name": "c", "image": "c"}]},
        })
    };
    create(&cluster, PODS, pod("none", json!([]))).await;
    create(
        &cluster,
        PODS,
        pod("short", json!([{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}])),
    )
    .await;
    create(&cluster, PODS, pod("long", json!([{"key": "x", "operator": "Exists"}]))).await;
    advance_seconds(5).await;
    patch(&cluster, "/api/v1/nodes/node-1", json!({"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}})).await;
    let names = |pods: Vec<Value>| {
        pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    advance_seconds(5).await;
    assert_eq!(names(list(&cluster, PODS).await), ["long", "short"]);
    advance_seconds(60).await;
    assert_eq!(names(list(&cluster, PODS).await), ["long"]);
}

#[tokio::test(start_paused = true)]
async fn instances_boot_slowly_never_join_and_are_interrupted() {
    let cluster = start(Timing::INSTANT);
    let only = |zone: &str, fault| CloudFaultRule { zones: vec![zone.into()], ..CloudFaultRule::new(fault, 1_000_000) };
    let minutes = Duration::from_mins;
    cluster.cloud().set_faults(
        vec![
            only("zone-a", CloudFault::NeverJoins),
            only("zone-b", CloudFault::SlowBoot { by: Duration::from_secs(40) }),
            only("zone-c", CloudFault::Interruption { after: minutes(2) }),
        ],
        1,
    );
    cluster.add_nodes(3).unwrap();
    let states = async || {
        let nodes = list(&cluster, "/api/v1/nodes").await;
        nodes.iter().map(ready).collect::<Vec<_>>()
    };
    advance_seconds(10).await;
    assert_eq!(states().await, ["", "", "True KubeletReady"]);
    advance_seconds(40).await;
    assert_eq!(states().await, ["", "True KubeletReady", "True KubeletReady"]);
    advance_seconds(200).await;
    assert_eq!(states().await, ["Unknown NodeStatusNeverUpdated", "True KubeletReady"], "the third node is deleted");
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_is_honoured_and_can_be_cut_short() {
    let cluster = start(Timing { pod_stop: Delay::fixed(Duration::from_mins(10)), ..Timing::INSTANT });
    cluster.add_nodes(1).unwrap();
    for name in ["slow", "cut"] {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 120, "containers": [{"name": "c", "image": "c"}]},
        });
        create(&cluster, PODS, pod).await;
    }
    advance_seconds(5).await;
    delete(&cluster, &format!("{PODS}/slow"), json!({})).await;
    delete(&cluster, &format!("{PODS}/cut"), json!({})).await;
    advance_seconds(60).await;
    assert_eq!(phases(&cluster).await, "Terminating=2");
    delete(&cluster, &format!("{PODS}/cut"), json!({"gracePeriodSeconds": 5})).await;
    advance_seconds(10).await;
    assert_eq!(phases(&cluster).await, "Terminating=1");
    advance_seconds(60).await;
    assert_eq!(phases(&cluster).await, "");
}

/// Starts a cluster with this fault for every instance, and adds a node.
async fn start_with_fault(fault: CloudFault) -> kerf_sandbox::Cluster {
    let cluster = start(Timing::INSTANT);
    cluster.cloud().set_faults(vec![CloudFaultRule::new(fault, 1_000_000)], 1);
    cluster.add_nodes(1).unwrap();
    advance_seconds(1).await;
    cluster
}

async fn readiness(cluster: &kerf_sandbox::Cluster) -> String {
    ready(&read(cluster, "/api/v1/nodes/node-1").await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_never_ready_has_a_kubelet() {
    let cluster = start_with_fault(CloudFault::NeverReady).await;
    for _ in 0..3 {
        advance_seconds(3600).await;
        assert_eq!(readiness(&cluster).await, "False KubeletNotReady", "its heartbeats continue");
    }
    let node = read(&cluster, "/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(taints(&node), ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_kubelet_sends_no_heartbeats() {
    let fault = CloudFault::KubeletDeath { after: Duration::from_mins(10) };
    let cluster = start_with_fault(fault).await;
    advance_seconds(590).await;
    assert_eq!(readiness(&cluster).await, "True KubeletReady");
    advance_seconds(120).await;
    assert_eq!(readiness(&cluster).await, "Unknown NodeStatusUnknown");
    let cluster = start_with_fault(fault).await;
    cluster.cloud().set_faults(Vec::new(), 1);
    advance_seconds(1200).await;
    assert_eq!(readiness(&cluster).await, "True KubeletReady", "the fault has ended before the kubelet dies");
}

#[tokio::test(start_paused = true)]
async fn readiness_flaps_until_the_fault_ends() {
    let (ready_for, not_ready_for) = (Duration::from_mins(1), Duration::from_secs(30));
    let cluster = start_with_fault(CloudFault::FlappingReadiness { ready_for, not_ready_for }).await;
    let mut states = Vec::new();
    for _ in 0..600 {
        advance_seconds(1).await;
        let state = readiness(&cluster).await;
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    let expected = ["True KubeletReady", "False KubeletNotReady"];
    assert!(states.len() >= 8, "{states:?}");
    assert!(states.iter().zip(expected.iter().cycle()).all(|(state, expected)| state == expected), "{states:?}");
    cluster.cloud().set_faults(Vec::new(), 1);
    advance_seconds(200).await;
    for _ in 0..300 {
        advance_seconds(1).await;
        assert_eq!(readiness(&cluster).await, "True KubeletReady");
    }
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_is_no_missed_heartbeat() {
    let clock = kerf_runtime::Clock::with_jumps("2026-01-01T00:00:00Z".parse().unwrap());
    let config = kerf_sandbox::ClusterConfig { clock, seed: 1, timing: Timing::INSTANT };
    let cluster = kerf_sandbox::Cluster::start(config);
    cluster.add_nodes(1).unwrap();
    advance_seconds(60).await;
    assert!(clock.jump(Duration::from_hours(1)));
    for _ in 0..60 {
        advance_seconds(1).await;
        assert_eq!(readiness(&cluster).await, "True KubeletReady");
    }
    cluster.instances().kill_kubelet("node-1");
    advance_seconds(60).await;
    assert_eq!(readiness(&cluster).await, "Unknown NodeStatusUnknown", "later heartbeats are missed as before");
}
