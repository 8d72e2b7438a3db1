//! The invariants of a simulation against the list of an attached cloud, and against the Nodes of a
//! provider that keeps its instances there.

use kerf_api::crds::CrdVariant;
use kerf_sandbox::sim::{InvariantWatcher, Scenario, Simulation, Violation};
use kerf_sandbox::{Cluster, Timing, install_crds};
use serde_json::json;

use crate::cluster::{advance_seconds, create, delete, patch, start};
use crate::tiny_cloud::TinyCloud;

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// Starts a cluster that serves NodeClaims.
async fn start_with_claims() -> Cluster {
    let cluster = start(Timing::INSTANT);
    install_crds(&cluster.api().client(), CrdVariant::Kwok).await.unwrap();
    cluster
}

async fn create_claim(cluster: &Cluster, name: &str) {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {"nodeClassRef": class, "requirements": []},
    });
    create(cluster, CLAIMS, claim).await;
}

async fn set_provider_id(cluster: &Cluster, claim: &str, provider_id: &str) {
    patch(cluster, &format!("{CLAIMS}/{claim}/status"), json!({"status": {"providerID": provider_id}})).await;
}

/// Returns time, rule and message of each violation.
fn texts(violations: &[Violation]) -> Vec<String> {
    let text = |violation: &Violation| format!("{}s {}: {}", violation.at_seconds, violation.rule, violation.what);
    violations.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_claim_is_reported_when_it_reaches_the_bound() {
    let cluster = start_with_claims().await;
    let cloud = TinyCloud::attach(cluster.api());
    let watcher = InvariantWatcher::start(&cluster);
    // It never has a Node: a check of Nodes would not find it.
    cloud.break_user_data("tiny://1");
    cloud.launch("zone-a", Some("lost"));
    cloud.launch("zone-a", Some("removed"));
    advance_seconds(60).await;
    cloud.terminate("tiny://2");
    advance_seconds(59).await;
    assert_eq!(texts(&watcher.violations()), Vec::<String>::new(), "119 seconds old");
    advance_seconds(600).await;
    assert_eq!(
        texts(&watcher.violations()),
        ["120s every instance has a claim: \
             instance tiny://1, launched at 2026-01-01T00:00:00Z for lost, has no claim"],
        "once, and not for the instance that was terminated in time"
    );
}

#[tokio::test(start_paused = true)]
async fn an_instance_keeps_its_claim_from_the_launch_until_the_claim_is_deleted() {
    let cluster = start_with_claims().await;
    let cloud = TinyCloud::attach(cluster.api());
    let watcher = InvariantWatcher::start(&cluster);
    create_claim(&cluster, "slow").await;
    create_claim(&cluster, "untagged").await;
    cloud.launch("zone-a", Some("slow"));
    cloud.launch("zone-a", None);
    set_provider_id(&cluster, "untagged", "tiny://2").await;
    advance_seconds(600).await;
    assert_eq!(texts(&watcher.violations()), Vec::<String>::new(), "the claim does not know its instance yet");
    set_provider_id(&cluster, "slow", "tiny://1").await;
    advance_seconds(600).await;
    assert_eq!(texts(&watcher.violations()), Vec::<String>::new());
    delete(&cluster, &format!("{CLAIMS}/slow"), json!({})).await;
    advance_seconds(1).await;
    assert_eq!(watcher.violations().len(), 1);
    cloud.terminate("tiny://2");
    delete(&cluster, &format!("{CLAIMS}/untagged"), json!({})).await;
    advance_seconds(1).await;
    assert_eq!(
        texts(&watcher.violations()),
        ["1200s every instance has a claim: \
             instance tiny://1, launched at 2026-01-01T00:00:00Z for slow, has no claim"],
        "the second instance shuts down"
    );
}

#[tokio::test(start_paused = true)]
async fn two_live_instances_of_one_claim_are_reported_at_once() {
    let cluster = start_with_claims().await;
    let cloud = TinyCloud::attach(cluster.api());
    let watcher = InvariantWatcher::start(&cluster);
    create_claim(&cluster, "a").await;
    create_claim(&cluster, "b").await;
    cloud.launch("zone-a", Some("a"));
    advance_seconds(1).await;
    cloud.launch("zone-a", Some("b"));
    cloud.terminate("tiny://2");
    cloud.launch("zone-a", Some("b"));
    advance_seconds(1).await;
    assert_eq!(texts(&watcher.violations()), Vec::<String>::new(), "the first instance of b shuts down");
    cloud.launch("zone-a", Some("a"));
    advance_seconds(5).await;
    cloud.terminate("tiny://4");
    advance_seconds(300).await;
    assert_eq!(
        texts(&watcher.violations()),
        ["2s no claim has two instances: claim a has the instances tiny://1, tiny://4"]
    );
}

#[tokio::test(start_paused = true)]
async fn pods_that_run_on_an_instance_when_it_ends_are_counted() {
    let cluster = start_with_claims().await;
    let cloud = TinyCloud::attach(cluster.api());
    let watcher = InvariantWatcher::start(&cluster);
    for _ in 0..2 {
        cloud.launch("zone-a", None);
    }
    advance_seconds(20).await;
    for (pod, node) in [("a", "tiny-1"), ("b", "tiny-1"), ("moved", "tiny-2")] {
        let containers = json!([{"name": "c", "image": "i"}]);
        let spec = json!({"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": containers});
        let pod = json!({"metadata": {"name": pod}, "spec": spec});
        create(&cluster, "/api/v1/namespaces/default/pods", pod).await;
    }
    advance_seconds(20).await;
    delete(&cluster, "/api/v1/namespaces/default/pods/moved", json!({})).await;
    advance_seconds(40).await;
    cloud.terminate("tiny://2");
    advance_seconds(1).await;
    assert_eq!(watcher.killed_pods(), 0);
    cloud.terminate("tiny://1");
    advance_seconds(600).await;
    assert_eq!(watcher.killed_pods(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_eviction_of_a_pod_without_a_grace_period_counts_and_is_checked() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let cluster = start_with_claims().await;
    let cloud = TinyCloud::attach(cluster.api());
    let watcher = InvariantWatcher::start(&cluster);
    create_claim(&cluster, "a").await;
    cloud.launch("zone-a", Some("a"));
    advance_seconds(20).await;
    patch(&cluster, &format!("{CLAIMS}/a/status"), json!({"status": {"nodeName": "tiny-1"}})).await;
    for (name, grace) in [("at-once", 0), ("in-time", 30), ("deleted", 0)] {
        let containers = json!([{"name": "c", "image": "i"}]);
        let tolerations = json!([{"operator": "Exists"}]);
        let spec = json!({
            "nodeName": "tiny-1", "terminationGracePeriodSeconds": grace, "tolerations": tolerations,
            "containers": containers,
        });
        create(&cluster, PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    advance_seconds(20).await;
    delete(&cluster, &format!("{PODS}/deleted"), json!({})).await;
    for name in ["at-once", "in-time"] {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        create(&cluster, &format!("{PODS}/{name}/eviction"), eviction).await;
    }
    advance_seconds(40).await;
    assert_eq!(watcher.evictions(), 2);
    assert_eq!(
        texts(&watcher.violations()),
        [
            "40s no pod is evicted from a node that stays: default/at-once is evicted from tiny-1",
            "40s no pod is evicted from a node that stays: default/in-time is evicted from tiny-1",
        ]
    );
}

/// Runs a scenario of one minute without steps and without an autoscaler.
async fn simulate(cluster: &Cluster) -> Vec<String> {
    let scenario = Scenario::read(json!({"name": "quiet", "until": "1m", "steps": []})).unwrap();
    let simulation = Simulation { scenario, seed: 1, output: None };
    let report = simulation.run(cluster, |_| Box::pin(std::future::pending()), async || None, drop).await;
    texts(&report.violations)
}

#[tokio::test(start_paused = true)]
async fn after_a_run_no_instance_without_a_claim_is_left() {
    let cluster = start_with_claims().await;
    let cloud = TinyCloud::attach(cluster.api());
    for claim in ["kept", "ended", "unborn"] {
        create_claim(&cluster, claim).await;
    }
    for (number, claim) in ["kept", "ended", "leaked", "leaked-before-its-boot"].iter().enumerate() {
        let provider_id = cloud.launch("zone-a", Some(claim));
        if number < 2 {
            set_provider_id(&cluster, claim, &provider_id).await;
        }
    }
    cloud.break_user_data("tiny://4");
    advance_seconds(20).await;
    patch(&cluster, "/api/v1/nodes/tiny-2", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    cloud.terminate("tiny://2");
    let at_end: Vec<String> = simulate(&cluster).await.into_iter().filter(|text| text.starts_with("2760s")).collect();
    assert_eq!(
        at_end,
        [
            "2760s every instance has a claim: node tiny-3 has no claim",
            "2760s every instance has a claim: instance tiny://4 has neither claim nor node",
            "2760s every claim has an instance: claim ended has no instance",
            "2760s every claim has a node: claim unborn has no node",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn without_an_attached_cloud_the_instances_are_the_nodes_of_the_simulated_provider() {
    let cluster = start_with_claims().await;
    cluster.add_nodes(1).unwrap();
    for name in ["known", "stray"] {
        let node = json!({
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"providerID": format!("kwok://{name}")},
        });
        create(&cluster, "/api/v1/nodes", node).await;
    }
    for claim in ["known", "unborn"] {
        create_claim(&cluster, claim).await;
    }
    set_provider_id(&cluster, "known", "kwok://known").await;
    assert_eq!(
        simulate(&cluster).await,
        [
            "2760s every instance has a claim: node stray has no claim",
            "2760s every claim has a node: claim unborn has no node",
        ],
        "at the end of the run, and not before"
    );
}
