//! Messages of the interruption queue (spec 06 §9.2): which events of `EventBridge` count, and
//! which instances they are about.
//!
//! As in Karpenter, names of JSON fields are compared without regard to case, `null` counts as
//! absent, and unknown fields are ignored.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The event that a message, or a failed status check, reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptionKind {
    /// EC2 takes a spot instance back in two minutes.
    SpotInterrupted,
    /// A spot instance has an elevated risk of interruption.
    RebalanceRecommendation,
    /// An instance is stopping or stopped.
    InstanceStopped,
    /// An instance is being terminated or is terminated.
    InstanceTerminated,
    /// AWS Health has scheduled a change of the instance.
    ScheduledChange,
    /// The owner of an interruptible capacity reservation takes it back.
    CapacityReservationInterrupted,
    /// The instance status check fails.
    InstanceStatus,
    /// The system status check fails.
    SystemStatus,
    /// EC2 has scheduled an event for the instance.
    EventStatus,
    /// The message does not concern the cluster.
    NoOp,
}

impl InterruptionKind {
    /// Returns the name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::ScheduledChange => "scheduled_change",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::NoOp => "no_op",
        }
    }
}

/// A message of the interruption queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptionMessage {
    /// The event.
    pub kind: InterruptionKind,
    /// IDs of the instances that the message is about; empty for [`InterruptionKind::NoOp`].
    pub instance_ids: Vec<String>,
    /// Time of the event; `None` if the message has none.
    pub time: Option<Timestamp>,
}

/// Reason why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The message has no text.
    #[error("the message has no body")]
    NoBody,
    /// The text is no JSON.
    #[error("the message is no JSON, {0}")]
    Json(#[source] serde_json::Error),
    /// A field has a value of another type.
    #[error("the field {field} is no {expected}")]
    FieldType {
        /// Name of the field.
        field: &'static str,
        /// Name of the expected type.
        expected: &'static str,
    },
    /// The time of the event is not in the format of RFC 3339.
    #[error("the field time ({value:?}) is no time in the format of RFC 3339")]
    Time {
        /// The value of the field.
        value: String,
    },
}

/// Reads the text of a message. Messages that concern no instance of a cluster, and events of
/// unknown kinds, are of the kind [`InterruptionKind::NoOp`].
pub fn parse_message(body: &str) -> Result<InterruptionMessage, MessageError> {
    let no_op = |time| InterruptionMessage { kind: InterruptionKind::NoOp, instance_ids: Vec::new(), time };
    if body.is_empty() {
        return Ok(no_op(None));
    }
    let envelope = match serde_json::from_str(body).map_err(MessageError::Json)? {
        Value::Object(fields) => fields,
        Value::Null => return Ok(no_op(None)),
        _ => return Err(MessageError::FieldType { field: "(message)", expected: "object" }),
    };
    for field in ["account", "id", "region"] {
        text(&envelope, field)?;
    }
    texts(&envelope, "resources")?;
    let time = time(&envelope)?;
    let route = (text(&envelope, "version")?, text(&envelope, "source")?, text(&envelope, "detail-type")?);
    let empty = Map::new();
    let detail = || object(&envelope, "detail").map(|found| found.unwrap_or(&empty));
    let (kind, instance_ids) = match route {
        ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            (InterruptionKind::SpotInterrupted, interrupted_instance(detail()?)?)
        }
        ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            (InterruptionKind::CapacityReservationInterrupted, interrupted_instance(detail()?)?)
        }
        ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            (InterruptionKind::RebalanceRecommendation, vec![text(detail()?, "instance-id")?.to_owned()])
        }
        ("0", "aws.ec2", "EC2 Instance State-change Notification") => {
            let detail = detail()?;
            let instance_id = text(detail, "instance-id")?.to_owned();
            match text(detail, "state")?.to_ascii_lowercase().as_str() {
                "stopping" | "stopped" => (InterruptionKind::InstanceStopped, vec![instance_id]),
                "shutting-down" | "terminated" => (InterruptionKind::InstanceTerminated, vec![instance_id]),
                _ => return Ok(no_op(time)),
            }
        }
        ("0", "aws.health", "AWS Health Event") => match scheduled_change(detail()?)? {
            Some(instance_ids) => (InterruptionKind::ScheduledChange, instance_ids),
            None => return Ok(no_op(time)),
        },
        _ => return Ok(no_op(time)),
    };
    Ok(InterruptionMessage { kind, instance_ids, time })
}

fn interrupted_instance(detail: &Map<String, Value>) -> Result<Vec<String>, MessageError> {
    text(detail, "instance-action")?;
    Ok(vec![text(detail, "instance-id")?.to_owned()])
}

/// Returns the instances of a health event. Returns `None` if the event is no scheduled change of
/// EC2.
fn scheduled_change(detail: &Map<String, Value>) -> Result<Option<Vec<String>>, MessageError> {
    for field in ["eventArn", "eventTypeCode", "startTime", "endTime"] {
        text(detail, field)?;
    }
    for description in objects(detail, "eventDescription")? {
        text(description, "language")?;
        text(description, "latestDescription")?;
    }
    let entities = objects(detail, "affectedEntities")?;
    let ids = entities.into_iter().map(|entity| text(entity, "entityValue").map(str::to_owned));
    let ids = ids.collect::<Result<Vec<String>, MessageError>>()?;
    let is_scheduled_change =
        text(detail, "service")? == "EC2" && text(detail, "eventTypeCategory")? == "scheduledChange";
    Ok(is_scheduled_change.then_some(ids))
}

/// Returns a field whose value is not `null`.
fn field<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let found = fields.get(name).or_else(|| {
        let mut others = fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        others.next_back().map(|(_, value)| value)
    });
    found.filter(|value| !value.is_null())
}

/// Returns the text of a field; the empty text if the field is absent.
fn text<'v>(fields: &'v Map<String, Value>, name: &'static str) -> Result<&'v str, MessageError> {
    match field(fields, name) {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(MessageError::FieldType { field: name, expected: "text" }),
    }
}

fn object<'v>(
    fields: &'v Map<String, Value>,
    name: &'static str,
) -> Result<Option<&'v Map<String, Value>>, MessageError> {
    match field(fields, name) {
        None => Ok(None),
        Some(Value::Object(found)) => Ok(Some(found)),
        Some(_) => Err(MessageError::FieldType { field: name, expected: "object" }),
    }
}

fn list<'v>(fields: &'v Map<String, Value>, name: &'static str) -> Result<&'v [Value], MessageError> {
    match field(fields, name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(MessageError::FieldType { field: name, expected: "list" }),
    }
}

/// Checks that a field is a list of texts.
fn texts(fields: &Map<String, Value>, name: &'static str) -> Result<(), MessageError> {
    let is_text = |item: &Value| item.is_string() || item.is_null();
    if list(fields, name)?.iter().all(is_text) {
        Ok(())
    } else {
        Err(MessageError::FieldType { field: name, expected: "list of texts" })
    }
}

/// Returns the objects of a list. A `null` in the list is an object without fields.
fn objects<'v>(
    fields: &'v Map<String, Value>,
    name: &'static str,
) -> Result<Vec<&'v Map<String, Value>>, MessageError> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let object = |item: &'v Value| match item {
        Value::Object(found) => Ok(found),
        Value::Null => Ok(&*EMPTY),
        _ => Err(MessageError::FieldType { field: name, expected: "list of objects" }),
    };
    list(fields, name)?.iter().map(object).collect()
}

fn time(fields: &Map<String, Value>) -> Result<Option<Timestamp>, MessageError> {
    match field(fields, "time") {
        None => Ok(None),
        Some(Value::String(value)) => value.parse().map(Some).map_err(|_| MessageError::Time { value: value.clone() }),
        Some(_) => Err(MessageError::FieldType { field: "time", expected: "text" }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(source: &str, detail_type: &str, detail: Value) -> Value {
        json!({
            "version": "0", "id": "1", "detail-type": detail_type, "source": source, "account": "000000000000",
            "time": "2026-08-01T10:00:00Z", "region": "us-west-2",
            "resources": ["arn:aws:ec2:us-west-2:instance/i-0123"], "detail": detail,
        })
    }

    fn parsed(event: &Value) -> (InterruptionKind, Vec<String>) {
        let message = parse_message(&event.to_string()).unwrap();
        (message.kind, message.instance_ids)
    }

    #[test]
    fn the_five_events_give_six_kinds() {
        let ids = vec!["i-0123".to_owned()];
        let action = json!({ "instance-id": "i-0123", "instance-action": "terminate" });
        for (detail_type, detail, kind) in [
            ("EC2 Spot Instance Interruption Warning", action.clone(), InterruptionKind::SpotInterrupted),
            (
                "EC2 Capacity Reservation Instance Interruption Warning",
                action,
                InterruptionKind::CapacityReservationInterrupted,
            ),
            (
                "EC2 Instance Rebalance Recommendation",
                json!({ "instance-id": "i-0123" }),
                InterruptionKind::RebalanceRecommendation,
            ),
            (
                "EC2 Instance State-change Notification",
                json!({ "instance-id": "i-0123", "state": "STOPPING" }),
                InterruptionKind::InstanceStopped,
            ),
            (
                "EC2 Instance State-change Notification",
                json!({ "instance-id": "i-0123", "state": "shutting-down" }),
                InterruptionKind::InstanceTerminated,
            ),
        ] {
            assert_eq!(parsed(&event("aws.ec2", detail_type, detail)), (kind, ids.clone()), "{detail_type}");
        }
        let health = json!({
            "service": "EC2", "eventTypeCategory": "scheduledChange", "eventArn": "arn:aws:health:x",
            "eventDescription": [{ "language": "en_US", "latestDescription": "maintenance" }],
            "affectedEntities": [{ "entityValue": "i-0123" }, { "entityValue": "i-4567" }],
        });
        let ids = vec!["i-0123".to_owned(), "i-4567".to_owned()];
        assert_eq!(parsed(&event("aws.health", "AWS Health Event", health)), (InterruptionKind::ScheduledChange, ids));
    }

    // spec 06 #88
    #[test]
    fn other_events_and_filtered_details_are_no_op() {
        let state = |state: &str| json!({ "instance-id": "i-0123", "state": state });
        let health = |service: &str, category: &str| json!({ "service": service, "eventTypeCategory": category });
        for event in [
            event("aws.ec2", "EC2 Instance State-change Notification", state("pending")),
            event("aws.ec2", "EC2 Instance State-change Notification", state("running")),
            event("aws.health", "AWS Health Event", health("EBS", "scheduledChange")),
            event("aws.health", "AWS Health Event", health("EC2", "accountNotification")),
            event("aws.ec2", "AWS Health Event", health("EC2", "scheduledChange")),
            event("aws.s3", "Object Created", json!(["any"])),
            json!({}),
            json!(null),
        ] {
            assert_eq!(parsed(&event), (InterruptionKind::NoOp, vec![]), "{event}");
        }
        assert_eq!(parse_message("").unwrap().kind, InterruptionKind::NoOp);
    }

    #[test]
    fn malformed_messages_are_errors_that_name_the_field() {
        let spot = |detail: Value| event("aws.ec2", "EC2 Spot Instance Interruption Warning", detail).to_string();
        let mut no_time = event("aws.ec2", "any", json!({}));
        no_time["time"] = json!("yesterday");
        for (body, error) in [
            (spot(json!({ "instance-id": 1 })), "the field instance-id is no text"),
            (spot(json!("i-0123")), "the field detail is no object"),
            (no_time.to_string(), "the field time (\"yesterday\") is no time in the format of RFC 3339"),
            (json!({ "resources": "arn" }).to_string(), "the field resources is no list"),
            (json!([]).to_string(), "the field (message) is no object"),
        ] {
            assert_eq!(parse_message(&body).unwrap_err().to_string(), error, "{body}");
        }
        let error = parse_message("Interrupted!").unwrap_err().to_string();
        assert!(error.starts_with("the message is no JSON, expected value at line 1"), "{error}");
    }

    #[test]
    fn names_of_fields_have_no_case_and_null_is_absent() {
        let body = r#"{"Version":"0","SOURCE":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation",
            "time":null,"resources":[null],"detail":{"Instance-ID":"i-0123"}}"#;
        let message = parse_message(body).unwrap();
        assert_eq!(
            (message.kind, message.instance_ids, message.time),
            (InterruptionKind::RebalanceRecommendation, vec!["i-0123".to_owned()], None)
        );
    }
}
