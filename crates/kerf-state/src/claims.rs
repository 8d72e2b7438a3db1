//! NodeClaims: the object that its controllers write, and the machine as the engine sees it, which exists or is about to.

use kerf_api::annotations;
use kerf_api::conditions::ConditionStatus;
use kerf_api::duration::{Duration, parse_nillable};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{Labels, Str};
use kerf_engine::ClaimLifecycle;
use serde::Deserialize;

use crate::pools::{resources, taints};

/// A claim that is tracked.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "NodeClaim")]
pub struct TrackedClaim {
    /// The object, as its controllers write it.
    pub object: NodeClaim,
    /// The same as decisions see it, marks aside.
    pub engine_claim: kerf_engine::NodeClaimInput,
}

impl From<NodeClaim> for TrackedClaim {
    fn from(mut object: NodeClaim) -> Self {
        // Who wrote which field is most of the object, and nobody here asks.
        object.metadata.managed_fields = None;
        Self { engine_claim: to_engine_claim(&object, false), object }
    }
}

impl TrackedClaim {
    /// Its name.
    pub fn name(&self) -> &Str {
        &self.engine_claim.name
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The pool that it belongs to.
    pub fn pool(&self) -> Option<&str> {
        self.engine_claim.labels.get(kerf_api::labels::NODEPOOL).filter(|pool| !pool.is_empty())
    }

    /// Whether a condition is True.
    pub fn is_condition_true(&self, kind: &str) -> bool {
        is_condition_true(&self.object, kind)
    }

    /// Whether it has been told to go.
    pub fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}

/// The claim as the engine takes it. `is_marked` says whether a disruption under way has marked it.
pub fn to_engine_claim(object: &NodeClaim, is_marked: bool) -> kerf_engine::NodeClaimInput {
    let status = object.status.as_ref();
    let pairs = |map: Option<&std::collections::BTreeMap<String, String>>| {
        map.into_iter().flatten().map(|(k, v)| (Str::from(k.as_str()), Str::from(v.as_str()))).collect::<Labels>()
    };
    kerf_engine::NodeClaimInput {
        name: Str::from(object.metadata.name.as_deref().unwrap_or_default()),
        labels: pairs(object.metadata.labels.as_ref()),
        annotations: pairs(object.metadata.annotations.as_ref()),
        provider_id: Str::from(status.and_then(|s| s.provider_id.as_deref()).unwrap_or_default()),
        taints: taints(object.spec.taints.as_deref()),
        startup_taints: taints(object.spec.startup_taints.as_deref()),
        capacity: resources(status.and_then(|s| s.capacity.as_ref())),
        allocatable: resources(status.and_then(|s| s.allocatable.as_ref())),
        is_deleting: object.metadata.deletion_timestamp.is_some() || is_condition_true(object, "InstanceTerminating"),
        is_marked_for_disruption: is_marked,
        lifecycle: lifecycle(object),
    }
}

/// How far the claim is. Where nobody has judged a claim that has a machine, as in manifests that leave the status out, it counts as
/// initialized from the start; its Node still has to say so too. What the caller alone knows (nominations, commands under way) is not in the object.
fn lifecycle(object: &NodeClaim) -> ClaimLifecycle {
    let status = object.status.as_ref();
    let conditions = status.map_or(&[][..], |s| s.conditions.as_slice());
    let with_machine = status.and_then(|s| s.provider_id.as_deref()).is_some_and(|id| !id.is_empty());
    let unjudged = with_machine && conditions.is_empty();
    let is_true =
        |kind: &str| conditions.iter().find(|c| c.condition_type == kind).filter(|c| c.status == ConditionStatus::True);
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let initialized = is_true("Initialized");
    let drifted = is_true("Drifted");
    ClaimLifecycle {
        created,
        is_launched: unjudged || is_true("Launched").is_some(),
        is_initialized: unjudged || initialized.is_some(),
        initialized_at: initialized.map(|c| c.last_transition_time.0).or(created),
        last_pod_event: status.and_then(|s| s.last_pod_event_time.as_ref()).map(|time| time.0),
        drifted_at: drifted.map(|c| c.last_transition_time.0),
        // What Kerf can find out by itself is found out again; what a provider once said holds until it is asked again.
        provider_drift: drifted
            .filter(|c| !is_drift_from_pool(object, &c.reason))
            .map(|c| Str::from(c.reason.as_str())),
        expire_after: object.spec.expire_after.as_ref().and_then(|t| parse_nillable(Some(t.as_str())).ok().flatten()),
        // A period that has no meaning, which admission does not let through, still says that a drain ends.
        termination_grace_period: object
            .spec
            .termination_grace_period
            .as_ref()
            .map(|text| text.as_str().parse().unwrap_or(Duration::ZERO)),
        is_instance_terminating: is_true("InstanceTerminating").is_some(),
        ..ClaimLifecycle::default()
    }
}

/// Whether drift for this reason can be told from the claim and its pool alone. A hash can be compared only if the claim carries one.
fn is_drift_from_pool(object: &NodeClaim, reason: &str) -> bool {
    let has = |key: &str| object.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(key));
    match reason {
        "NodePoolDrifted" => has(annotations::NODEPOOL_HASH) && has(annotations::NODEPOOL_HASH_VERSION),
        "RequirementsDrifted" | "InstanceTypeNotFound" => true,
        _ => false,
    }
}

fn is_condition_true(object: &NodeClaim, kind: &str) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|s| s.conditions.iter().any(|c| c.condition_type == kind && c.status == ConditionStatus::True))
}
