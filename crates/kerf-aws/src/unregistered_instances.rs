//! `nodeclaim.unregistered`: publishes Events about instances that end before they become nodes,
//! and about instances that run without becoming nodes (spec 06 §14.1).
//!
//! Changes nothing: claims that never register are deleted by the lifecycle controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::conditions::{Condition, ConditionStatus, LAUNCHED, REGISTERED};
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_cloud::ProviderSetup;
use kerf_operator::events::claim_reference;
use kerf_operator::{Concurrency, Event, EventType, Reconcile, ReconcileError};
use kerf_runtime::ReconcileAction;
use kerf_state::TrackedClaim;
use tracing::debug;

use crate::context::AwsContext;
use crate::instances::{InstanceCallError, InstanceRecord, parse_provider_id};
use crate::ports::ec2::InstanceStateName;

/// Time between two runs.
const INTERVAL: Duration = Duration::from_secs(15);
/// Time for which an instance may run before it counts as not registered.
const NOT_REGISTERED_AFTER: Duration = Duration::from_mins(5);
/// Reason of the Event about an instance that has ended.
const INSTANCE_FAILED: &str = "InstanceFailed";
/// State reason of an instance that a call has terminated.
const TERMINATED_BY_CALL: &str = "Client.UserInitiatedShutdown";

/// Part of a state reason, and what to do about it.
const HINTS: [(&str, &str); 5] = [
    ("KMSKey", "check that the KMS key of the volumes is enabled and that EC2 may use it"),
    ("VolumeLimitExceeded", "the account's EBS volume quota is used up: delete volumes or request a higher quota"),
    ("InternalError", "often the KMS key of a volume or snapshot may not be used: check its key policy"),
    ("Snapshot", "check the snapshotID in spec.blockDeviceMappings of the EC2NodeClass"),
    ("InsufficientInstanceCapacity", "EC2 had no capacity left; another instance is launched"),
];

/// The controller.
pub(crate) struct UnregisteredInstances {
    context: Arc<AwsContext>,
}

/// Failure to describe the instances of unregistered claims.
#[derive(Debug, thiserror::Error)]
#[error("describing instances of unregistered nodeclaims, {0}")]
pub(crate) struct UnregisteredError(#[source] InstanceCallError);

impl ReconcileError for UnregisteredError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        self.0.log_fields()
    }
}

impl UnregisteredInstances {
    /// Adds the controller.
    pub(crate) fn add_to(setup: &mut ProviderSetup<'_>, context: Arc<AwsContext>) {
        let settings = Concurrency { cores: 1 }.single_worker();
        setup.set.add_singleton::<Self>("nodeclaim.unregistered", Self::new(context), settings);
    }

    fn new(context: Arc<AwsContext>) -> Self {
        Self { context }
    }

    /// Returns the claims that have an instance and no node, by ID of the instance.
    fn unregistered_claims(&self) -> BTreeMap<String, Arc<TrackedClaim>> {
        let cluster = self.context.cluster.lock();
        let claims = cluster.all::<TrackedClaim>().values().filter(|claim| !claim.is_condition_true(REGISTERED));
        let with_id = |claim: &Arc<TrackedClaim>| {
            Some((parse_provider_id(&claim.engine_claim.provider_id).ok()?.to_owned(), claim.clone()))
        };
        claims.filter_map(with_id).collect()
    }

    async fn not_registered_event(&self, claim: &NodeClaim, instance: &InstanceRecord) -> Event {
        // The text is of use without the class too.
        let class = self.context.node_classes.get(&claim.spec.node_class_ref.name).await.ok();
        let endpoint = self.context.discovery.facts().get().endpoint.clone();
        let cluster_name = &self.context.settings.cluster_name;
        let message = not_registered_message(instance, class.as_deref(), cluster_name, &endpoint);
        Event::new(claim_reference(claim), EventType::Warning, "InstanceNotRegistered", message)
    }
}

impl Reconcile for UnregisteredInstances {
    type Error = UnregisteredError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, UnregisteredError> {
        let claims = self.unregistered_claims();
        let uids: BTreeSet<&str> = claims.values().filter_map(|claim| claim.object.metadata.uid.as_deref()).collect();
        self.context.published_claim_events.retain(&uids);
        if claims.is_empty() {
            return Ok(ReconcileAction::RequeueAfter(INTERVAL));
        }
        let ids: Vec<String> = claims.keys().cloned().collect();
        let instances = self.context.instances.describe_any_state(&ids).await.map_err(UnregisteredError)?;
        let now = self.context.clock.now();
        for instance in instances {
            let Some(claim) = claims.get(&instance.id).map(|claim| &claim.object) else { continue };
            if let Some(event) = ended_event(claim, &instance) {
                publish_once(&self.context, claim, event);
            } else if is_running_for_long(&instance, now) && claim.metadata.deletion_timestamp.is_none() {
                let event = self.not_registered_event(claim, &instance).await;
                publish_once(&self.context, claim, event);
            }
        }
        Ok(ReconcileAction::RequeueAfter(INTERVAL))
    }
}

/// Publishes an Event unless one with its reason was published about the claim.
fn publish_once(context: &AwsContext, claim: &NodeClaim, event: Event) {
    if context.published_claim_events.record(claim, &event.reason) {
        context.events.publish(event);
    }
}

/// Publishes an Event if the instance of a claim that never registered had ended before its
/// termination was requested. `result` is the result of that request. Does nothing if the Event was
/// published before.
pub(crate) async fn report_ended_instance(
    context: &AwsContext,
    claim: &NodeClaim,
    id: &str,
    result: &Result<Arc<InstanceRecord>, InstanceCallError>,
) {
    let is_unregistered = has_condition(claim, LAUNCHED) && !has_condition(claim, REGISTERED);
    let is_published = context.published_claim_events.contains(claim, INSTANCE_FAILED);
    if !is_unregistered || is_published || context.instances.has_terminated(id) {
        return;
    }
    let event = match result {
        Ok(instance) => ended_event(claim, instance),
        Err(InstanceCallError::NotFound(_)) => match context.instances.describe_any_state(&[id.to_owned()]).await {
            Ok(instances) => instances.iter().find_map(|instance| ended_event(claim, instance)),
            Err(cause) => {
                debug!(error = %cause, NodeClaim = claim.metadata.name, "failed reading why the instance ended");
                None
            }
        },
        Err(_) => None,
    };
    if let Some(event) = event {
        publish_once(context, claim, event);
    }
}

/// Returns true if a condition of a claim is true.
fn has_condition(claim: &NodeClaim, kind: &str) -> bool {
    let conditions = claim.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let is_true = |condition: &Condition| condition.condition_type == kind && condition.status == ConditionStatus::True;
    conditions.iter().any(is_true)
}

/// Returns the Event about an instance that has ended. Returns `None` if it has not, or if a call
/// has terminated it for a claim that is being deleted.
fn ended_event(claim: &NodeClaim, instance: &InstanceRecord) -> Option<Event> {
    let reason = instance.state_reason.as_deref().filter(|_| instance.is_terminating())?;
    if reason.starts_with(TERMINATED_BY_CALL) && claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut message = format!("EC2 ended instance {} before it became a node: {reason}", instance.id);
    if let Some((_, hint)) = HINTS.iter().find(|(part, _)| reason.contains(part)) {
        message = format!("{message} ({hint})");
    }
    Some(Event::new(claim_reference(claim), EventType::Warning, INSTANCE_FAILED, message))
}

fn is_running_for_long(instance: &InstanceRecord, now: Timestamp) -> bool {
    let is_running = matches!(instance.state, InstanceStateName::Pending | InstanceStateName::Running);
    let since = instance.launched_at.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
    is_running && since.is_some_and(|running_for| running_for >= NOT_REGISTERED_AFTER)
}

fn not_registered_message(
    instance: &InstanceRecord,
    class: Option<&EC2NodeClass>,
    cluster_name: &str,
    endpoint: &str,
) -> String {
    let spec = class.and_then(|class| class.spec.as_ref());
    let role = spec.and_then(|spec| spec.role.as_deref()).filter(|role| !role.is_empty());
    let profile = class.and_then(|class| class.status.as_ref()?.instance_profile.as_deref());
    let identity = match (role, profile) {
        (Some(role), _) => format!("role {role}"),
        (None, Some(profile)) => format!("the role of instance profile {profile}"),
        (None, None) => "the node role".to_owned(),
    };
    let groups: Vec<&str> = instance.security_group_ids.iter().map(String::as_str).collect();
    format!(
        "Instance {id} has run for {minutes} minutes and its node has not joined the cluster. Check that {identity} may \
         join (EKS access entry or aws-auth), that security groups {groups} let it reach the endpoint {endpoint}, and \
         that the user data joins cluster {cluster_name}; aws ec2 get-console-output --instance-id {id} shows its boot",
        id = instance.id,
        minutes = NOT_REGISTERED_AFTER.as_secs() / 60,
        groups = groups.join(", "),
    )
}

#[cfg(test)]
mod tests;
