//! Pods on nodes with `NoExecute` taints: those that do not tolerate them go at once, those that tolerate them for a while go then.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::control_plane::{Again, Plane};
use super::events::{Speaker, Tone};
use super::kind::Kind;
use super::objects::{Pod, Taint, Toleration};
use super::pods::ignore_gone;
use crate::api::object::rfc3339_seconds;
use crate::api::status::ApiResult;
use crate::api::storage::ObjectKey;

const SPEAKER: Speaker = Speaker::Controller("taint-eviction-controller");

/// Evicts a pod if its time on its node is over.
pub(crate) fn sync(plane: &mut Plane, key: &ObjectKey) -> ApiResult<Again> {
    let pod = plane.world.pods.get(key).filter(|pod| pod.is_active() && !pod.spec.node_name.is_empty());
    let Some(pod) = pod else {
        plane.patience.remove(key);
        return Ok(Again::WhenChanged);
    };
    let node = plane.world.nodes.get(&ObjectKey::new(None, &pod.spec.node_name));
    let taints: Vec<Taint> =
        node.iter().flat_map(|node| &node.spec.taints).filter(|taint| taint.effect == "NoExecute").cloned().collect();
    match stays(&pod, &taints) {
        Stays::Forever => {
            plane.patience.remove(key);
            Ok(Again::WhenChanged)
        }
        Stays::For(limit) => {
            let since = *plane.patience.entry(key.clone()).or_insert_with(Instant::now);
            let stayed = Instant::now().duration_since(since);
            if stayed < limit {
                return Ok(Again::After(limit.saturating_sub(stayed)));
            }
            plane.patience.remove(key);
            evict(plane, key, &pod)?;
            Ok(Again::WhenChanged)
        }
    }
}

/// How long a pod may stay.
enum Stays {
    Forever,
    For(Duration),
}

fn stays(pod: &Pod, taints: &[Taint]) -> Stays {
    let mut shortest: Option<Duration> = None;
    for taint in taints {
        let tolerating: Vec<&Toleration> =
            pod.spec.tolerations.iter().filter(|toleration| tolerates(toleration, taint)).collect();
        if tolerating.is_empty() {
            return Stays::For(Duration::ZERO);
        }
        // The shortest of the tolerations that say how long counts; none is for ever.
        for seconds in tolerating.iter().filter_map(|toleration| toleration.toleration_seconds) {
            let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            shortest = Some(shortest.map_or(limit, |other| other.min(limit)));
        }
    }
    shortest.map_or(Stays::Forever, Stays::For)
}

/// Whether a toleration covers a taint.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let value = toleration.operator == "Exists" || toleration.value == taint.value;
    key && effect && value
}

fn evict(plane: &mut Plane, key: &ObjectKey, pod: &Pod) -> ApiResult<()> {
    let message = format!("Marking for deletion Pod {}/{}", pod.metadata.namespace, pod.metadata.name);
    plane.tell(SPEAKER, (Kind::Pod, &pod.metadata), Tone::Normal, "TaintManagerEviction", message);
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": rfc3339_seconds(plane.now()),
        "observedGeneration": pod.metadata.generation,
    });
    ignore_gone(plane.controllers.patch_status(Kind::Pod, key, &json!({"conditions": [condition]})))?;
    plane.controllers.delete(Kind::Pod, key, &pod.metadata.uid)
}
