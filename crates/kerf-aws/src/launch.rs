//! Launches one instance for a NodeClaim (spec 05 §15).
//!
//! Steps: check the node class, filter the instance types, choose capacity type and tenancy, choose
//! subnets, ensure launch templates, request a fleet, read its answer. Everything before the
//! templates works in memory.
//!
//! This module never decides what a claim needs: the claim's requirements do.

mod answer;
mod attempt;
mod capacity;
mod error;
mod filters;
mod fleet_request;
mod metrics;
mod preconditions;
mod reserved_filters;
mod tags;
mod template_groups;

use std::sync::Arc;
use std::time::Duration;

use kerf_api::annotations::aws as aws_annotations;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::EC2NODECLASS_HASH_VERSION;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::quantity::{Quantity, QuantityError};
use kerf_api::slim::{ResourceList, Str};
use kerf_cloud::{CreateError, Instance};
use kerf_engine::requirement::{Requirement, RequirementError, Requirements};
use kerf_operator::events::claim_reference;
use kerf_operator::{Event, EventType};

use crate::context::AwsContext;
use crate::instances::{TypeData, to_instance};
use crate::ttl_cache::TtlCache;

pub(crate) use metrics::LaunchMetrics;
pub(crate) use tags::launch_tags;

/// Message of the Event about a node class that does not exist.
pub(crate) const NODE_CLASS_NOT_RESOLVED: &str = "Failed resolving NodeClass";
/// Time for which a repeated launch of a claim returns its first instance.
const LAUNCHED_TTL: Duration = Duration::from_mins(10);
/// Largest number of launches that are remembered.
const LAUNCHED_MAX: usize = 20_000;

/// Launches instances for claims.
pub(crate) struct Launcher {
    context: Arc<AwsContext>,
    /// Instances by UID of the claim, so that a launch can be repeated.
    launched: TtlCache<String, Arc<Instance>>,
}

/// A claim that is launched, with its requirements in the engine's form.
pub(crate) struct LaunchClaim<'a> {
    pub(crate) claim: &'a NodeClaim,
    pub(crate) requirements: Requirements,
    pub(crate) requests: ResourceList,
}

/// A field of a claim that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimFieldError {
    #[error("spec.requirements: {0}")]
    Requirement(#[source] RequirementError),
    #[error("spec.resources.requests[{name}]: {cause}")]
    Request {
        name: String,
        #[source]
        cause: QuantityError,
    },
}

impl<'a> LaunchClaim<'a> {
    pub(crate) fn new(claim: &'a NodeClaim, rules: &LabelRules) -> Result<Self, ClaimFieldError> {
        let mut requirements = Requirements::default();
        for entry in &claim.spec.requirements {
            let values: Vec<Str> = entry.values.iter().flatten().map(Str::from).collect();
            let min_values = entry.min_values.and_then(|count| u32::try_from(count).ok());
            let requirement = Requirement::new(rules, &entry.key, &entry.operator, &values, min_values);
            requirements.add(requirement.map_err(ClaimFieldError::Requirement)?);
        }
        let requested = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let requests = requested.into_iter().flatten().map(|(name, amount)| {
            let parsed = amount.text().parse::<Quantity>();
            let amount = parsed.map_err(|cause| ClaimFieldError::Request { name: name.clone(), cause })?;
            Ok((Str::from(name), amount))
        });
        Ok(Self { claim, requirements, requests: requests.collect::<Result<_, _>>()? })
    }

    /// Returns true if the claim requests a positive amount of a resource.
    pub(crate) fn requests_resource(&self, name: &str) -> bool {
        self.requests.get(name).is_some_and(|amount| amount > Quantity::ZERO)
    }

    fn has_annotation(&self, key: &str, is_value: impl FnOnce(&str) -> bool) -> bool {
        let annotations = self.claim.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).is_some_and(|value| is_value(value))
    }
}

impl Launcher {
    pub(crate) fn new(context: Arc<AwsContext>) -> Self {
        let launched = TtlCache::new(context.clock, LAUNCHED_TTL, LAUNCHED_MAX);
        Self { context, launched }
    }

    /// Launches the instance of a claim, or returns the one that was launched for it before.
    pub(crate) async fn launch(&self, claim: &NodeClaim) -> Result<Instance, CreateError> {
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        if let Some(instance) = self.launched.get(&uid) {
            return Ok(Instance::clone(&instance));
        }
        let instance = self.launch_new(claim).await?;
        if !uid.is_empty() {
            self.launched.insert(uid, Arc::new(instance.clone()));
        }
        Ok(instance)
    }

    /// Forgets an instance whose termination has begun: a repeated launch starts another one.
    pub(crate) fn forget(&self, provider_id: &str) {
        self.launched.remove_where(|_, instance| instance.provider_id == provider_id);
    }

    async fn launch_new(&self, claim: &NodeClaim) -> Result<Instance, CreateError> {
        let context = &*self.context;
        let class = match context.node_classes.get(&claim.spec.node_class_ref.name).await {
            Ok(class) => class,
            Err(error) if error.is_not_found() => {
                self.publish_unresolved(claim);
                return Err(CreateError::InsufficientCapacity(format!("resolving node class, {error}").into()));
            }
            Err(error) => return Err(CreateError::Other(Box::new(error))),
        };
        preconditions::check_ready(&class)?;
        let tags = launch_tags(&class, claim, &context.settings.cluster_name)
            .map_err(|error| CreateError::NodeClassNotReady(Box::new(error)))?;
        let types = context.instance_types.list(&class).map_err(|error| CreateError::Rejected {
            reason: "InstanceTypeResolutionFailed".to_owned(),
            message: "Error resolving instance types".to_owned(),
            cause: Box::new(error),
        })?;
        let launch_claim = LaunchClaim::new(claim, &context.label_rules)
            .map_err(|error| CreateError::Other(format!("creating instance, {error}").into()))?;
        let (record, instance_type) = attempt::launch_instance(context, &launch_claim, &class, &types, &tags).await?;
        let instance = to_instance(&record, TypeData { instance_type: Some(&instance_type), class: Some(&class) });
        Ok(Instance { claim: claim.metadata.name.clone(), annotations: self.annotations(&class)?, ..instance })
    }

    /// Returns the annotations that a claim gets at launch.
    fn annotations(&self, class: &EC2NodeClass) -> Result<std::collections::BTreeMap<String, String>, CreateError> {
        let hash = self.context.class_hash(class).map_err(|error| CreateError::Other(Box::new(error)))?;
        let profile = class.status.as_ref().and_then(|status| status.instance_profile.clone()).unwrap_or_default();
        Ok([
            (aws_annotations::EC2NODECLASS_HASH.to_owned(), hash),
            (aws_annotations::EC2NODECLASS_HASH_VERSION.to_owned(), EC2NODECLASS_HASH_VERSION.to_owned()),
            (aws_annotations::INSTANCE_PROFILE_NAME.to_owned(), profile),
        ]
        .into())
    }

    fn publish_unresolved(&self, claim: &NodeClaim) {
        let message = NODE_CLASS_NOT_RESOLVED.to_owned();
        // Karpenter's Event has no reason either (spec 06 §1.5).
        self.context.events.publish(Event::new(claim_reference(claim), EventType::Warning, "", message));
    }
}

#[cfg(test)]
mod tests;
