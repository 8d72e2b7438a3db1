//! Changes of instances beside API calls: interruptions with notice, recommendations, health
//! events, stops and terminations by hand.

use std::time::Duration;

use jiff::Timestamp;

use super::MemoryAws;
use super::event_bridge::InstanceEvent;
use super::records::LaunchedInstance;
use super::state::{AwsState, Transition};
use crate::ports::ec2::InstanceStateName;

/// Time between the notice of an interruption and the termination.
const NOTICE: Duration = Duration::from_mins(2);

impl MemoryAws {
    /// Takes a spot instance, or an instance of an interruptible reservation, back: sends the
    /// two-minute notice and terminates the instance afterwards. Returns false for another
    /// instance, and if it is not live or has its notice already.
    pub fn reclaim_instance(&self, id: &str) -> bool {
        self.change_instances(|state, now| state.reclaim(id, now))
    }

    /// Recommends to replace a spot instance. Returns false if there is no such live spot instance.
    pub fn recommend_rebalance(&self, id: &str) -> bool {
        self.change_instances(|state, now| {
            let is_spot = state.is_live(id) && state.lifecycle_of(id) == Some("spot");
            if is_spot {
                state.publish(id, &InstanceEvent::Rebalance, now);
            }
            is_spot
        })
    }

    /// Sends a scheduled change of AWS Health with this event type code. Returns false if there is
    /// no such live instance.
    pub fn send_health_event(&self, id: &str, event_type_code: &str) -> bool {
        self.change_instances(|state, now| {
            let is_live = state.is_live(id);
            if is_live {
                state.publish(id, &InstanceEvent::HealthEvent(event_type_code.to_owned()), now);
            }
            is_live
        })
    }

    /// Stops a running instance, as a person does. Returns false if it does not run.
    pub fn stop_instance(&self, id: &str) -> bool {
        self.change_instances(|state, now| {
            let Some(launched) = state.instances.get_mut(id) else { return false };
            if launched.instance.state != InstanceStateName::Running {
                return false;
            }
            launched.instance.state = InstanceStateName::Stopping;
            launched.instance.state_reason = Some("Client.UserInitiatedShutdown".to_owned());
            state.instance_changes += 1;
            state.publish_state(id, InstanceStateName::Stopping, now);
            let stopped_at = now.saturating_add(state.settings.shutting_down_for).unwrap_or(Timestamp::MAX);
            state.schedule(stopped_at, id, Transition::Stop);
            true
        })
    }

    /// Terminates an instance as EC2 itself or a person does. `reason` is the code of its state
    /// reason, for example `Client.UserInitiatedShutdown`. Returns false if there is no such live
    /// instance.
    pub fn fail_instance(&self, id: &str, reason: &str) -> bool {
        self.change_instances(|state, now| state.terminate(id, reason, now).is_some())
    }

    /// Carries out the transitions that are due and then a change, and notifies of both.
    fn change_instances(&self, change: impl FnOnce(&mut AwsState, Timestamp) -> bool) -> bool {
        let now = self.clock().now();
        let mut state = self.state();
        state.advance(now);
        let is_changed = change(&mut state, now);
        self.notify_changes(&state);
        is_changed
    }
}

impl AwsState {
    fn is_live(&self, id: &str) -> bool {
        self.instances.get(id).is_some_and(LaunchedInstance::is_live)
    }

    fn lifecycle_of(&self, id: &str) -> Option<&str> {
        self.instances.get(id)?.instance.lifecycle.as_deref()
    }

    fn reclaim(&mut self, id: &str, now: Timestamp) -> bool {
        let event = match self.lifecycle_of(id) {
            Some("spot") => InstanceEvent::SpotInterruption,
            Some("interruptible-capacity-reservation") => InstanceEvent::ReservationInterruption,
            Some(_) | None => return false,
        };
        let is_live = self.is_live(id);
        let Some(launched) = self.instances.get_mut(id).filter(|launched| is_live && !launched.is_reclaimed) else {
            return false;
        };
        launched.is_reclaimed = true;
        self.instance_changes += 1;
        self.publish(id, &event, now);
        self.schedule(now.saturating_add(NOTICE).unwrap_or(Timestamp::MAX), id, Transition::Reclaim);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::SPOT_INTERRUPTION;
    use super::super::testing::{SUBNETS, aws_with, fleet, on_demand, spot, template};
    use super::super::{MemoryAws, MemorySettings};
    use super::*;
    use crate::interruption::{InterruptionKind, parse_message};
    use crate::ports::Ec2 as _;
    use crate::ports::ec2::FleetTarget;

    const QUEUE: &str = "demo";

    /// Returns an EC2 whose events go to a queue, and the ID of its only instance, which runs.
    async fn aws_with_instance(target: FleetTarget) -> (MemoryAws, String) {
        let aws = aws_with(MemorySettings { event_queue: Some(QUEUE.to_owned()), ..MemorySettings::default() });
        aws.create_launch_template(template(&aws, "demo")).await.unwrap();
        let mut answer = aws.create_fleet(fleet(1, target, "demo", &[("m5.large", SUBNETS[0])])).await.unwrap();
        aws.run_pending_instances();
        (aws, answer.instances.remove(0).ids.remove(0))
    }

    /// Returns the kinds of the messages about the instance, without those that concern nothing.
    fn kinds(aws: &MemoryAws, id: &str) -> Vec<InterruptionKind> {
        let messages = aws.queued_messages(QUEUE).into_iter().map(|body| parse_message(&body).unwrap());
        let messages = messages.filter(|message| message.kind != InterruptionKind::NoOp);
        messages.inspect(|message| assert_eq!(message.instance_ids, [id])).map(|message| message.kind).collect()
    }

    fn state(aws: &MemoryAws) -> (InstanceStateName, Option<String>) {
        let instance = aws.instances().remove(0).instance;
        (instance.state, instance.state_reason)
    }

    // spec 06 §9.2
    #[tokio::test(start_paused = true)]
    async fn a_spot_instance_is_terminated_two_minutes_after_its_notice() {
        let (aws, id) = aws_with_instance(spot()).await;
        assert_eq!(aws.queued_messages(QUEUE).len(), 2, "pending and running are state changes too");
        assert!(aws.recommend_rebalance(&id));
        assert!(aws.reclaim_instance(&id));
        assert!(!aws.reclaim_instance(&id), "one notice is enough");
        assert_eq!(kinds(&aws, &id), [InterruptionKind::RebalanceRecommendation, InterruptionKind::SpotInterrupted]);
        tokio::time::advance(NOTICE.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert_eq!(state(&aws), (InstanceStateName::Running, None));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(state(&aws), (InstanceStateName::ShuttingDown, Some(SPOT_INTERRUPTION.to_owned())));
        tokio::time::advance(MemorySettings::default().shutting_down_for).await;
        assert_eq!(state(&aws).0, InstanceStateName::Terminated);
        let terminated = [InterruptionKind::InstanceTerminated; 2];
        assert_eq!(kinds(&aws, &id)[2..], terminated, "shutting-down and terminated");
    }

    #[tokio::test(start_paused = true)]
    async fn an_on_demand_instance_is_not_reclaimed_and_can_be_stopped() {
        let (aws, id) = aws_with_instance(on_demand()).await;
        assert!(!aws.reclaim_instance(&id) && !aws.recommend_rebalance(&id) && !aws.reclaim_instance("i-1"));
        assert!(aws.send_health_event(&id, "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"));
        assert!(aws.stop_instance(&id));
        assert!(!aws.stop_instance(&id));
        assert_eq!(state(&aws).0, InstanceStateName::Stopping);
        tokio::time::advance(MemorySettings::default().shutting_down_for).await;
        assert_eq!(state(&aws).0, InstanceStateName::Stopped);
        let stopped = InterruptionKind::InstanceStopped;
        assert_eq!(kinds(&aws, &id), [InterruptionKind::ScheduledChange, stopped, stopped]);
        assert!(aws.fail_instance(&id, "Client.UserInitiatedShutdown"), "a stopped instance can be terminated");
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_lost_without_the_queue() {
        let (aws, id) = aws_with_instance(spot()).await;
        aws.change_account(|account| account.queues.clear());
        assert!(aws.reclaim_instance(&id));
        aws.change_account(|account| account.queues.insert(QUEUE.to_owned()));
        assert_eq!(kinds(&aws, &id), []);
    }
}
