//! NodeClaims as the engine sees them: a machine that exists or is about to.

use kerf_api::conditions::ConditionStatus;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{Labels, Str};

use crate::pools::{resources, taints};

/// The claim as the engine takes it. `is_marked` says whether a disruption under way has marked it.
pub fn node_claim(object: &NodeClaim, is_marked: bool) -> kerf_engine::NodeClaim {
    let status = object.status.as_ref();
    let is_true = |kind: &str| {
        status
            .is_some_and(|s| s.conditions.iter().any(|c| c.condition_type == kind && c.status == ConditionStatus::True))
    };
    let pairs = |map: Option<&std::collections::BTreeMap<String, String>>| {
        map.into_iter().flatten().map(|(k, v)| (Str::from(k.as_str()), Str::from(v.as_str()))).collect::<Labels>()
    };
    kerf_engine::NodeClaim {
        name: Str::from(object.metadata.name.as_deref().unwrap_or_default()),
        labels: pairs(object.metadata.labels.as_ref()),
        annotations: pairs(object.metadata.annotations.as_ref()),
        provider_id: Str::from(status.and_then(|s| s.provider_id.as_deref()).unwrap_or_default()),
        taints: taints(object.spec.taints.as_deref()),
        startup_taints: taints(object.spec.startup_taints.as_deref()),
        capacity: resources(status.and_then(|s| s.capacity.as_ref())),
        allocatable: resources(status.and_then(|s| s.allocatable.as_ref())),
        is_deleting: object.metadata.deletion_timestamp.is_some() || is_true("InstanceTerminating"),
        is_marked,
    }
}
