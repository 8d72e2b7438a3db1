//! `kwok.registration`: creates the Nodes of instances that register with a delay
//! (`nodeRegistrationDelay`, spec 04 §14.3). Launch and registration are separate steps: an
//! instance exists from its launch on, and its Node is created once the delay has passed.
//!
//! After a restart the pending registrations are found again from the NodeClaims that record a
//! launched instance and have no Node yet, so a crash loses no booting instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::conditions::{LAUNCHED, REGISTERED};
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_cloud::{BoxError, Instance, ProviderSetup};
use kerf_engine::catalogue::InstanceTypes;
use kerf_operator::logs::ObjectKind;
use kerf_operator::{Concurrency, ControllerName, Reconcile, ReconcileError, SharedCluster};
use kerf_runtime::{ApiError, Clock, ReconcileAction, with_retries};
use kerf_state::TrackedClaim;
use kube::Client;
use kube::api::{Api, PostParams};

use crate::node::{self, ChosenOffering, PROVIDER_ID_PREFIX};

/// Instances that are launched and have no Node yet. Clones share one list. It holds at most one
/// entry per NodeClaim.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingRegistrations(Arc<Mutex<RegistrationState>>);

#[derive(Debug, Default)]
struct RegistrationState {
    /// Pending instances by provider ID.
    pending: BTreeMap<String, PendingInstance>,
    /// UIDs of claims whose Node this process has created. A Node that was deleted since then is
    /// not created again: its instance was terminated.
    created: BTreeSet<String>,
}

/// A launched instance without a Node.
#[derive(Debug, Clone)]
struct PendingInstance {
    /// The Node to create.
    node: Node,
    launched_at: Timestamp,
    /// Time at which the Node is created.
    due: Timestamp,
}

impl PendingRegistrations {
    fn lock(&self) -> MutexGuard<'_, RegistrationState> {
        // Every change is a single statement, so a panic elsewhere leaves the state valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a launched instance. Does nothing if it is recorded already.
    pub(crate) fn add(&self, provider_id: String, node: Node, launched_at: Timestamp, delay: Duration) {
        let due = launched_at.saturating_add(delay).unwrap_or(Timestamp::MAX);
        self.lock().pending.entry(provider_id).or_insert(PendingInstance { node, launched_at, due });
    }

    /// Returns a pending instance.
    pub(crate) fn get(&self, provider_id: &str) -> Option<Instance> {
        self.lock().pending.get(provider_id).map(PendingInstance::instance)
    }

    /// Returns all pending instances.
    pub(crate) fn all(&self) -> Vec<Instance> {
        self.lock().pending.values().map(PendingInstance::instance).collect()
    }

    /// Removes a pending instance, as its termination does. Returns true if there was one.
    pub(crate) fn remove(&self, provider_id: &str) -> bool {
        self.lock().pending.remove(provider_id).is_some()
    }
}

impl PendingInstance {
    fn instance(&self) -> Instance {
        Instance { launched_at: Some(self.launched_at), ..node::instance_from_node(&self.node) }
    }
}

/// The controller.
pub(crate) struct Registration {
    pending: PendingRegistrations,
    client: Client,
    cluster: SharedCluster,
    clock: Clock,
    types: InstanceTypes,
    label_rules: LabelRules,
    partition: String,
}

/// Reason why a Node was not created. The attempt is repeated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    #[error("creating node {name}, {cause}")]
    Create {
        name: String,
        #[source]
        cause: ApiError,
    },
    #[error("reading nodeclass {name}, {cause}")]
    NodeClass {
        name: String,
        #[source]
        cause: BoxError,
    },
}

impl ReconcileError for RegistrationError {}

impl Registration {
    /// Adds the controller. It runs for each change of a NodeClaim that is not registered yet.
    pub(crate) fn add_to(
        setup: &mut ProviderSetup<'_>,
        pending: PendingRegistrations,
        types: InstanceTypes,
        label_rules: LabelRules,
        partition: String,
    ) {
        let controller = Self {
            pending,
            client: setup.client.clone(),
            cluster: setup.cluster.clone(),
            clock: setup.clock,
            types,
            label_rules,
            partition,
        };
        let name = ControllerName::of_kind("kwok.registration", ObjectKind::of::<NodeClaim>());
        let cores = setup.set.environment().cores;
        let workers = Concurrency { cores }.workers(10, 1000);
        let registered = setup.set.add::<Self>(name, controller, Concurrency::reasonable(workers));
        setup.set.handlers_mut().add::<TrackedClaim>(move |change| {
            let is_registered = change
                .after
                .as_ref()
                .is_some_and(|claim| claim.is_condition_true(REGISTERED) && !claim.is_terminating());
            if let Some(claim) = change.latest().filter(|_| !is_registered) {
                registered.enqueue(claim.name());
            }
        });
    }

    /// Returns the delay of the claim's node class. Zero if the class does not exist any more.
    fn delay(&self, claim: &NodeClaim) -> Result<Duration, RegistrationError> {
        let reference = &claim.spec.node_class_ref;
        let Some(class) = self.cluster.lock().node_class(reference).cloned() else { return Ok(Duration::ZERO) };
        let failed = |cause: BoxError| RegistrationError::NodeClass { name: reference.name.clone(), cause };
        let class: KWOKNodeClass = class.decode().map_err(|cause| failed(Box::new(cause)))?;
        registration_delay(&class).map_err(|cause| failed(Box::new(cause)))
    }

    /// Adds a pending registration for an instance that an earlier process launched. Does nothing
    /// if the instance registers without delay: then the launch itself created its Node.
    fn recover(&self, claim: &TrackedClaim, provider_id: &str) -> Result<(), RegistrationError> {
        let delay = self.delay(&claim.object)?;
        let Some(choice) = self.recorded_offering(&claim.object).filter(|_| !delay.is_zero()) else { return Ok(()) };
        let requirements = node::requirements(&claim.object, &self.label_rules);
        let node = node::build_node(&claim.object, &requirements, choice, &self.partition);
        let conditions = claim.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let launched = conditions.iter().find(|condition| condition.condition_type == LAUNCHED);
        let launched_at = launched.map_or_else(|| self.clock.now(), |condition| condition.last_transition_time.0);
        self.pending.add(provider_id.to_owned(), node, launched_at, delay);
        Ok(())
    }

    /// Returns the offering that the claim's labels name.
    fn recorded_offering(&self, claim: &NodeClaim) -> Option<ChosenOffering<'_>> {
        let labels = claim.metadata.labels.as_ref()?;
        let key: Vec<&str> = [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE]
            .iter()
            .filter_map(|label| labels.get(*label).map(String::as_str))
            .collect();
        let [type_name, zone, capacity_type] = key[..] else { return None };
        let instance_type = self.types.find(type_name)?.instance_type();
        let offering = instance_type.offerings.iter().find(|offering| {
            node::offering_key(&instance_type.name, offering)
                .is_some_and(|(_, own_zone, own_type)| own_zone == zone && own_type == capacity_type)
        })?;
        Some(ChosenOffering { instance_type, offering })
    }
}

impl Reconcile for Registration {
    type Error = RegistrationError;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, RegistrationError> {
        let Some(claim) = self.cluster.lock().get::<TrackedClaim>(name).cloned() else {
            return Ok(ReconcileAction::Done);
        };
        let provider_id = claim.engine_claim.provider_id.as_str();
        if !provider_id.starts_with(PROVIDER_ID_PREFIX) || claim.is_terminating() {
            return Ok(ReconcileAction::Done);
        }
        let has_node = self.cluster.lock().nodes_of(provider_id).next().is_some();
        if has_node || self.pending.lock().created.contains(claim.uid()) {
            self.pending.remove(provider_id);
            return Ok(ReconcileAction::Done);
        }
        if self.pending.get(provider_id).is_none() {
            self.recover(&claim, provider_id)?;
        }
        let Some(instance) = self.pending.lock().pending.get(provider_id).cloned() else {
            return Ok(ReconcileAction::Done);
        };
        let wait = Duration::try_from(instance.due.duration_since(self.clock.now())).unwrap_or(Duration::ZERO);
        if !wait.is_zero() {
            return Ok(ReconcileAction::RequeueAfter(wait));
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let created = with_retries(|| async { nodes.create(&PostParams::default(), &instance.node).await }).await;
        match created {
            // A conflict means that the Node exists already.
            Ok(_) | Err(ApiError::Conflict) => {}
            Err(cause) => {
                let name = instance.node.metadata.name.clone().unwrap_or_default();
                return Err(RegistrationError::Create { name, cause });
            }
        }
        let mut state = self.pending.lock();
        state.pending.remove(provider_id);
        state.created.insert(claim.uid().to_owned());
        // Claims that no longer exist need no mark.
        if state.created.len() > 2 * CREATED_MARKS_MIN {
            let cluster = self.cluster.lock();
            let uids: BTreeSet<&str> = cluster.all::<TrackedClaim>().values().map(|claim| claim.uid()).collect();
            state.created.retain(|uid| uids.contains(uid.as_str()));
        }
        Ok(ReconcileAction::Done)
    }
}

/// Number of marks up to which marks of deleted claims are kept.
const CREATED_MARKS_MIN: usize = 1024;

/// Returns the delay between the launch of an instance and the creation of its Node.
pub(crate) fn registration_delay(class: &KWOKNodeClass) -> Result<Duration, kerf_api::duration::DurationError> {
    let text = class.spec.as_ref().and_then(|spec| spec.node_registration_delay.as_ref());
    match text.map(|text| text.as_str().parse::<kerf_api::duration::Duration>()) {
        None => Ok(Duration::ZERO),
        Some(delay) => Ok(delay?.to_std().unwrap_or_default()),
    }
}
