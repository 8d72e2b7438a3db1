//! Status conditions: one root condition `Ready`, the conditions that it depends on, and any others (spec 01 §8, spec 04
//! §1.5).
//!
//! [`ConditionSet`] is opened over an object's list, is told facts and the time, and gives the list back; the caller writes it
//! if it changed. It holds at every moment that the root and every dependent are present, and that the root says what the
//! dependents say.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::open_enum::open_enum;

/// The root condition of every kind.
pub const READY: &str = "Ready";
/// Reason of a condition that nobody has set yet.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Message of a condition that nobody has set yet.
pub const AWAITING_RECONCILIATION_MESSAGE: &str = "object is awaiting reconciliation";
/// Reason of a root condition while some dependent is False.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of a root condition while some dependent is not known.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// Longest message that the schema admits, in characters; longer ones are cut.
const MESSAGE_LENGTH_MAX: usize = 32768;

open_enum! {
    /// What is known of a condition.
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody knows.
        Unknown = "Unknown",
    }
}

/// One signal for the health of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = require_texts)]
pub struct Condition {
    /// Time at which the status last changed.
    #[schemars(with = "crate::schema::DateTime")]
    pub last_transition_time: Time,
    /// Details for people. May be empty.
    #[serde(default)]
    #[schemars(extend("maxLength" = MESSAGE_LENGTH_MAX))]
    pub message: String,
    /// Generation of the object that the condition was set for. If it is not the current one, the condition is out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: Option<i64>,
    /// Why the status is what it is, in one CamelCase word for programs.
    #[serde(default)]
    #[schemars(extend(
        "minLength" = 1,
        "maxLength" = 1024,
        "pattern" = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    ))]
    pub reason: String,
    /// Whether the condition holds: True, False or Unknown.
    pub status: ConditionStatus,
    /// Name of the condition, in CamelCase or as foo.example.com/CamelCase.
    #[serde(rename = "type")]
    #[schemars(extend(
        "maxLength" = 316,
        "pattern" = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    ))]
    pub condition_type: String,
}

/// Reason and message decode when they are absent, as on NodeClaims they may be; elsewhere the schema demands them.
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

/// Schema of a list with at most one condition of each type.
pub(crate) fn map_list(schema: &mut Schema) {
    schema.insert("x-kubernetes-list-type".into(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
}

/// Schema of a NodeClaim's list: as [`map_list`], but reason and message may be left out or empty.
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

/// The dependent conditions of each kind, which drive its root condition.
pub mod dependents {
    /// Of a NodePool.
    pub const NODEPOOL: &[&str] = &["ValidationSucceeded", "NodeClassReady"];
    /// Of a NodeClaim.
    pub const NODECLAIM: &[&str] = &["Launched", "Registered", "Initialized"];
    /// Of a NodeOverlay.
    pub const NODEOVERLAY: &[&str] = &["ValidationSucceeded"];
    /// Of a KWOKNodeClass: none, it has only the root.
    pub const KWOKNODECLASS: &[&str] = &[];
    /// Of an EC2NodeClass.
    pub const EC2NODECLASS: &[&str] = &[
        "AMIsReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
        "ValidationSucceeded",
        "PlacementGroupReady",
    ];
    /// Of an EC2NodeClass while the gate `ReservedCapacity` is on.
    pub const EC2NODECLASS_WITH_RESERVATIONS: &[&str] = &[
        "AMIsReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
        "ValidationSucceeded",
        "PlacementGroupReady",
        "CapacityReservationsReady",
    ];
}

/// What the rules need to know of the object whose conditions they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectFacts {
    /// `metadata.generation`
    pub generation: i64,
    /// `metadata.creationTimestamp`
    pub created: Timestamp,
    /// Whether the object is being deleted.
    pub is_deleting: bool,
}

impl ObjectFacts {
    /// The facts of an object. One that the API server has not seen yet counts as created at the beginning of time.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Dependents and the root cannot be cleared: an object without them would not say how it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("condition {0} cannot be cleared")]
pub struct NotClearable(String);

/// The conditions of one object, open for changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionSet {
    dependents: &'static [&'static str],
    object: ObjectFacts,
    conditions: Vec<Condition>,
}

impl ConditionSet {
    /// Opens the conditions of an object. A missing dependent or root is added as not yet known, since the object's creation.
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

    /// The conditions in the order in which they are stored.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The conditions, to be stored.
    pub fn into_conditions(self) -> Vec<Condition> {
        self.conditions
    }

    /// One condition.
    pub fn get(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.condition_type == condition_type)
    }

    /// The status of a condition; of a missing one nothing is known.
    pub fn status(&self, condition_type: &str) -> ConditionStatus {
        self.get(condition_type).map_or(ConditionStatus::Unknown, |condition| condition.status.clone())
    }

    /// Whether the condition is there and True.
    pub fn is_true(&self, condition_type: &str) -> bool {
        self.status(condition_type) == ConditionStatus::True
    }

    /// Whether the condition is there and False.
    pub fn is_false(&self, condition_type: &str) -> bool {
        self.status(condition_type) == ConditionStatus::False
    }

    /// Sets a condition True for no other reason than its own; says whether that changed anything.
    pub fn set_true(&mut self, condition_type: &str, now: Timestamp) -> bool {
        self.set_true_with_reason(condition_type, condition_type, "", now)
    }

    /// Sets a condition True; says whether that changed anything.
    pub fn set_true_with_reason(&mut self, condition_type: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(condition_type, ConditionStatus::True, reason, message, now)
    }

    /// Sets a condition False; says whether that changed anything.
    pub fn set_false(&mut self, condition_type: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(condition_type, ConditionStatus::False, reason, message, now)
    }

    /// Sets a condition Unknown; says whether that changed anything.
    pub fn set_unknown(&mut self, condition_type: &str, reason: &str, message: &str, now: Timestamp) -> bool {
        self.set(condition_type, ConditionStatus::Unknown, reason, message, now)
    }

    /// Removes an independent condition; says whether it was there. What is left is in alphabetical order.
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
            // Deletion itself is a new generation; nothing else will look at the conditions that it made stale.
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

/// The wire holds whole seconds; a finer time in memory would differ from what is read back.
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
