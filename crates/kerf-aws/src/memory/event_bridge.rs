//! Events that AWS publishes about instances. A rule of `EventBridge` forwards them to one queue,
//! as the template of Karpenter's getting-started guide sets up (spec 06 §9.2).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::state::AwsState;
use crate::ports::ec2::InstanceStateName;

/// An event about one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InstanceEvent {
    /// EC2 takes a spot instance back in two minutes.
    SpotInterruption,
    /// A spot instance has an elevated risk of interruption.
    Rebalance,
    /// The owner of an interruptible capacity reservation takes the instance back.
    ReservationInterruption,
    /// The instance has a new state.
    StateChange(InstanceStateName),
    /// AWS Health has scheduled a change with this event type code.
    HealthEvent(String),
}

impl AwsState {
    /// Sends the event of a new state to the queue.
    pub(super) fn publish_state(&mut self, instance_id: &str, state: InstanceStateName, now: Timestamp) {
        self.publish(instance_id, &InstanceEvent::StateChange(state), now);
    }

    /// Sends an event to the queue of the account's rule. Without a rule, or if its queue does not
    /// exist, the event is lost.
    pub(super) fn publish(&mut self, instance_id: &str, event: &InstanceEvent, now: Timestamp) {
        let Some(queue) = self.settings.event_queue.clone().filter(|name| self.account.queues.contains(name)) else {
            return;
        };
        let id = self.new_request_id();
        let body = self.envelope(&id, instance_id, event, now).to_string();
        self.send_to_queue(&queue, id, body, now);
    }

    fn envelope(&self, id: &str, instance_id: &str, event: &InstanceEvent, now: Timestamp) -> Value {
        let (region, account) = (&self.account.region, &self.account.account_id);
        let interruption = || json!({ "instance-id": instance_id, "instance-action": "terminate" });
        let (source, detail_type, detail) = match event {
            InstanceEvent::SpotInterruption => ("aws.ec2", "EC2 Spot Instance Interruption Warning", interruption()),
            InstanceEvent::ReservationInterruption => {
                ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", interruption())
            }
            InstanceEvent::Rebalance => {
                ("aws.ec2", "EC2 Instance Rebalance Recommendation", json!({ "instance-id": instance_id }))
            }
            InstanceEvent::StateChange(state) => (
                "aws.ec2",
                "EC2 Instance State-change Notification",
                json!({ "instance-id": instance_id, "state": state.name() }),
            ),
            InstanceEvent::HealthEvent(code) => (
                "aws.health",
                "AWS Health Event",
                json!({
                    "eventArn": format!("arn:aws:health:{region}::event/EC2/{code}/{id}"),
                    "service": "EC2",
                    "eventTypeCode": code,
                    "eventTypeCategory": "scheduledChange",
                    "eventDescription": [{ "language": "en_US", "latestDescription": "A change of the instance is scheduled." }],
                    "affectedEntities": [{ "entityValue": instance_id }],
                }),
            ),
        };
        json!({
            "version": "0",
            "id": id,
            "detail-type": detail_type,
            "source": source,
            "account": account,
            "time": Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
            "region": region,
            "resources": [format!("arn:aws:ec2:{region}:{account}:instance/{instance_id}")],
            "detail": detail,
        })
    }
}
