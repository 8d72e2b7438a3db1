//! The API of a metrics server (`metrics.k8s.io`), which the sandbox does not have. Discovery lists
//! the API without resources: otherwise `kubectl top` stops before its first request, with a
//! message that does not say what to use instead.

use serde_json::{Value, json};

use super::request::RequestTarget;
use super::status::StatusError;

pub(crate) const GROUP: &str = "metrics.k8s.io";
pub(crate) const VERSION: &str = "v1beta1";

/// Returns the error for any request of the API.
pub(crate) fn unavailable(target: &RequestTarget) -> StatusError {
    let instead = match (target.resource.as_str(), target.namespace.as_deref()) {
        ("pods", Some(namespace)) => format!("the requests of pods, type: kubectl describe pods -n {namespace}"),
        ("pods", None) => "the requests of pods, type: kubectl describe pods --all-namespaces".to_owned(),
        _ => "the requests on each node, type: kubectl describe nodes".to_owned(),
    };
    StatusError::not_implemented(format!("the sandbox measures no usage of CPU and memory; for {instead}"))
}

/// Returns the resources of the API: none.
pub(crate) fn resource_list() -> Value {
    let group_version = format!("{GROUP}/{VERSION}");
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": []})
}
