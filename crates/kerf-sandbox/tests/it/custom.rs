//! Custom resources, tested with Kerf's own CRDs.

use http::Request;
use http_body_util::Full;
use kerf_api::crds::{self, CrdVariant};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::raw::{call, call_as, get, server};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";

async fn with_crds() -> kerf_sandbox::ApiServer {
    let server = server();
    for crd in crds::all(CrdVariant::Kwok) {
        let (code, response) = call(&server, "POST", CRDS, crd.json().clone()).await;
        assert_eq!(code, 201, "{response}");
        assert_eq!(response["status"]["conditions"][1]["type"], "Established");
    }
    server
}

fn pool(name: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}}})
}

#[tokio::test]
async fn a_crd_is_served_with_defaults_and_validation() {
    let server = with_crds().await;
    let (code, created) = call(&server, "POST", POOLS, pool("a")).await;
    assert_eq!((code, created["spec"]["disruption"]["consolidateAfter"].as_str().unwrap()), (201, "0s"), "{created}");
    assert_eq!(created["metadata"]["generation"], 1);
    assert!(
        created["metadata"]["uid"].is_string() && created["metadata"]["creationTimestamp"].is_string(),
        "{created}"
    );
    let mut invalid = pool("b");
    invalid["spec"]["weight"] = json!(1000);
    let (code, status) = call(&server, "POST", POOLS, invalid).await;
    assert_eq!((code, status["details"]["causes"][0]["field"].as_str().unwrap()), (422, "spec.weight"), "{status}");
    let mut unknown = pool("c");
    unknown["spec"]["foo"] = json!(1);
    let (code, status) = call(&server, "POST", &format!("{POOLS}?fieldValidation=Strict"), unknown).await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().unwrap().ends_with("strict decoding error: unknown field \"spec.foo\""));
    let (code, _) =
        call_as(&server, "PATCH", &format!("{POOLS}/a"), "application/strategic-merge-patch+json", json!({})).await;
    assert_eq!(code, 415, "custom resources have no merge keys");
}

#[tokio::test]
async fn status_defaults_are_set_on_creation() {
    let server = with_crds().await;
    let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "a"}});
    let (code, created) = call(&server, "POST", "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", class).await;
    assert_eq!((code, created["status"]["conditions"][0]["type"].as_str()), (201, Some("Ready")), "{created}");
}

#[tokio::test]
async fn status_and_scale_are_subresources_of_their_own() {
    let server = with_crds().await;
    call(&server, "POST", POOLS, pool("a")).await;
    let merge = "application/merge-patch+json";
    let both = json!({"spec": {"weight": 5}, "status": {"nodes": 3}});
    let (_, status) = call_as(&server, "PATCH", &format!("{POOLS}/a/status"), merge, both.clone()).await;
    assert_eq!(
        (&status["status"]["nodes"], &status["spec"]["weight"], &status["metadata"]["generation"]),
        (&json!(3), &Value::Null, &json!(1))
    );
    let (_, spec) =
        call_as(&server, "PATCH", &format!("{POOLS}/a"), merge, json!({"spec": {"weight": 5}, "status": {"nodes": 9}}))
            .await;
    assert_eq!(
        (&spec["status"]["nodes"], &spec["spec"]["weight"], &spec["metadata"]["generation"]),
        (&json!(3), &json!(5), &json!(2))
    );
    let (code, status_error) = get(&server, &format!("{POOLS}/a/scale")).await;
    assert_eq!(
        (code, status_error["message"].as_str().unwrap()),
        (500, "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist")
    );
}

#[tokio::test]
async fn an_invalid_scale_changes_nothing() {
    let server = with_crds().await;
    let mut fixed = pool("a");
    fixed["spec"]["replicas"] = json!(3);
    call(&server, "POST", POOLS, fixed).await;
    let (path, merge) = (format!("{POOLS}/a/scale"), "application/merge-patch+json");
    for replicas in [json!("5"), json!(2.5), json!(3.0), json!([]), json!(1_u64 << 31), json!(-1)] {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}});
        let (code, response) = call(&server, "PUT", &path, scale).await;
        assert_eq!(code, if replicas == -1 { 422 } else { 400 }, "{replicas}: {response}");
        let (code, response) = call_as(&server, "PATCH", &path, merge, json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(code, 422, "{replicas}: {response}");
    }
    for body in [json!({"kind": "Foo", "apiVersion": "v1"}), json!({}), json!([])] {
        let (code, response) = call(&server, "PUT", &path, body).await;
        assert_eq!(code, 400, "{response}");
    }
    let (code, scale) = get(&server, &path).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(3)), "{scale}");
    let (code, scale) = call_as(&server, "PATCH", &path, merge, json!({"spec": {"replicas": 5}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(5)), "{scale}");
}

#[tokio::test]
async fn unknown_fields_cause_warnings_even_if_the_object_is_rejected() {
    let server = with_crds().await;
    let mut invalid = pool("a");
    invalid["spec"]["foo"] = json!(1);
    invalid["spec"]["weight"] = json!(1000);
    let mut invalid_pod = crate::raw::pod("a");
    invalid_pod["spec"]["foo"] = json!(1);
    invalid_pod["metadata"]["name"] = json!("A");
    for (path, body) in [(POOLS, invalid), ("/api/v1/namespaces/default/pods", invalid_pod)] {
        let request = Request::builder().method("POST").uri(path).header("content-type", "application/json");
        let response = server.clone().oneshot(request.body(Full::from(body.to_string())).unwrap()).await.unwrap();
        assert_eq!(response.status(), 422, "{path}");
        let warnings: Vec<&str> =
            response.headers().get_all("warning").iter().map(|text| text.to_str().unwrap()).collect();
        assert_eq!(warnings, ["299 - \"unknown field \\\"spec.foo\\\"\""], "{path}");
    }
}

#[tokio::test]
async fn deleting_a_crd_deletes_its_objects() {
    let server = with_crds().await;
    let mut held = pool("held");
    held["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    call(&server, "POST", POOLS, held).await;
    call(&server, "POST", POOLS, pool("free")).await;
    let name = format!("{CRDS}/nodepools.karpenter.sh");
    assert_eq!(call(&server, "DELETE", &name, Value::Null).await.0, 200);
    assert_eq!(get(&server, &format!("{POOLS}/free")).await.0, 404);
    assert_eq!(get(&server, &name).await.0, 200, "an object is left");
    assert_eq!(call(&server, "POST", POOLS, pool("late")).await.0, 405, "no new object is accepted");
    let (code, _) = call_as(
        &server,
        "PATCH",
        &format!("{POOLS}/held"),
        "application/merge-patch+json",
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(code, 200);
    assert_eq!(get(&server, &name).await.0, 404);
    assert_eq!(get(&server, POOLS).await.0, 404, "and the resource is no longer served");
    assert_eq!(
        call(&server, "POST", CRDS, crds::of::<kerf_api::nodepool::NodePool>(CrdVariant::Kwok).json().clone()).await.0,
        201
    );
    assert_eq!(get(&server, POOLS).await.1["items"], json!([]), "the kind can be created again, without objects");
}

#[tokio::test]
async fn an_invalid_crd_is_rejected() {
    let server = server();
    let crd = json!({"metadata": {"name": "foos.example.com"}, "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"}, "versions": []}});
    let (code, status) = call(&server, "POST", CRDS, crd).await;
    assert_eq!((code, status["reason"].as_str().unwrap()), (422, "Invalid"), "{status}");
}

/// A fork has the objects of its origin at the same versions. Afterwards neither affects the other.
#[tokio::test]
async fn a_fork_is_independent_of_its_origin() {
    let server = with_crds().await;
    let (_, pool_a) = call(&server, "POST", POOLS, pool("a")).await;
    let fork = server.fork(server.clock());
    assert_eq!(fork.revision(), server.revision());
    assert_eq!(get(&fork, &format!("{POOLS}/a")).await, (200, pool_a));
    assert_eq!(call(&fork, "DELETE", &format!("{POOLS}/a"), Value::Null).await.0, 200);
    let (_, pool_b) = call(&fork, "POST", POOLS, pool("b")).await;
    let (_, pool_c) = call(&server, "POST", POOLS, pool("c")).await;
    assert_eq!(get(&fork, &format!("{POOLS}/a")).await.0, 404);
    assert_eq!(get(&server, &format!("{POOLS}/a")).await.0, 200);
    assert_eq!(get(&server, &format!("{POOLS}/b")).await.0, 404);
    assert_eq!(pool_b["metadata"]["uid"], pool_c["metadata"]["uid"], "both servers draw the same random values");
    // The fork has no earlier history, so watches must list again.
    let (code, status) = get(&fork, &format!("{POOLS}?watch=true&resourceVersion=2")).await;
    assert!(code == 410 || status["code"] == 410 || status["object"]["code"] == 410, "{code} {status}");
}
