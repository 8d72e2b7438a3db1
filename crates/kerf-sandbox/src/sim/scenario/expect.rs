//! Expectations of a step.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// Facts that must hold at the time of the step. A fact that does not hold is a
/// violation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExpectStep {
    /// Number of pods in the phase `Running`, without pods of DaemonSets and pods that terminate.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub pods_running: Option<usize>,
    /// Number of pods in the phase `Pending`, without pods that terminate.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub pods_pending: Option<usize>,
    /// Number of Nodes.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub nodes: Option<usize>,
    /// Number of NodeClaims.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub node_claims: Option<usize>,
    /// Number of live instances of the cloud. Without an account, the instances are the Nodes that
    /// the provider has created.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub instances: Option<usize>,
    /// Lines of the controller's log in this order, after the lines that earlier expectations have
    /// matched. Other lines may stand between them.
    #[serde(default)]
    pub log: Vec<LogExpectation>,
    /// Lines that the log does not have after the lines that earlier expectations have matched.
    #[serde(default)]
    pub log_lacks: Vec<LogExpectation>,
    /// Events that exist.
    #[serde(default)]
    pub events: Vec<EventExpectation>,
    /// Conditions of objects.
    #[serde(default)]
    pub conditions: Vec<ConditionExpectation>,
    /// Labels of objects.
    #[serde(default)]
    pub labels: Vec<LabelExpectation>,
    /// Metrics of the controller: the sum of all series with this name and these labels, for
    /// example `karpenter_nodeclaims_created_total{reason="provisioned"}`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, MetricValue>")]
    pub metrics: BTreeMap<String, f64>,
}

/// Schema of the value of a metric.
struct MetricValue;

impl JsonSchema for MetricValue {
    fn schema_name() -> Cow<'static, str> {
        "MetricValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1e15 })
    }
}

/// A line of the log: its message, and parts of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogExpectation {
    /// The whole message.
    pub message: String,
    /// Parts of the values of fields, by the field's name.
    pub fields: BTreeMap<String, String>,
}

/// An Event that exists, by its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventExpectation {
    /// Reason of the Event.
    pub reason: String,
    /// Kind of its object; any if missing.
    pub kind: Option<String>,
    /// Part of its message; any if missing.
    pub message: Option<String>,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConditionExpectation {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: Option<String>,
    /// Some Node or NodeClaim of this NodePool, instead of `name`; the seed selects it.
    #[serde(default)]
    pub pool: Option<String>,
    /// Type of the condition.
    #[serde(rename = "type")]
    pub condition: String,
    /// Status of the condition; empty if it must be missing.
    pub status: String,
    /// Reason of the condition; any if missing.
    #[serde(default)]
    pub reason: Option<String>,
    /// Part of its message; any if missing.
    #[serde(default)]
    pub message: Option<String>,
}

/// Labels of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelExpectation {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    #[serde(default)]
    pub name: Option<String>,
    /// Some Node or NodeClaim of this NodePool, instead of `name`; the seed selects it.
    #[serde(default)]
    pub pool: Option<String>,
    /// Values of labels by key; empty if the label must be missing. Other labels may exist.
    pub labels: BTreeMap<String, String>,
}

impl fmt::Display for ConditionExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.status)?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LogExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.message)?;
        for (position, (key, part)) in self.fields.iter().enumerate() {
            write!(f, "{} {key}: {part}", if position == 0 { " with" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for EventExpectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        for text in [&self.kind, &self.message].into_iter().flatten() {
            write!(f, " \"{text}\"")?;
        }
        Ok(())
    }
}

/// The object form of [`LogExpectation`].
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogFields {
    /// The whole message.
    message: String,
    /// Parts of the values of fields, by the field's name.
    #[serde(default)]
    fields: BTreeMap<String, String>,
}

/// A message alone, or with fields.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum LogForm {
    Message(String),
    Fields(LogFields),
}

/// The object form of [`EventExpectation`].
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EventFields {
    /// Reason of the Event.
    reason: String,
    /// Kind of its object; any if missing.
    #[serde(default)]
    kind: Option<String>,
    /// Part of its message; any if missing.
    #[serde(default)]
    message: Option<String>,
}

/// A reason alone, or with the object and the message.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum EventForm {
    Reason(String),
    Fields(EventFields),
}

impl<'de> Deserialize<'de> for LogExpectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match LogForm::deserialize(deserializer)? {
            LogForm::Message(message) => Self { message, fields: BTreeMap::new() },
            LogForm::Fields(LogFields { message, fields }) => Self { message, fields },
        })
    }
}

impl<'de> Deserialize<'de> for EventExpectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match EventForm::deserialize(deserializer)? {
            EventForm::Reason(reason) => Self { reason, kind: None, message: None },
            EventForm::Fields(EventFields { reason, kind, message }) => Self { reason, kind, message },
        })
    }
}

impl JsonSchema for LogExpectation {
    fn schema_name() -> Cow<'static, str> {
        "LogExpectation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        LogForm::json_schema(generator)
    }
}

impl JsonSchema for EventExpectation {
    fn schema_name() -> Cow<'static, str> {
        "EventExpectation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        EventForm::json_schema(generator)
    }
}
