//! The simulated cloud. Each instance is a Node object: a launch creates the Node, a termination
//! deletes it. All facts about an instance are read from its Node, so a restarted provider loses
//! nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::conditions::{ConditionStatus, READY};
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::quantity::Quantity;
use kerf_api::unparsed::Resources;
use kerf_cloud::{
    BoxError, CloudProvider, CreateError, DriftError, GarbageCollectionSchedule, Instance, InstanceError,
    InstanceGarbageCollection, InstanceTypesError, ListError, NodeClassKind, ProviderSetup, RepairPolicy,
};
use kerf_engine::catalogue::{InstanceType, InstanceTypes};
use kerf_engine::requirement::{EffectiveOperator, Requirement, Requirements};
use kerf_operator::SharedCluster;
use kerf_runtime::{Causes, Clock};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};

use crate::availability::{AvailabilityError, InstanceAvailability, UnavailableOfferings, UnlimitedAvailability};
use crate::catalogue::Catalogue;
use crate::node::{self, ChosenOffering, PROVIDER_ID_PREFIX};
use crate::registration::{PendingRegistrations, Registration, registration_delay};

const NODE_CLASSES: &[NodeClassKind] = &[NodeClassKind {
    group: "karpenter.kwok.sh",
    version: "v1alpha1",
    kind: "KWOKNodeClass",
    plural: "kwoknodeclasses",
}];

const REPAIR_POLICIES: &[RepairPolicy] = &[
    RepairPolicy { condition: "Ready", status: "False", toleration: Duration::from_mins(10) },
    RepairPolicy { condition: "Ready", status: "Unknown", toleration: Duration::from_mins(10) },
];

/// Time for which a node class is not read again.
const NODE_CLASS_CACHE_TTL: Duration = Duration::from_secs(1);
/// When instances without a claim are terminated.
const GARBAGE_COLLECTION: GarbageCollectionSchedule = GarbageCollectionSchedule {
    instance_age_min: Duration::from_secs(30),
    first_runs: 0,
    first_interval: Duration::from_mins(2),
    interval: Duration::from_mins(2),
    // The name of a Node is derived from its claim.
    repeated_launch_finds_instance: true,
};

/// The simulated cloud provider. Instances are Node objects.
pub struct Kwok {
    client: Client,
    clock: Clock,
    types: InstanceTypes,
    label_rules: LabelRules,
    partition: String,
    availability: Arc<dyn InstanceAvailability>,
    unavailable_offerings: Mutex<UnavailableOfferings>,
    pending_registrations: PendingRegistrations,
    /// Cluster state of the controllers; unset outside of them.
    cluster: Mutex<Option<SharedCluster>>,
    /// Node classes that were read recently, with the time of the read.
    node_class_cache: tokio::sync::Mutex<BTreeMap<String, (Arc<KWOKNodeClass>, Timestamp)>>,
}

impl std::fmt::Debug for Kwok {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kwok").field("types", &self.types.len()).finish_non_exhaustive()
    }
}

impl Kwok {
    /// Returns a cloud that offers the catalogue's instance types with unlimited availability.
    pub fn new(client: Client, clock: Clock, catalogue: Catalogue) -> Self {
        Self {
            client,
            clock,
            types: catalogue.types,
            label_rules: catalogue.label_rules,
            partition: "a".to_owned(),
            availability: Arc::new(UnlimitedAvailability),
            unavailable_offerings: Mutex::default(),
            pending_registrations: PendingRegistrations::default(),
            cluster: Mutex::default(),
            node_class_cache: tokio::sync::Mutex::default(),
        }
    }

    /// Replaces the source of availability, to simulate stock-outs and throttling.
    #[must_use]
    pub fn with_availability(self, availability: Arc<dyn InstanceAvailability>) -> Self {
        Self { availability, ..self }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn unavailable_offerings(&self) -> MutexGuard<'_, UnavailableOfferings> {
        self.unavailable_offerings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches the claim's instance. If that fails or the node exists already, returns the
    /// instance that was launched for the claim before, whatever the error is.
    async fn launch(&self, claim: &NodeClaim) -> Result<Instance, CreateError> {
        let failure = match self.create_instance(claim).await {
            Ok(Some(instance)) => return Ok(instance),
            Ok(None) => CreateError::Other("the Node of the claim already existed and was then deleted".into()),
            Err(failure) => failure,
        };
        let existing = self.nodes().get_opt(&node::node_name(claim)).await;
        existing
            .map_err(|error| CreateError::Other(error_text(&error)))?
            .map(|node| node::instance_from_node(&node))
            .ok_or(failure)
    }

    /// Creates an instance for the claim. Returns `None` if its node exists already.
    async fn create_instance(&self, claim: &NodeClaim) -> Result<Option<Instance>, CreateError> {
        let other = |error: kube::Error| CreateError::Other(error_text(&error));
        let requirements = node::requirements(claim, &self.label_rules);
        let type_requirement =
            requirements.get(labels::INSTANCE_TYPE).filter(|r| r.operator() == EffectiveOperator::In);
        if let Some(unknown) =
            type_requirement.into_iter().flat_map(Requirement::values).find(|name| self.types.find(name).is_none())
        {
            return Err(CreateError::Other(format!("instance type not found (instance-type={unknown})").into()));
        }
        let delay = self.registration_delay(claim).await?;
        if !delay.is_zero() {
            if let Some(pending) = self.pending_registrations.get(&node::provider_id(claim)) {
                return Ok(Some(pending));
            }
            if let Some(existing) = self.nodes().get_opt(&node::node_name(claim)).await.map_err(other)? {
                return Ok(Some(node::instance_from_node(&existing)));
            }
        }
        let no_requests = Resources::new();
        let requested =
            claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()).unwrap_or(&no_requests);
        let choice = self.choose_offering(&requirements, requested, node::claim_hash(claim))?;
        let node = node::build_node(claim, &requirements, choice, &self.partition);
        let instance = node::instance_from_node(&node);
        if delay.is_zero() {
            match self.nodes().create(&PostParams::default(), &node).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_already_exists() => return Ok(None),
                Err(error) => return Err(other(error)),
            }
        } else {
            let now = self.clock.now();
            self.pending_registrations.add(instance.provider_id.clone(), node, now, delay);
            return Ok(Some(Instance { launched_at: Some(now), ..instance }));
        }
        Ok(Some(instance))
    }

    /// Fails if the pool's node class has a registration delay that cannot be parsed. No instance
    /// of such a class can be launched: claims would be created and deleted again and again.
    fn check_node_class(&self, pool: &NodePool) -> Result<(), InstanceTypesError> {
        let reference = &pool.spec.template.spec.node_class_ref;
        let cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let class = cluster.and_then(|cluster| cluster.lock().node_class(reference).cloned());
        let Some(class) = class else { return Ok(()) };
        let failed = |cause: &dyn std::fmt::Display| {
            let message = format!("KWOKNodeClass {}, spec.nodeRegistrationDelay: {cause}", reference.name);
            InstanceTypesError::Other(message.into())
        };
        let class: KWOKNodeClass = class.decode().map_err(|cause| failed(&cause))?;
        registration_delay(&class).map(drop).map_err(|cause| failed(&cause))
    }

    /// Checks that the node class is usable, and returns how long its instances take to register.
    async fn registration_delay(&self, claim: &NodeClaim) -> Result<Duration, CreateError> {
        let name = &claim.spec.node_class_ref.name;
        let class = self.cached_node_class(name).await.map_err(|error| CreateError::Other(error_text(&error)))?;
        let Some(class) = class else {
            let message = format!("resolving node class, nodeclasses.karpenter.kwok.sh {name:?} not found");
            return Err(CreateError::InsufficientCapacity(message.into()));
        };
        let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
        if let Some(ready) = conditions.iter().find(|condition| condition.condition_type == READY)
            && ready.status == ConditionStatus::False
        {
            return Err(CreateError::NodeClassNotReady(ready.message.clone().into()));
        }
        registration_delay(&class).map_err(|error| CreateError::NodeClassNotReady(Box::new(error)))
    }

    /// Returns a node class, from the cache if it was read recently: many instances may be launched
    /// at once, and they need not read it one by one.
    async fn cached_node_class(&self, name: &str) -> Result<Option<Arc<KWOKNodeClass>>, kube::Error> {
        let mut classes = self.node_class_cache.lock().await;
        let now = self.clock.now();
        let is_fresh = |read_at: Timestamp| {
            Duration::try_from(now.duration_since(read_at)).is_ok_and(|age| age < NODE_CLASS_CACHE_TTL)
        };
        if let Some((class, _)) = classes.get(name).filter(|(_, read_at)| is_fresh(*read_at)) {
            return Ok(Some(class.clone()));
        }
        let api: Api<KWOKNodeClass> = Api::all(self.client.clone());
        let class = api.get_opt(name).await?.map(Arc::new);
        classes.remove(name);
        if let Some(class) = &class {
            classes.insert(name.to_owned(), (class.clone(), now));
        }
        Ok(class)
    }

    /// Returns the cheapest compatible and available offering. Among offerings of one type at one
    /// price, `claim_hash` selects. Offerings that turn out to be unavailable are recorded, so that
    /// the next decision does not use them.
    fn choose_offering(
        &self,
        requirements: &Requirements,
        requested: &Resources,
        claim_hash: u32,
    ) -> Result<ChosenOffering<'_>, CreateError> {
        let now = self.clock.now();
        let mut choices: Vec<ChosenOffering<'_>> = self
            .types
            .iter()
            // Labels that a type does not define are labels that the claim itself puts on the node.
            .filter(|instance_type| {
                instance_type.requirements.intersects(requirements).is_ok() && fits(requested, instance_type)
            })
            .flat_map(|instance_type| {
                let available = instance_type.offerings().filter(|offering| offering.is_available());
                let compatible = available.filter(|offering| offering.requirements.intersects(requirements).is_ok());
                compatible.map(move |offering| ChosenOffering {
                    instance_type: instance_type.instance_type(),
                    offering: offering.offering(),
                })
            })
            .collect();
        // The sort is stable: among equal prices the first type in catalogue order wins.
        choices.sort_by_key(|choice| choice.offering.price);
        let is_tie = |a: &ChosenOffering<'_>, b: &ChosenOffering<'_>| {
            a.offering.price == b.offering.price && a.instance_type.name == b.instance_type.name
        };
        for ties in choices.chunk_by_mut(is_tie) {
            ties.rotate_left(claim_hash as usize % ties.len());
        }
        let mut messages: Vec<String> = Vec::new();
        for choice in choices {
            let Some(key) = node::offering_key(&choice.instance_type.name, choice.offering) else { continue };
            if self.unavailable_offerings().is_unavailable(&key, now) {
                continue;
            }
            match self.availability.check(&key.0, &key.1, &key.2) {
                Ok(()) => return Ok(choice),
                Err(throttled @ AvailabilityError::Throttled(_)) => {
                    return Err(CreateError::Other(Box::new(throttled)));
                }
                Err(AvailabilityError::InsufficientCapacity(message)) => {
                    self.unavailable_offerings().mark_unavailable(key, now);
                    if !messages.contains(&message) {
                        messages.push(message);
                    }
                }
            }
        }
        let message =
            if messages.is_empty() { "no compatible offering is available".to_owned() } else { messages.join("; ") };
        Err(CreateError::InsufficientCapacity(message.into()))
    }

    async fn terminate(&self, provider_id: &str) -> Result<(), InstanceError> {
        if self.pending_registrations.remove(provider_id) {
            return Err(not_found("instance terminated"));
        }
        let node = self.lookup(provider_id).await?;
        let name = node.metadata.name.clone().unwrap_or_default();
        // Do not delete a newer node of the same name.
        let preconditions = Some(Preconditions { uid: node.metadata.uid.clone(), resource_version: None });
        match self.nodes().delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
            Ok(_) => Err(not_found("instance terminated")),
            Err(kube::Error::Api(status)) if status.is_not_found() => Err(not_found("instance terminated")),
            Err(error) => Err(InstanceError::Other(error_text(&error))),
        }
    }

    /// Returns the node of an instance. A node that is being deleted counts as not found.
    async fn lookup(&self, provider_id: &str) -> Result<Node, InstanceError> {
        let Some(node_name) = provider_id.strip_prefix(PROVIDER_ID_PREFIX).filter(|node_name| !node_name.is_empty())
        else {
            return Err(not_found("not a provider ID of a simulated instance"));
        };
        match self.nodes().get_opt(node_name).await {
            Ok(Some(node)) if node.metadata.deletion_timestamp.is_none() => Ok(node),
            Ok(_) => Err(not_found("no Node has this provider ID")),
            Err(error) => Err(InstanceError::Other(error_text(&error))),
        }
    }
}

/// Returns true if the type has the requested resources. A resource that the type does not define
/// is simulated and always sufficient.
fn fits(requested: &Resources, instance_type: &InstanceType) -> bool {
    let allocatable = instance_type.allocatable();
    requested.iter().all(|(name, amount)| match (allocatable.get(name), amount.text().parse::<Quantity>()) {
        (Some(available), Ok(wanted)) => wanted <= available,
        (None, _) | (_, Err(_)) => true,
    })
}

/// Returns the text of a client error with all its causes.
fn error_text(error: &kube::Error) -> BoxError {
    Causes(error).to_string().into()
}

fn not_found(message: &str) -> InstanceError {
    InstanceError::NotFound(message.into())
}

impl CloudProvider for Kwok {
    fn name(&self) -> &'static str {
        "kwok"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        NODE_CLASSES
    }

    fn label_rules(&self) -> &LabelRules {
        &self.label_rules
    }

    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        self.launch(claim).boxed()
    }

    fn delete<'a>(
        &'a self,
        provider_id: &'a str,
        _claim: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>> {
        self.terminate(provider_id).boxed()
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        async move {
            if let Some(pending) = self.pending_registrations.get(provider_id) {
                return Ok(pending);
            }
            self.lookup(provider_id).await.map(|node| node::instance_from_node(&node))
        }
        .boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        async move {
            let nodes =
                self.nodes().list(&ListParams::default()).await.map_err(|error| ListError(error_text(&error)))?;
            let classes: Vec<String> = NODE_CLASSES.iter().map(NodeClassKind::label_key).collect();
            let registered = nodes.items.iter().filter(|node| node::is_managed_node(node, &classes));
            let mut instances: Vec<Instance> = registered.map(node::instance_from_node).collect();
            let pending = self.pending_registrations.all();
            // A Node may have been created since the list of Nodes was made.
            instances.extend(pending.into_iter().filter(|pending| {
                !nodes.items.iter().any(|node| node::instance_from_node(node).provider_id == pending.provider_id)
            }));
            Ok(instances)
        }
        .boxed()
    }

    fn instance_types<'a>(&'a self, pool: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        async move {
            self.check_node_class(pool)?;
            Ok(self.unavailable_offerings().mark_instance_types(&self.types, self.clock.now()))
        }
        .boxed()
    }

    fn drift<'a>(&'a self, _claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        REPAIR_POLICIES
    }

    fn add_controllers(&self, setup: &mut ProviderSetup<'_>) {
        *self.cluster.lock().unwrap_or_else(PoisonError::into_inner) = Some(setup.cluster.clone());
        InstanceGarbageCollection::add_to(setup, GARBAGE_COLLECTION);
        Registration::add_to(
            setup,
            self.pending_registrations.clone(),
            self.types.clone(),
            self.label_rules.clone(),
            self.partition.clone(),
        );
    }
}

#[cfg(test)]
mod tests;
