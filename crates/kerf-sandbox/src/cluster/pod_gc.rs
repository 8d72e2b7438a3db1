//! Pod garbage collection: deletes pods whose node does not exist. Without a kubelet such a pod
//! would never terminate.

use serde_json::json;

use super::control_plane::{ControlPlane, RunAgain};
use super::kind::ControlPlaneKind;
use super::pods::ignore_not_found_or_conflict;
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

/// Deletes a pod that is bound to a node which does not exist. The work item is enqueued for the
/// end of the quarantine.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let Some(pod) = plane.cache.pods.get(key) else { return Ok(RunAgain::WhenChanged) };
    let node = ObjectKey::new(None, &pod.spec.node_name);
    if pod.spec.node_name.is_empty() || plane.cache.nodes.get(&node).is_some() {
        return Ok(RunAgain::WhenChanged);
    }
    if !pod.is_terminal() {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": rfc3339_seconds(plane.now()),
            "observedGeneration": pod.metadata.generation,
        });
        let status = json!({"phase": "Failed", "conditions": [condition]});
        ignore_not_found_or_conflict(plane.controller_client.patch_status(ControlPlaneKind::Pod, key, &status))?;
    }
    plane.controller_client.force_delete_pod(key, &pod.metadata.uid)?;
    Ok(RunAgain::WhenChanged)
}
