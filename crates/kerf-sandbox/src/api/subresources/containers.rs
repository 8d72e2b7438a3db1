//! Subresources of pods that reach into containers: logs, commands, ports. The sandbox runs no
//! containers, so each of them fails with a message that names what to use instead. kubectl prints
//! the message as one line.

use crate::api::call::Call;
use crate::api::status::{ApiResult, StatusError};

/// Returns true if the subresource reaches into the containers of a pod.
pub(super) fn is_container_subresource(call: &Call<'_>) -> bool {
    call.resource.is("", "pods") && lacking(call.subresource()).is_some()
}

/// Returns the part of a message that states what the sandbox lacks, or `None` for any other
/// subresource.
fn lacking(subresource: &str) -> Option<&'static str> {
    match subresource.split('/').next().unwrap_or_default() {
        "log" => Some("the sandbox runs no containers, so there are no logs of"),
        "exec" => Some("the sandbox runs no containers, so no command or copy can run in"),
        "attach" => Some("the sandbox runs no containers, so nothing can attach to"),
        "portforward" | "proxy" => Some("the sandbox has no network, so no port can be forwarded to"),
        _ => None,
    }
}

/// Returns the error for the subresource of a pod, or that the pod does not exist.
pub(super) fn reject<T>(call: &Call<'_>) -> ApiResult<T> {
    if call.server.storage.get(call.resource.table, &call.key()).is_none() {
        return Err(call.not_found());
    }
    let (pod, namespace) = (call.name(), call.namespace().unwrap_or_default());
    let lacking = lacking(call.subresource()).unwrap_or_default();
    Err(StatusError::not_implemented(format!(
        "{lacking} pod \"{pod}\"; for its state and its events, type: kubectl describe pod {pod} -n {namespace}"
    )))
}
