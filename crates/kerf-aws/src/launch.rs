//! Launches one instance for a NodeClaim (spec 05 §15).
//!
//! Steps: check the node class, filter the instance types, choose capacity type and tenancy, choose
//! subnets, ensure launch templates, request a fleet, read its answer. Everything before the
//! templates works in memory.
//!
//! This module never decides what a claim needs: the claim's requirements do.

mod answer;
mod attempt;
mod candidate;
mod capacity;
mod claim;
mod error;
mod filter_cache;
mod filters;
mod fleet_request;
mod placement;
mod preconditions;
mod reserved_filters;
mod tags;
mod template_groups;

use std::sync::Arc;
use std::time::Duration;

use kerf_api::annotations::aws as aws_annotations;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::hash::EC2NODECLASS_HASH_VERSION;
use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::{CreateError, Instance};
use kerf_engine::catalogue::InstanceTypes;
use kerf_operator::events::claim_reference;
use kerf_operator::{Event, EventType};

use self::claim::LaunchClaim;
use self::filter_cache::FilterCache;
use self::filters::{MinValuesCheck, filter_types};
use crate::cache_metrics::CacheMetrics;
use crate::context::AwsContext;
use crate::instances::{TypeData, to_instance};
use crate::settings::node_class_conditions;
use crate::ttl_cache::TtlCache;

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
    filter_cache: FilterCache,
}

impl Launcher {
    pub(crate) fn new(context: Arc<AwsContext>) -> Self {
        let launched = TtlCache::new(context.clock, LAUNCHED_TTL, LAUNCHED_MAX);
        let (caches, filter_cache) = (CacheMetrics::new(&context.registry), FilterCache::default());
        launched.measure(caches.of("launches"));
        filter_cache.measure(&caches);
        Self { context, launched, filter_cache }
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
        preconditions::check_ready(&class, node_class_conditions(context.settings.reserved_capacity))?;
        preconditions::resolve_cluster_facts(context, &class).await?;
        let tags = launch_tags(&class, claim, &context.settings.cluster_name)
            .map_err(|error| CreateError::NodeClassNotReady(Box::new(error)))?;
        let types = context.instance_types_of(&class).await.map_err(|error| CreateError::Rejected {
            reason: "InstanceTypeResolutionFailed".to_owned(),
            message: "Error resolving instance types".to_owned(),
            cause: Box::new(error),
        })?;
        let launch_claim = LaunchClaim::new(claim, &context.label_rules)
            .map_err(|error| CreateError::Other(format!("creating instance, {error}").into()))?;
        let types = self.filter_types(&types, &launch_claim)?;
        let (record, instance_type) = attempt::launch_instance(context, &launch_claim, &class, types, &tags).await?;
        let group = context.known_groups.get(&class);
        let data = TypeData {
            instance_type: Some(&instance_type),
            class: Some(&class),
            group: group.as_deref(),
            requested_partition: record.partition,
        };
        let instance = to_instance(&record, data);
        Ok(Instance { claim: claim.metadata.name.clone(), annotations: self.annotations(&class)?, ..instance })
    }

    fn filter_types(&self, types: &InstanceTypes, claim: &LaunchClaim<'_>) -> Result<InstanceTypes, CreateError> {
        let policy = if self.context.settings.min_values_best_effort {
            MinValuesCheck::Skipped
        } else {
            MinValuesCheck::Required
        };
        let filter = || filter_types(types, claim, &self.context.label_rules, policy);
        let filtered = self.filter_cache.get_or_insert(types, claim, filter);
        filtered.map_err(|error| CreateError::InsufficientCapacity(Box::new(error)))
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
