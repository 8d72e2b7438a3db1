//! Evicts pods from nodes with `NoExecute` taints: at once if a pod does not tolerate a taint, or
//! after the shortest `tolerationSeconds`.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::control_plane::{ControlPlane, RunAgain};
use super::events::{EventComponent, EventType};
use super::kind::ControlPlaneKind;
use super::objects::{Pod, Taint, Toleration};
use super::pods::ignore_not_found_or_conflict;
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const EVENT_COMPONENT: EventComponent = EventComponent::Controller("taint-eviction-controller");

/// Evicts a pod once its taint tolerations have expired.
pub(crate) fn sync(plane: &mut ControlPlane, key: &ObjectKey) -> ApiResult<RunAgain> {
    let pod = plane.cache.pods.get(key).filter(|pod| pod.is_active() && !pod.spec.node_name.is_empty());
    let Some(pod) = pod else {
        plane.tainted_since.remove(key);
        return Ok(RunAgain::WhenChanged);
    };
    let node = plane.cache.nodes.get(&ObjectKey::new(None, &pod.spec.node_name));
    let taints: Vec<Taint> =
        node.iter().flat_map(|node| &node.spec.taints).filter(|taint| taint.effect == "NoExecute").cloned().collect();
    match toleration_limit(&pod, &taints) {
        TolerationLimit::Forever => {
            plane.tainted_since.remove(key);
            Ok(RunAgain::WhenChanged)
        }
        TolerationLimit::For(limit) => {
            let since = *plane.tainted_since.entry(key.clone()).or_insert_with(Instant::now);
            let elapsed = Instant::now().duration_since(since);
            if elapsed < limit {
                return Ok(RunAgain::After(limit.saturating_sub(elapsed)));
            }
            plane.tainted_since.remove(key);
            evict(plane, key, &pod)?;
            Ok(RunAgain::WhenChanged)
        }
    }
}

/// Time for which a pod tolerates the taints of its node.
enum TolerationLimit {
    Forever,
    For(Duration),
}

fn toleration_limit(pod: &Pod, taints: &[Taint]) -> TolerationLimit {
    let mut shortest: Option<Duration> = None;
    for taint in taints {
        let tolerating: Vec<&Toleration> =
            pod.spec.tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if tolerating.is_empty() {
            return TolerationLimit::For(Duration::ZERO);
        }
        // The shortest `tolerationSeconds` counts. Without any, the pod tolerates the taints
        // forever.
        for seconds in tolerating.iter().filter_map(|toleration| toleration.toleration_seconds) {
            let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            shortest = Some(shortest.map_or(limit, |other| other.min(limit)));
        }
    }
    shortest.map_or(TolerationLimit::Forever, TolerationLimit::For)
}

/// Returns true if a toleration matches a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key_matches = toleration.key.is_empty() || toleration.key == taint.key;
    let effect_matches = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let value_matches = toleration.operator == "Exists" || toleration.value == taint.value;
    key_matches && effect_matches && value_matches
}

fn evict(plane: &mut ControlPlane, key: &ObjectKey, pod: &Pod) -> ApiResult<()> {
    let message = format!("Marking for deletion Pod {}/{}", pod.metadata.namespace, pod.metadata.name);
    plane.publish_event(
        EVENT_COMPONENT,
        (ControlPlaneKind::Pod, &pod.metadata),
        EventType::Normal,
        "TaintManagerEviction",
        message,
    );
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": rfc3339_seconds(plane.now()),
        "observedGeneration": pod.metadata.generation,
    });
    ignore_not_found_or_conflict(plane.controller_client.patch_status(
        ControlPlaneKind::Pod,
        key,
        &json!({"conditions": [condition]}),
    ))?;
    plane.controller_client.delete(ControlPlaneKind::Pod, key, &pod.metadata.uid)
}
