//! kube-rs in this process, the client that everything in the sandbox uses.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::raw::{pod, server};

fn typed<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Creates a pod that runs on a node and is ready.
async fn create_running_pod(pods: &Api<Pod>, name: &str) {
    let mut assigned = pod(name);
    assigned["spec"]["nodeName"] = json!("n1");
    pods.create(&PostParams::default(), &typed(assigned)).await.unwrap();
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test]
async fn objects_are_created_patched_listed_and_deleted() {
    let server = server();
    let nodes: Api<Node> = Api::all(server.client_as("kubelet"));
    let node: Node = typed(json!({"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": 4, "memory": "8Gi"}}}));
    let created = nodes.create(&PostParams::default(), &node).await.unwrap();
    let allocatable = created.status.unwrap().allocatable.unwrap();
    assert_eq!(
        allocatable["cpu"].0, "4",
        "nodes keep their status, and capacity is allocatable unless it says otherwise"
    );
    assert_eq!(created.spec.unwrap().taints.unwrap()[0].key, "node.kubernetes.io/not-ready");
    let patched = nodes
        .patch(
            "n1",
            &PatchParams::default(),
            &Patch::Strategic(json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}})),
        )
        .await
        .unwrap();
    assert_eq!(patched.metadata.finalizers.unwrap(), ["karpenter.sh/termination"]);
    let listed = nodes.list(&ListParams::default().fields("spec.unschedulable=false")).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    nodes.delete("n1", &DeleteParams::default()).await.unwrap();
    assert!(nodes.get("n1").await.unwrap().metadata.deletion_timestamp.is_some(), "the finalizer holds it");
}

#[tokio::test]
async fn a_pods_grace_period_is_cut_short_and_never_extended() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    create_running_pod(&pods, "a").await;
    let seconds = |pod: Pod| pod.metadata.deletion_grace_period_seconds;
    let deleting = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(seconds(deleting), Some(30));
    let sooner =
        pods.delete("a", &DeleteParams { grace_period_seconds: Some(5), ..DeleteParams::default() }).await.unwrap();
    assert_eq!(seconds(sooner.left().unwrap()), Some(5));
    let later =
        pods.delete("a", &DeleteParams { grace_period_seconds: Some(60), ..DeleteParams::default() }).await.unwrap();
    assert_eq!(seconds(later.left().unwrap()), Some(5));
    let wrong = Preconditions { uid: Some("no".into()), resource_version: None };
    let error =
        pods.delete("a", &DeleteParams { preconditions: Some(wrong), ..DeleteParams::default() }).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 409));
    pods.delete("a", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_pod_without_a_node_is_deleted_at_once() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    pods.create(&PostParams::default(), &typed(pod("a"))).await.unwrap();
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("a").await.unwrap().is_none());
}

/// The responses on which node termination relies (spec 04 §7.6): 429 while the budget allows no
/// disruption, 500 for two budgets, 404 and 409.
#[tokio::test]
async fn evictions_respect_the_disruption_budget() {
    let server = server();
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(server.client());
    for name in ["a", "b"] {
        create_running_pod(&pods, name).await;
    }
    let evict = async |name: &str| match pods.evict(name, &EvictParams::default()).await {
        Ok(_) => (201, String::new()),
        Err(kube::Error::Api(status)) => {
            let cause =
                status.details.as_ref().and_then(|details| details.causes.first()).map(|cause| cause.message.clone());
            (status.code, cause.unwrap_or_else(|| status.message.clone()))
        }
        Err(other) => panic!("{other}"),
    };
    let budget = |name: &str| typed(json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {}}}));
    budgets.create(&PostParams::default(), &budget("one")).await.unwrap();
    assert_eq!(evict("a").await, (429, "The disruption budget one is still being processed by the server.".into()));
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    budgets.patch_status("one", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(evict("a").await.0, 201);
    assert_eq!(evict("b").await, (429, "The disruption budget one needs 1 healthy pods and has 2 currently".into()));
    let status_after = budgets.get("one").await.unwrap().status.unwrap();
    assert_eq!(status_after.disruptions_allowed, Some(0));
    assert!(status_after.disrupted_pods.unwrap().contains_key("a"));
    assert_eq!(evict("a").await.0, 201, "evicting a terminating pod needs no budget");
    budgets.create(&PostParams::default(), &budget("two")).await.unwrap();
    let (code, message) = evict("b").await;
    assert_eq!(code, 500);
    assert_eq!(
        message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    assert_eq!(evict("zz").await.0, 404);
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let server = server();
    let client = server.client_as("kube-scheduler");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &typed(pod("a"))).await.unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    let bind = || {
        let request =
            http::Request::post("/api/v1/namespaces/default/pods/a/binding").header("content-type", "application/json");
        client.request::<serde_json::Value>(request.body(binding.to_string().into_bytes()).unwrap())
    };
    bind().await.unwrap();
    let bound = pods.get("a").await.unwrap();
    assert_eq!(bound.spec.unwrap().node_name.unwrap(), "n1");
    assert_eq!(bound.status.unwrap().conditions.unwrap()[0].type_, "PodScheduled");
    let error = bind().await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(status) if status.code == 409 && status.message.ends_with("pod a is already assigned to node \"n1\""))
    );
}

#[tokio::test]
async fn server_side_apply_owns_and_conflicts() {
    let server = server();
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::default_namespaced(server.client());
    let config_map =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": value}});
    maps.patch("m", &PatchParams::apply("one"), &Patch::Apply(config_map("1"))).await.unwrap();
    let error = maps.patch("m", &PatchParams::apply("two"), &Patch::Apply(config_map("2"))).await.unwrap_err();
    assert!(
        matches!(error, kube::Error::Api(status) if status.message == "Apply failed with 1 conflict: conflict with \"one\": .data.k")
    );
    let forced = maps.patch("m", &PatchParams::apply("two").force(), &Patch::Apply(config_map("2"))).await.unwrap();
    assert_eq!(forced.data.unwrap()["k"], "2");
    assert_eq!(forced.metadata.managed_fields.unwrap().len(), 1);
}
