//! Objects that every cluster has from the start: four namespaces, the two system priority classes,
//! and the Service of the API itself. A cluster with controllers also has a default StorageClass.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use kerf_runtime::Rng;
use serde_json::{Value, json};

use super::route::InjectedFaults;
use super::server::ApiServer;

const DEFAULT_STORAGE_CLASS: &str = "standard";
/// Provisioner of the default StorageClass. No driver is registered under this name, so it limits
/// the number of volumes of no node.
const PROVISIONER: &str = "sandbox.kerf.sh/volumes";

/// Creates the objects through the same handlers as clients' requests.
pub(crate) fn create_default_objects(server: &ApiServer) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        create(server, "/api/v1/namespaces", &json!({"metadata": {"name": name}}));
    }
    for (name, value, description) in [
        ("system-cluster-critical", 2_000_000_000, "For system pods that the cluster needs, wherever they run."),
        ("system-node-critical", 2_000_001_000, "For system pods that their node needs."),
    ] {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", &class);
    }
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    });
    create(server, "/api/v1/namespaces/default/services", &service);
}

/// Creates the StorageClass of claims without a class, as a distribution of Kubernetes does after
/// its API server has started. The controller of volumes provisions them.
pub(crate) fn create_default_storage_class(server: &ApiServer, seed: u64) {
    let class = json!({
        "metadata": {
            "name": DEFAULT_STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
    });
    // The uid comes from a random stream of its own, so that all other objects of a seed keep their
    // uids.
    server.inner.with_identifiers_from(Rng::new(seed).fork("default storage class"), || {
        create(server, "/apis/storage.k8s.io/v1/storageclasses", &class);
    });
}

fn create(server: &ApiServer, path: &'static str, object: &Value) {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::POST;
    parts.uri = Uri::from_static(path);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver"));
    let response = server.handle(&parts, Bytes::from(object.to_string()), InjectedFaults::default());
    debug_assert_eq!(response.status(), 201, "{path}: {object}");
}
