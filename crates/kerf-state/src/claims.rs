//! NodeClaims: the API object that its controllers write, and its conversion to the engine's input.

use kerf_api::annotations;
use kerf_api::conditions::{ConditionStatus, DISRUPTION_REASON, DRIFTED, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED};
use kerf_api::duration::{Duration, parse_nillable};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{Labels, Node, Str, TaintEffect};
use kerf_api::taints::DISRUPTED;
use kerf_engine::ClaimLifecycle;
use serde::Deserialize;

use crate::pools::{resources, taints};

/// A NodeClaim as the index stores it. [`PartialEq`] compares the API object alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "NodeClaim")]
pub struct TrackedClaim {
    /// The API object, without managed fields.
    pub object: NodeClaim,
    /// The object converted for the engine, without deletion mark and nomination.
    pub engine_claim: kerf_engine::NodeClaimInput,
}

impl From<NodeClaim> for TrackedClaim {
    fn from(mut object: NodeClaim) -> Self {
        // Managed fields are the largest part of the object, and no controller reads them.
        object.metadata.managed_fields = None;
        Self { engine_claim: to_engine_claim(&object, false), object }
    }
}

impl TrackedClaim {
    /// Returns the object's name.
    pub fn name(&self) -> &Str {
        &self.engine_claim.name
    }

    /// Returns the object's UID; empty if the API server has not assigned one.
    pub fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns the NodePool that the claim belongs to, by its label. `None` if the label is missing
    /// or empty.
    pub fn pool(&self) -> Option<&str> {
        self.engine_claim.labels.get(kerf_api::labels::NODEPOOL).filter(|pool| !pool.is_empty())
    }

    /// Returns true if the claim's status has this condition with status True.
    pub fn is_condition_true(&self, kind: &str) -> bool {
        is_condition_true(&self.object, kind)
    }

    /// Returns true if the claim has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}

/// Converts a NodeClaim for the engine. `is_marked` states whether a disruption command has marked
/// it for deletion.
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
        is_deleting: object.metadata.deletion_timestamp.is_some() || is_condition_true(object, INSTANCE_TERMINATING),
        is_marked_for_disruption: is_marked,
        lifecycle: lifecycle(object),
    }
}

/// Returns true if the API objects show that a disruption command of some controller includes the
/// node: the Node has the taint `karpenter.sh/disrupted`, or the NodeClaim has the condition
/// `DisruptionReason`. The controller that carries the command out knows more and does not call
/// this.
pub fn is_under_disruption(claim: &NodeClaim, node: Option<&Node>) -> bool {
    is_condition_true(claim, DISRUPTION_REASON)
        || node.is_some_and(|node| {
            node.spec.taints.iter().any(|taint| taint.key == DISRUPTED && taint.effect == TaintEffect::NoSchedule)
        })
}

/// Derives the claim's lifecycle from its conditions. A claim with a provider ID and without any
/// condition, as in manifests without a status, counts as initialized from its creation; its Node
/// must be initialized too. Nominations and running commands are not in the object, so callers add
/// them.
fn lifecycle(object: &NodeClaim) -> ClaimLifecycle {
    let status = object.status.as_ref();
    let conditions = status.map_or(&[][..], |s| s.conditions.as_slice());
    let has_provider_id = status.and_then(|s| s.provider_id.as_deref()).is_some_and(|id| !id.is_empty());
    let lacks_conditions = has_provider_id && conditions.is_empty();
    let true_condition =
        |kind: &str| conditions.iter().find(|c| c.condition_type == kind).filter(|c| c.status == ConditionStatus::True);
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let initialized = true_condition(INITIALIZED);
    let drifted = true_condition(DRIFTED);
    ClaimLifecycle {
        created,
        is_launched: lacks_conditions || true_condition(LAUNCHED).is_some(),
        is_initialized: lacks_conditions || initialized.is_some(),
        initialized_at: initialized.map(|c| c.last_transition_time.0).or(created),
        last_pod_event: status.and_then(|s| s.last_pod_event_time.as_ref()).map(|time| time.0),
        drifted_at: drifted.map(|c| c.last_transition_time.0),
        // Kerf checks drift from the pool again at each decision. Drift that a provider reported
        // holds until the provider reports again.
        provider_drift: drifted
            .filter(|c| !is_drift_from_pool(object, &c.reason))
            .map(|c| Str::from(c.reason.as_str())),
        expire_after: object.spec.expire_after.as_ref().and_then(|t| parse_nillable(Some(t.as_str())).ok().flatten()),
        // An invalid period, which admission rejects, counts as zero: a drain still has to end.
        termination_grace_period: object
            .spec
            .termination_grace_period
            .as_ref()
            .map(|text| text.as_str().parse().unwrap_or(Duration::ZERO)),
        is_instance_terminating: true_condition(INSTANCE_TERMINATING).is_some(),
        ..ClaimLifecycle::default()
    }
}

/// Returns true if drift for this reason can be checked against the claim and its pool alone. The
/// hash can be compared only if the claim has the hash annotations.
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
