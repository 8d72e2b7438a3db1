//! Owners and dependents, namespaces, PodDisruptionBudgets, volumes.

use std::time::Duration;

use kerf_sandbox::{Delay, Timing};
use serde_json::{Value, json};

use super::{DEPLOYMENTS, PODS, SETS, advance_seconds, create, delete, deployment, list, patch, phases, read, start};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn create_map(cluster: &kerf_sandbox::Cluster, name: &str, owner: Option<(&Value, bool)>) -> Value {
    let mut object = json!({"metadata": {"name": name}});
    if let Some((owner, blocks)) = owner {
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocks,
        }]);
    }
    create(cluster, MAPS, object).await
}

async fn map_names(cluster: &kerf_sandbox::Cluster) -> Vec<String> {
    let all = list(cluster, MAPS).await;
    let names = all.iter().map(|map| map["metadata"]["name"].as_str().unwrap().to_string());
    names.filter(|name| !name.starts_with("kube-")).collect()
}

#[tokio::test(start_paused = true)]
async fn dependents_of_all_generations_are_deleted_with_their_owner() {
    let cluster = start(Timing::INSTANT);
    let grandmother = create_map(&cluster, "a-grandmother", None).await;
    let mother = create_map(&cluster, "b-mother", Some((&grandmother, true))).await;
    create_map(&cluster, "c-child", Some((&mother, true))).await;
    create_map(&cluster, "d-stranger", None).await;
    advance_seconds(1).await;
    delete(&cluster, &format!("{MAPS}/a-grandmother"), json!({"propagationPolicy": "Background"})).await;
    advance_seconds(1).await;
    assert_eq!(map_names(&cluster).await, ["d-stranger"]);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let cluster = start(Timing::INSTANT);
    let owner = create_map(&cluster, "owner", None).await;
    create_map(&cluster, "blocks", Some((&owner, true))).await;
    create_map(&cluster, "does-not", Some((&owner, false))).await;
    patch(&cluster, &format!("{MAPS}/blocks"), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    patch(&cluster, &format!("{MAPS}/does-not"), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    delete(&cluster, &format!("{MAPS}/owner"), json!({"propagationPolicy": "Foreground"})).await;
    advance_seconds(1).await;
    assert_eq!(map_names(&cluster).await, ["blocks", "does-not", "owner"]);
    patch(&cluster, &format!("{MAPS}/blocks"), json!({"metadata": {"finalizers": null}})).await;
    advance_seconds(1).await;
    assert_eq!(map_names(&cluster).await, ["does-not"], "the one that does not block may take its time");
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_a_second_owner_keeps_its_dependents() {
    let cluster = start(Timing::INSTANT);
    let one = create_map(&cluster, "one", None).await;
    let two = create_map(&cluster, "two", None).await;
    create_map(&cluster, "orphan", Some((&one, true))).await;
    let shared = create_map(&cluster, "shared", Some((&two, true))).await;
    let mut owners = shared["metadata"]["ownerReferences"].clone();
    owners.as_array_mut().unwrap().push(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "orphan", "uid": read(&cluster, &format!("{MAPS}/orphan")).await.unwrap()["metadata"]["uid"],
    }));
    patch(&cluster, &format!("{MAPS}/shared"), json!({"metadata": {"ownerReferences": owners}})).await;
    delete(&cluster, &format!("{MAPS}/one"), json!({"propagationPolicy": "Orphan"})).await;
    delete(&cluster, &format!("{MAPS}/two"), json!({"propagationPolicy": "Background"})).await;
    advance_seconds(1).await;
    assert_eq!(map_names(&cluster).await, ["orphan", "shared"]);
    let orphan = read(&cluster, &format!("{MAPS}/orphan")).await.unwrap();
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
    let shared = read(&cluster, &format!("{MAPS}/shared")).await.unwrap();
    assert_eq!(shared["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{shared}");
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_never_existed_is_deleted() {
    let cluster = start(Timing::INSTANT);
    let ghost = json!({"metadata": {"name": "ghost", "uid": "11111111-1111-4111-8111-111111111111"}});
    create_map(&cluster, "haunted", Some((&ghost, true))).await;
    advance_seconds(1).await;
    assert!(map_names(&cluster).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_emptied_before_it_is_deleted() {
    let cluster = start(Timing { pod_stop: Delay::fixed(Duration::from_secs(10)), ..Timing::INSTANT });
    cluster.add_nodes(1).unwrap();
    create(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    create(&cluster, "/apis/apps/v1/namespaces/shop/deployments", deployment("web", 2)).await;
    advance_seconds(5).await;
    assert!(read(&cluster, "/api/v1/namespaces/shop/serviceaccounts/default").await.is_some());
    delete(&cluster, "/api/v1/namespaces/shop", json!({})).await;
    advance_seconds(5).await;
    let namespace = read(&cluster, "/api/v1/namespaces/shop").await.unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(list(&cluster, "/api/v1/namespaces/shop/pods").await.len(), 2, "the pods are still ending");
    advance_seconds(10).await;
    assert!(read(&cluster, "/api/v1/namespaces/shop").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_counts_the_replicas_that_owners_want() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    create(&cluster, DEPLOYMENTS, deployment("web", 5)).await;
    let budget = |name: &str, key: &str, value: Value| json!({"metadata": {"name": name}, "spec": {key: value, "selector": {"matchLabels": {"app": "web"}}}});
    create(&cluster, BUDGETS, budget("percent", "maxUnavailable", json!("30%"))).await;
    create(&cluster, BUDGETS, budget("least", "minAvailable", json!(4))).await;
    create(&cluster, BUDGETS, budget("share", "minAvailable", json!("50%"))).await;
    advance_seconds(2).await;
    let numbers = async |name: &str| {
        let status = read(&cluster, &format!("{BUDGETS}/{name}")).await.unwrap()["status"].clone();
        ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
            .map(|field| status[field].as_i64().unwrap())
    };
    assert_eq!(numbers("percent").await, [5, 5, 3, 2], "30% of 5 is 2, rounded up");
    assert_eq!(numbers("least").await, [5, 5, 4, 1]);
    assert_eq!(numbers("share").await, [5, 5, 3, 2]);
    patch(&cluster, &format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 3}})).await;
    advance_seconds(2).await;
    assert_eq!(numbers("percent").await, [3, 3, 2, 1]);
    assert_eq!(numbers("least").await, [3, 3, 4, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_recreate_rollout_never_mixes_old_and_new_pods() {
    let cluster = start(Timing { pod_stop: Delay::fixed(Duration::from_secs(10)), ..Timing::INSTANT });
    cluster.add_nodes(1).unwrap();
    let mut object = deployment("web", 3);
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    create(&cluster, DEPLOYMENTS, object).await;
    advance_seconds(2).await;
    let next = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}});
    patch(&cluster, &format!("{DEPLOYMENTS}/web"), next).await;
    advance_seconds(5).await;
    assert_eq!(phases(&cluster).await, "Terminating=3");
    advance_seconds(10).await;
    assert_eq!(phases(&cluster).await, "Running=3");
    assert_eq!(list(&cluster, SETS).await.len(), 2);
    assert!(list(&cluster, PODS).await.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "nginx:2"));
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_attached_before_the_pod_starts_and_detached_after_it() {
    let cluster = start(Timing { volume_attach: Delay::fixed(Duration::from_secs(20)), ..Timing::INSTANT });
    cluster.add_nodes(1).unwrap();
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    create(&cluster, "/apis/storage.k8s.io/v1/storageclasses", class).await;
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    create(&cluster, "/api/v1/namespaces/default/persistentvolumeclaims", claim).await;
    let pod = json!({
        "metadata": {"name": "db"},
        "spec": {
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [{"name": "c", "image": "c", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        },
    });
    create(&cluster, PODS, pod).await;
    advance_seconds(35).await;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attached = list(&cluster, attachments).await;
    assert_eq!(attached.len(), 1, "{attached:?}");
    assert_eq!(phases(&cluster).await, "Pending=1", "it is not attached yet");
    advance_seconds(20).await;
    assert_eq!(phases(&cluster).await, "Running=1");
    assert_eq!(list(&cluster, attachments).await[0]["status"]["attached"], true);
    delete(&cluster, &format!("{PODS}/db"), json!({})).await;
    advance_seconds(5).await;
    assert!(list(&cluster, attachments).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_an_evicted_pod_again_when_its_own_two_minutes_are_over() {
    let cluster = start(Timing::INSTANT);
    cluster.add_nodes(1).unwrap();
    for name in ["a", "b"] {
        let mut pod = crate::raw::pod(name);
        pod["metadata"]["labels"] = json!({"app": "web"});
        create(&cluster, PODS, pod).await;
    }
    let spec = json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}});
    create(&cluster, BUDGETS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    advance_seconds(120).await;
    // Pod a was evicted 100 seconds ago, pod b just now; neither was deleted.
    let disrupted = json!({"a": "2026-01-01T00:00:20Z", "b": "2026-01-01T00:02:00Z"});
    patch(&cluster, &format!("{BUDGETS}/web/status"), json!({"status": {"disruptedPods": disrupted}})).await;
    let healthy = async || {
        let budget = read(&cluster, &format!("{BUDGETS}/web")).await.unwrap();
        budget["status"]["currentHealthy"].as_i64()
    };
    advance_seconds(10).await;
    assert_eq!(healthy().await, Some(0));
    advance_seconds(15).await;
    assert_eq!(healthy().await, Some(1), "pod a counts again after two minutes");
    advance_seconds(100).await;
    assert_eq!(healthy().await, Some(2));
}
