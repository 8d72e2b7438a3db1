//! Status conditions: the root condition `Ready`, the dependent conditions that determine it, and
//! independent conditions (spec 01 §8, spec 04 §1.5).
//!
//! [`ConditionSet`] is created from an object's list of conditions, changes them, and returns the
//! new list. The caller writes the list if it changed.
//!
//! Invariants: the root and every dependent condition are always present. The root always agrees
//! with its dependents.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::open_enum::open_enum;

/// Type of the root condition, which every kind has.
pub const READY: &str = "Ready";
/// Reason of a condition that no controller has set yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Message of a condition that no controller has set yet.
pub const AWAITING_RECONCILIATION_MESSAGE: &str = "object is awaiting reconciliation";
/// Reason of the root condition while a dependent condition is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of the root condition while a dependent condition is Unknown or stale.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

// Types of the conditions that several controllers read or write.

/// NodeClaim: the provider has created the instance.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: the Node has joined and has the labels and taints of its claim.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the Node is ready, without startup taints, and has the requested resources.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: the Node has the capacity that the claim promised.
pub const CONSISTENT_STATE_FOUND: &str = "ConsistentStateFound";
/// NodeClaim: the claim or its instance no longer matches the NodePool or the node class.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: the `consolidateAfter` of its NodePool has passed.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: a disruption command removes the claim, for this reason.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// NodeClaim: no pod that must be evicted is left on the Node.
pub const DRAINED: &str = "Drained";
/// NodeClaim: no volume that must be detached is left on the Node.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: the provider terminates the instance.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";
/// NodePool, NodeOverlay, EC2NodeClass: the object passes the checks beyond admission.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// NodePool: the node class exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// The disruption budgets of a NodePool can be evaluated. Set only while they cannot; never a part
/// of `Ready`, because such a pool still launches nodes.
pub const DISRUPTION_BUDGETS_VALID: &str = "DisruptionBudgetsValid";
/// The number of nodes of a NodePool with `replicas` is kept. Set only while the feature gate
/// `StaticCapacity` is off.
pub const STATIC_CAPACITY_ENABLED: &str = "StaticCapacityEnabled";

/// Longest message that the schema accepts, in characters. Longer messages are truncated.
const MESSAGE_LENGTH_MAX: usize = 32768;

open_enum! {
    /// Status of a condition: holds, does not hold, or not known yet.
    pub enum ConditionStatus {
        /// The condition holds.
        True = "True",
        /// The condition does not hold.
        False = "False",
        /// The controller does not know yet if the condition holds.
        Unknown = "Unknown",
    }
}

/// Condition of an object, as in other Kubernetes APIs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_texts)]
pub struct Condition {
    /// Time at which the status last changed.
    #[schemars(with = "crate::schema::DateTime")]
    pub last_transition_time: Time,
    /// Human-readable details. May be empty.
    #[serde(default)]
    #[schemars(extend("maxLength" = MESSAGE_LENGTH_MAX))]
    pub message: String,
    /// Generation of the object that the condition was set for. If it differs from
    /// metadata.generation, the condition is out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: Option<i64>,
    /// Reason for the status, as one CamelCase word for programs.
    #[serde(default)]
    #[schemars(extend(
        "minLength" = 1,
        "maxLength" = 1024,
        "pattern" = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    ))]
    pub reason: String,
    /// Status of the condition: True, False or Unknown.
    pub status: ConditionStatus,
    /// Type of the condition, in CamelCase or as foo.example.com/CamelCase.
    #[serde(rename = "type")]
    #[schemars(extend(
        "maxLength" = 316,
        "pattern" = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    ))]
    pub condition_type: String,
}

/// Makes reason and message required in the schema. They are optional when decoding, because
/// NodeClaims may omit them.
fn require_texts(schema: &mut Schema) {
    for name in ["message", "reason"] {
        if let Some(property) = schema.pointer_mut(&format!("/properties/{name}")).and_then(Value::as_object_mut) {
            property.remove("default");
        }
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.push(json!(name));
        }
    }
}

/// Sets the schema of a list that has at most one condition of each type.
pub(crate) fn map_list(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".into(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
}

/// Sets the schema of a NodeClaim's list: as [`map_list`], but reason and message may be absent or
/// empty.
pub(crate) fn lenient_map_list(schema: &mut Schema) {
    map_list(schema);
    let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) else { return };
    if let Some(required) = items.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "reason" && name != "message");
    }
    if let Some(reason) = items.get_mut("properties").and_then(|p| p.get_mut("reason")).and_then(Value::as_object_mut) {
        reason.remove("minLength");
        reason.insert("pattern".into(), json!("^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"));
    }
}

/// Dependent conditions of each kind, which determine its root condition.
pub mod dependents {
    use super::{INITIALIZED, LAUNCHED, NODE_CLASS_READY, REGISTERED, VALIDATION_SUCCEEDED};

    /// Dependent conditions of a NodePool.
    pub const NODEPOOL: &[&str] = &[VALIDATION_SUCCEEDED, NODE_CLASS_READY];
    /// Dependent conditions of a NodeClaim.
    pub const NODECLAIM: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED];
    /// Dependent conditions of a NodeOverlay.
    pub const NODEOVERLAY: &[&str] = &[VALIDATION_SUCCEEDED];
    /// A KWOKNodeClass has no dependent conditions, only the root.
    pub const KWOKNODECLASS: &[&str] = &[];
    /// Dependent conditions of an EC2NodeClass.
    pub const EC2NODECLASS: &[&str] = &[
        "AMIsReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
        VALIDATION_SUCCEEDED,
        "PlacementGroupReady",
    ];
    /// Dependent conditions of an EC2NodeClass while the feature gate `ReservedCapacity` is on.
    pub const EC2NODECLASS_WITH_RESERVATIONS: &[&str] = &[
        "AMIsReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
        VALIDATION_SUCCEEDED,
        "PlacementGroupReady",
        "CapacityReservationsReady",
    ];
}

/// Metadata that the rules for conditions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Value of `metadata.generation`.
    pub generation: i64,
    /// Value of `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// True if `metadata.deletionTimestamp` is set.
    pub is_deleting: bool,
}

impl ObjectFacts {
    /// Reads the facts from an object's metadata. An object that was not created on the API server
    /// yet gets the Unix epoch as its creation time.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Error of clearing the root or a dependent condition. Both must always be present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("condition {0} cannot be cleared")]
pub struct NotClearable(String);

/// Conditions of one object, with the rules for changing them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionSet {
    dependents: &'static [&'static str],
    object: ObjectFacts,
    conditions: Vec<Condition>,
}

impl ConditionSet {
    /// Creates the set from an object's conditions. Adds each missing dependent condition and a
    /// missing root as Unknown since the object's creation.
    pub fn open(dependents: &'static [&'static str], object: ObjectFacts, conditions: Vec<Condition>) -> Self {
        let mut set = Self { dependents, object, conditions };
        for name in dependents.iter().chain([&READY]) {
            if set.get(name).is_none() {
                // The time is not used: dependents and the root start at the object's creation.
                set.set_unknown(name, AWAITING_RECONCILIATION, AWAITING_RECONCILIATION_MESSAGE, object.created);
            }
        }
        set
    }

    /// Returns the conditions in stored order.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Returns the conditions in stored order, to be written to the object.
    pub fn into_conditions(self) -> Vec<Condition> {
        self.conditions
    }

    /// Returns the condition of a type. Returns `None` if it is absent.
    pub fn get(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.condition_type == condition_type)
    }

    /// Returns the status of a condition, or Unknown if the condition is absent.
    pub fn status(&self, condition_type: &str) -> ConditionStatus {
        self.get(condition_type).map_or(ConditionStatus::Unknown, |condition| condition.status.clone())
    }

    /// Returns true if the condition is present and True.
    pub fn is_true(&self, condition_type: &str) -> bool {
        self.status(condition_type) == ConditionStatus::True
    }

    /// Returns true if the condition is present and False.
    pub fn is_false(&self, condition_type: &str) -> bool {
        self.status(condition_type) == ConditionStatus::False
    }

    /// Sets a condition to True with its type as the reason. Returns true if anything changed.
    pub fn set_true(&mut self, condition_type: &str, now: Timestamp) -> bool {
        self.set_true_with_reason(condition_type, condition_type, "", now)
    }

    /// Sets a condition to True. Returns true if anything changed.
    pub fn set_true_with_reason(&mut self, condition_type: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(condition_type, ConditionStatus::True, reason, message, now)
    }

    /// Sets a condition to False. Returns true if anything changed.
    pub fn set_false(&mut self, condition_type: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(condition_type, ConditionStatus::False, reason, message, now)
    }

    /// Sets a condition to Unknown. Returns true if anything changed.
    pub fn set_unknown(&mut self, condition_type: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(condition_type, ConditionStatus::Unknown, reason, message, now)
    }

    /// Removes an independent condition and sorts the remaining ones by type. Returns true if the
    /// condition was present. Fails for the root and for dependent conditions.
    pub fn clear(&mut self, condition_type: &str) -> Result<bool, NotClearable> {
        if condition_type == READY || self.dependents.contains(&condition_type) {
            return Err(NotClearable(condition_type.to_owned()));
        }
        let length_before = self.conditions.len();
        self.conditions.retain(|condition| condition.condition_type != condition_type);
        let is_modified = self.conditions.len() < length_before;
        if is_modified {
            self.conditions.sort_by(|a, b| a.condition_type.cmp(&b.condition_type));
        }
        Ok(is_modified)
    }

    fn set(
        &mut self,
        condition_type: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) -> bool {
        let is_always_present = condition_type == READY || self.dependents.contains(&condition_type);
        let since = match self.get(condition_type) {
            Some(stored) if stored.status == status => stored.last_transition_time.0,
            None if is_always_present => self.object.created,
            Some(_) | None => now,
        };
        let condition = Condition {
            last_transition_time: Time(truncate_to_seconds(since)),
            message: truncate_message(message),
            observed_generation: Some(self.object.generation),
            reason: reason.to_owned(),
            status,
            condition_type: condition_type.to_owned(),
        };
        let is_current = self.get(condition_type) == Some(&condition) && !self.has_stale_generation_while_deleting();
        if is_current {
            return false;
        }
        self.conditions.retain(|stored| stored.condition_type != condition_type);
        self.conditions.push(condition);
        if self.object.is_deleting {
            // Deletion increments the generation, which makes all conditions stale. No controller
            // will set each of them again, so they are all marked as current.
            for condition in &mut self.conditions {
                condition.observed_generation = Some(self.object.generation);
            }
        }
        self.conditions.sort_by_key(|condition| (condition.condition_type == READY, condition.last_transition_time.0));
        if condition_type != READY {
            self.recompute_root(now);
        }
        true
    }

    fn has_stale_generation_while_deleting(&self) -> bool {
        self.object.is_deleting
            && self.conditions.iter().any(|condition| condition.observed_generation != Some(self.object.generation))
    }

    fn recompute_root(&mut self, now: Timestamp) {
        let is_stale = |condition: &Condition| condition.observed_generation != Some(self.object.generation);
        let mut unhealthy: Vec<&Condition> = self
            .conditions
            .iter()
            .filter(|condition| self.dependents.contains(&condition.condition_type.as_str()))
            .filter(|condition| condition.status != ConditionStatus::True || is_stale(condition))
            .collect();
        if unhealthy.is_empty() {
            self.set_true(READY, now);
            return;
        }
        unhealthy.sort_by_key(|condition| std::cmp::Reverse(condition.last_transition_time.0));
        let message: Vec<String> =
            unhealthy.iter().map(|condition| format!("{}={}", condition.condition_type, condition.status)).collect();
        let message = message.join(", ");
        if unhealthy.iter().any(|condition| condition.status == ConditionStatus::False && !is_stale(condition)) {
            self.set_false(READY, UNHEALTHY_DEPENDENTS, &message, now);
        } else {
            self.set_unknown(READY, RECONCILING_DEPENDENTS, &message, now);
        }
    }
}

/// Removes the fraction of a second. JSON timestamps have whole seconds; a finer time in memory
/// would differ from the stored one.
fn truncate_to_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

fn truncate_message(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_LENGTH_MAX) {
        Some((end, _)) => message[..end].to_owned(),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
