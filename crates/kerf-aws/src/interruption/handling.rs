//! The effect of an interruption on the NodeClaims of its instances (spec 06 §9.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use kerf_api::labels::{self, aws};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Node;
use kerf_operator::events::{claim_reference, node_reference};
use kerf_operator::metrics::DisruptedClaims;
use kerf_operator::{Event, EventType, delete_claim};
use kerf_runtime::{ApiError, MergePatch, OptimisticLock, PatchTarget};
use kerf_state::TrackedClaim;
use kube::api::Api;
use tracing::info;

use super::message::InterruptionKind;
use super::metrics::InterruptionMetrics;
use crate::context::AwsContext;
use crate::unavailable_offerings::{InstancePool, PoolScope};

/// Carries out interruptions.
pub(super) struct InterruptionHandler {
    context: Arc<AwsContext>,
    metrics: InterruptionMetrics,
}

/// An interruption of some instances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interruption<'i> {
    pub(super) kind: InterruptionKind,
    pub(super) instance_ids: &'i [String],
    /// Name of the queue, for logs; empty without a queue.
    pub(super) queue: &'i str,
}

/// Failures to annotate or delete NodeClaims. All other claims of the interruption are handled.
#[derive(Debug, thiserror::Error)]
#[error("acting on NodeClaims, {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub(crate) struct HandlingError(Vec<ClaimError>);

/// Failure to annotate or delete a NodeClaim.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("annotating NodeClaim {name}, {cause}")]
    Annotate { name: String, cause: ApiError },
    #[error("deleting NodeClaim {name}, {cause}")]
    Delete { name: String, cause: ApiError },
}

/// The reaction to an interruption of a NodeClaim's instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InterruptionAction {
    /// The claim is deleted, which drains the node.
    CordonAndDrain,
    /// The claim is deleted, and its node is not drained any longer: the instance does not work.
    ForcefulTermination,
    NoAction,
}

impl InterruptionAction {
    fn of(kind: InterruptionKind) -> Self {
        match kind {
            InterruptionKind::SpotInterrupted
            | InterruptionKind::CapacityReservationInterrupted
            | InterruptionKind::ScheduledChange
            | InterruptionKind::InstanceStopped
            | InterruptionKind::InstanceTerminated
            | InterruptionKind::EventStatus => Self::CordonAndDrain,
            InterruptionKind::InstanceStatus | InterruptionKind::SystemStatus => Self::ForcefulTermination,
            InterruptionKind::RebalanceRecommendation | InterruptionKind::NoOp => Self::NoAction,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::CordonAndDrain => "CordonAndDrain",
            Self::ForcefulTermination => "ForcefulTermination",
            Self::NoAction => "NoAction",
        }
    }
}

impl InterruptionHandler {
    pub(super) fn new(context: Arc<AwsContext>, metrics: InterruptionMetrics) -> Self {
        Self { context, metrics }
    }

    /// Handles an interruption. Returns the number of claims that the instances have; instances of
    /// other clusters have none.
    pub(super) async fn handle(&self, interruption: Interruption<'_>) -> Result<usize, HandlingError> {
        let mut found = 0;
        let mut errors = Vec::new();
        for id in interruption.instance_ids {
            let (claims, node) = {
                let cluster = self.context.cluster.lock();
                let claims: Vec<Arc<TrackedClaim>> = cluster.claims_of_instance(id).cloned().collect();
                let node = cluster.nodes_of_instance(id).next().cloned();
                (claims, node)
            };
            for claim in claims {
                found += 1;
                if let Err(error) = self.handle_claim(interruption, &claim.object, node.as_deref()).await {
                    errors.push(error);
                }
            }
        }
        if errors.is_empty() { Ok(found) } else { Err(HandlingError(errors)) }
    }

    async fn handle_claim(
        &self,
        interruption: Interruption<'_>,
        claim: &NodeClaim,
        node: Option<&Node>,
    ) -> Result<(), ClaimError> {
        for object in [Some(claim_reference(claim)), node.map(node_reference)].into_iter().flatten() {
            self.publish_interruption(interruption.kind, object);
        }
        self.mark_unavailable(interruption.kind, claim);
        let action = InterruptionAction::of(interruption.kind);
        match action {
            InterruptionAction::NoAction => return Ok(()),
            InterruptionAction::CordonAndDrain => {}
            InterruptionAction::ForcefulTermination => self.end_drain_now(claim).await?,
        }
        if claim.metadata.deletion_timestamp.is_none() && self.delete(claim).await? {
            self.report_deletion(interruption, action, claim, node);
        }
        Ok(())
    }

    fn publish_interruption(&self, kind: InterruptionKind, object: ObjectReference) {
        let (event_type, reason, message) = match kind {
            InterruptionKind::SpotInterrupted => {
                (EventType::Warning, "SpotInterrupted", "Spot interruption warning was triggered")
            }
            InterruptionKind::CapacityReservationInterrupted => (
                EventType::Warning,
                "CapacityReservationInstanceInterrupted",
                "Capacity Reservation interruption warning was triggered",
            ),
            InterruptionKind::ScheduledChange
            | InterruptionKind::EventStatus
            | InterruptionKind::InstanceStatus
            | InterruptionKind::SystemStatus => {
                (EventType::Warning, "InstanceUnhealthy", "An unhealthy warning was triggered for the instance")
            }
            InterruptionKind::InstanceStopped => (EventType::Warning, "InstanceStopping", "Instance is stopping"),
            InterruptionKind::InstanceTerminated => {
                (EventType::Warning, "InstanceTerminating", "Instance is terminating")
            }
            InterruptionKind::RebalanceRecommendation => {
                (EventType::Normal, "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered")
            }
            InterruptionKind::NoOp => return,
        };
        self.context.events.publish(Event::new(object, event_type, reason, message.to_owned()));
    }

    /// Records that the capacity of an interrupted instance cannot be launched at present.
    fn mark_unavailable(&self, kind: InterruptionKind, claim: &NodeClaim) {
        let empty = BTreeMap::new();
        let claim_labels = claim.metadata.labels.as_ref().unwrap_or(&empty);
        match kind {
            InterruptionKind::SpotInterrupted => {
                if let (Some(zone), Some(instance_type)) =
                    (claim_labels.get(labels::ZONE), claim_labels.get(labels::INSTANCE_TYPE))
                {
                    self.context.unavailable.mark_pool(InstancePool {
                        instance_type: instance_type.clone(),
                        zone: zone.clone(),
                        capacity_type: labels::CAPACITY_TYPE_SPOT.to_owned(),
                        scope: PoolScope::Unscoped,
                    });
                }
            }
            InterruptionKind::CapacityReservationInterrupted => {
                if let Some(id) = claim_labels.get(aws::CAPACITY_RESERVATION_ID) {
                    self.context.reservation_slots.mark_reclaimed(id);
                }
            }
            InterruptionKind::RebalanceRecommendation
            | InterruptionKind::InstanceStopped
            | InterruptionKind::InstanceTerminated
            | InterruptionKind::ScheduledChange
            | InterruptionKind::InstanceStatus
            | InterruptionKind::SystemStatus
            | InterruptionKind::EventStatus
            | InterruptionKind::NoOp => {}
        }
    }

    /// Sets the time at which the drain of a claim must end to now, unless it is set.
    async fn end_drain_now(&self, claim: &NodeClaim) -> Result<(), ClaimError> {
        let is_set =
            claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(NODECLAIM_TERMINATION_TIMESTAMP));
        if is_set {
            return Ok(());
        }
        let now = self.context.clock.now();
        let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let mut annotated = claim.clone();
        let annotations = annotated.metadata.annotations.get_or_insert_default();
        annotations.insert(NODECLAIM_TERMINATION_TIMESTAMP.to_owned(), now);
        let patch = MergePatch { target: PatchTarget::Object, lock: OptimisticLock::None };
        match patch.send(&self.claims(), claim, &annotated).await {
            Ok(_) | Err(ApiError::NotFound) => Ok(()),
            Err(cause) => Err(ClaimError::Annotate { name: name_of(claim), cause }),
        }
    }

    /// Deletes a claim. Returns false if it does not exist any longer.
    async fn delete(&self, claim: &NodeClaim) -> Result<bool, ClaimError> {
        match delete_claim(&self.context.client, &self.context.cluster, claim).await {
            Ok(()) => Ok(true),
            // A conflict means that the name belongs to another claim by now.
            Err(ApiError::NotFound | ApiError::Conflict) => Ok(false),
            Err(cause) => Err(ClaimError::Delete { name: name_of(claim), cause }),
        }
    }

    fn report_deletion(
        &self,
        interruption: Interruption<'_>,
        action: InterruptionAction,
        claim: &NodeClaim,
        node: Option<&Node>,
    ) {
        let kind = interruption.kind.name();
        let queue = Some(interruption.queue).filter(|queue| !queue.is_empty());
        info!(
            queue,
            messageKind = kind,
            NodeClaim = name_of(claim),
            action = action.name(),
            Node = node.map(|node| node.metadata.name.as_str()),
            "initiating delete from interruption message"
        );
        let publish = |object, object_kind| {
            let message = format!("Interruption triggered termination for the {object_kind}");
            self.context.events.publish(Event::new(object, EventType::Warning, "TerminatingOnInterruption", message));
        };
        publish(claim_reference(claim), "NodeClaim");
        if let Some(node) = node {
            publish(node_reference(node), "Node");
        }
        self.metrics.disrupted.inc(&DisruptedClaims::labels(claim, kind, ""));
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.context.client.clone())
    }
}

fn name_of(claim: &NodeClaim) -> String {
    claim.metadata.name.clone().unwrap_or_default()
}
