//! Every HTTP request gets a response: no request makes the server panic, and every error is a
//! `Status`.

use std::sync::LazyLock;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use kerf_api::crds::{self, CrdVariant};
use kerf_sandbox::ApiServer;
use proptest::prelude::*;
use tower::ServiceExt as _;

use crate::raw::{call, noon, pod, server};

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"])
}

fn segment() -> impl Strategy<Value = String> {
    let known = vec![
        "api",
        "apis",
        "v1",
        "apps",
        "policy",
        "karpenter.sh",
        "events.k8s.io",
        "apiextensions.k8s.io",
        "namespaces",
        "default",
        "pods",
        "a",
        "nodes",
        "status",
        "scale",
        "eviction",
        "binding",
        "finalize",
        "resize",
        "ephemeralcontainers",
        "deployments",
        "nodepools",
        "customresourcedefinitions",
        "events",
        "openapi",
        "v2",
        "v3",
        "bindings",
        "poddisruptionbudgets",
        "services",
        "jobs",
        "%00",
        "..",
        "%",
        "nodepools.karpenter.sh",
    ];
    prop_oneof![9 => prop::sample::select(known).prop_map(str::to_string), 1 => "[a-z%./?#&=]{0,8}"]
}

fn path() -> impl Strategy<Value = String> {
    let random = prop::collection::vec(segment(), 0..7).prop_map(|segments| format!("/{}", segments.join("/")));
    let likely = prop::sample::select(vec![
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/pods/a/status",
        "/api/v1/namespaces/default/pods/a/eviction",
        "/api/v1/namespaces/default/pods/a/binding",
        "/api/v1/namespaces/default/pods/a/resize",
        "/api/v1/nodes",
        "/api/v1/namespaces/t",
        "/api/v1/namespaces/t/finalize",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/karpenter.sh/v1/nodepools",
        "/apis/karpenter.sh/v1/nodepools/a",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ]);
    prop_oneof![random, likely.prop_map(str::to_string)]
}

fn query() -> impl Strategy<Value = String> {
    let pair = (
        prop::sample::select(vec![
            "watch",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "labelSelector",
            "fieldSelector",
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "force",
            "gracePeriodSeconds",
            "propagationPolicy",
            "timeoutSeconds",
            "includeObject",
            "sendInitialEvents",
            "allowWatchBookmarks",
        ]),
        prop_oneof![
            prop::sample::select(vec![
                "true",
                "0",
                "1",
                "-1",
                "All",
                "Strict",
                "Exact",
                "a",
                "",
                "99999999999999999999",
                "Foreground"
            ])
            .prop_map(str::to_string),
            "[ -~]{0,12}"
        ],
    );
    prop::collection::vec(pair, 0..4).prop_map(|pairs| {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
        pairs.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect::<Vec<_>>().join("&")
    })
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let key = prop::sample::select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "finalizers",
        "ownerReferences",
        "managedFields",
        "generateName",
        "resourceVersion",
        "uid",
        "spec",
        "status",
        "containers",
        "image",
        "resources",
        "requests",
        "limits",
        "cpu",
        "replicas",
        "selector",
        "matchLabels",
        "matchExpressions",
        "template",
        "nodeName",
        "target",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "op",
        "path",
        "value",
        "data",
        "type",
        "conditions",
        "versions",
        "schema",
        "openAPIV3Schema",
        "preconditions",
        "deleteOptions",
        "taints",
        "tolerations",
    ]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        prop::sample::select(vec![
            "a",
            "v1",
            "Pod",
            "apps/v1",
            "Deployment",
            "default",
            "replace",
            "delete",
            "1",
            "-1Gi",
            "1e99",
            "",
            "/metadata/name",
            "x y"
        ])
        .prop_map(Into::into),
        "\\PC{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_string(), value)).collect()),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => json().prop_map(|value| value.to_string().into_bytes()),
        2 => json().prop_map(|value| {
            let mut pod = pod("a");
            if let (Some(pod), serde_json::Value::Object(more)) = (pod.as_object_mut(), value) {
                pod.extend(more);
            }
            pod.to_string().into_bytes()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => Just(Vec::new()),
    ]
}

fn media() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "application/json",
        "application/yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "",
        "text/plain",
    ])
}

fn accept() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "text/html",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ])
}

/// A server with a pod, a Deployment and Kerf's CRDs, so that random requests find objects. It is
/// created once, and each case uses a fork of it.
static INSTALLED_SERVER: LazyLock<ApiServer> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(installed_server())
});

async fn installed_server() -> ApiServer {
    let server = server();
    for crd in crds::all(CrdVariant::Kwok) {
        call(&server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.json().clone()).await;
    }
    call(&server, "POST", "/api/v1/namespaces/default/pods", pod("a")).await;
    call(&server, "POST", "/api/v1/namespaces", serde_json::json!({"metadata": {"name": "t"}})).await;
    let template =
        serde_json::json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let deployment = serde_json::json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    call(&server, "POST", "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    server
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_request_gets_a_response(requests in prop::collection::vec((method(), path(), query(), media(), accept(), body()), 1..100)) {
        let installed_server = &*INSTALLED_SERVER;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let server = installed_server.fork(noon());
            for (method, path, query, media, accept, body) in requests {
                let Ok(uri) = format!("{path}?{query}").parse::<http::Uri>() else { continue };
                let request = http::Request::builder().method(method).uri(uri).header("content-type", media).header("accept", accept);
                let response = server.clone().oneshot(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
                let code = response.status().as_u16();
                // Watches time out in virtual time.
                let text = response.into_body().collect().await.unwrap().to_bytes();
                if code >= 400 && !text.starts_with(b"404 page not found") {
                    let status: serde_json::Value = serde_json::from_slice(&text).unwrap();
                    prop_assert_eq!(status["kind"].as_str(), Some("Status"), "{}", status);
                    prop_assert_eq!(status["code"].as_u64(), Some(u64::from(code)));
                }
            }
            Ok(())
        })?;
    }
}
