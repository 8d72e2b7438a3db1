//! The AWS provider as Kerf's controllers see it (spec 06 §8).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{
    BoxError, CloudProvider, CreateError, DriftError, GarbageCollectionSchedule, Instance, InstanceError,
    InstanceGarbageCollection, InstanceTypesError, ListError, NodeClassKind, NodeClassStatusReport, ProviderSetup,
    RegistrationHook, RepairPolicy, StartError,
};
use kerf_engine::catalogue::{InstanceType, InstanceTypes};

use crate::cluster_facts::ClusterFactsError;
use crate::context::AwsContext;
use crate::drift::{check_drift, class_of_pool};
use crate::instance_types::InstanceTypeError;
use crate::instances::{InstanceCallError, InstanceRecord, ReadFrom, TypeData, parse_provider_id, to_instance};
use crate::interruption::{InstanceStatusChecks, InterruptionQueue};
use crate::launch::Launcher;
use crate::memory_discovery::MemoryDiscovery;
use crate::node_classes::NodeClassReadError;
use crate::nodeclaim_tagging::NodeClaimTagging;
use crate::nodeclass;
use crate::partition_hook::PlacementGroupRegistrationHook;
use crate::parts::AwsParts;
use crate::ports::PageRequest;
use crate::ports::ec2::{DescribeInstanceTypes, PlacementGroup};
use crate::refresh::{InstanceTypeRefresh, LaunchTemplateCleanup, PricingRefresh};
use crate::reserved_claims;
use crate::unregistered_instances::{UnregisteredInstances, report_ended_instance};
use crate::zonal_shift::ZonalShiftRefresh;

/// The supported node class, `EC2NodeClass` of `karpenter.k8s.aws/v1`.
const NODE_CLASSES: &[NodeClassKind] =
    &[NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }];

const REPAIR_POLICIES: &[RepairPolicy] = &[
    RepairPolicy { condition: "Ready", status: "False", toleration: Duration::from_mins(30) },
    RepairPolicy { condition: "Ready", status: "Unknown", toleration: Duration::from_mins(30) },
    RepairPolicy { condition: "AcceleratedHardwareReady", status: "False", toleration: Duration::from_mins(10) },
    RepairPolicy { condition: "StorageReady", status: "False", toleration: Duration::from_mins(30) },
    RepairPolicy { condition: "NetworkingReady", status: "False", toleration: Duration::from_mins(30) },
    RepairPolicy { condition: "KernelReady", status: "False", toleration: Duration::from_mins(30) },
    RepairPolicy { condition: "ContainerRuntimeReady", status: "False", toleration: Duration::from_mins(30) },
];

/// When instances without a claim are terminated (spec 06 §14).
const GARBAGE_COLLECTION: GarbageCollectionSchedule = GarbageCollectionSchedule {
    instance_age_min: Duration::from_secs(30),
    first_runs: 20,
    first_interval: Duration::from_secs(10),
    interval: Duration::from_mins(2),
    repeated_launch_finds_instance: false,
};

/// The AWS provider: launches, reads and terminates EC2 instances for NodeClaims.
///
/// [`CloudProvider::start`] must succeed before any other call.
pub struct AwsProvider {
    context: Arc<AwsContext>,
    launcher: Launcher,
    hooks: [Arc<dyn RegistrationHook>; 1],
}

impl std::fmt::Debug for AwsProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsProvider").field("settings", &self.context.settings).finish_non_exhaustive()
    }
}

impl AwsProvider {
    /// Creates the provider. Nothing is called before [`CloudProvider::start`].
    pub fn new(parts: AwsParts) -> Self {
        let context = Arc::new(AwsContext::new(parts));
        let hooks: [Arc<dyn RegistrationHook>; 1] = [Arc::new(PlacementGroupRegistrationHook::new(context.clone()))];
        Self { launcher: Launcher::new(context.clone()), context, hooks }
    }

    /// Returns what the parts of the provider share.
    pub(crate) fn context(&self) -> &Arc<AwsContext> {
        &self.context
    }

    async fn terminate(&self, provider_id: &str, claim: Option<&NodeClaim>) -> Result<(), InstanceError> {
        let id = parse_provider_id(provider_id).map_err(|error| InstanceError::Other(Box::new(error)))?;
        let result = self.context.instances.terminate(id).await;
        if matches!(result, Ok(_) | Err(InstanceCallError::NotFound(_))) {
            self.launcher.forget(provider_id);
        }
        if let Some(claim) = claim {
            report_ended_instance(&self.context, claim, id, &result).await;
        }
        if matches!(result, Err(InstanceCallError::NotFound(_))) {
            let labels = claim.and_then(|claim| claim.metadata.labels.as_ref());
            if let Some(id) = labels.and_then(|labels| labels.get(aws::CAPACITY_RESERVATION_ID)) {
                self.context.reservation_slots.record_termination(id);
            }
        }
        result.map(drop).map_err(instance_error)
    }

    async fn read(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        let id = parse_provider_id(provider_id).map_err(|error| InstanceError::Other(Box::new(error)))?;
        let record = self.context.instances.get(id, ReadFrom::Cache).await.map_err(instance_error)?;
        let data = self.type_data(&record).await.map_err(InstanceError::Other)?;
        let instance_type = data.instance_type.map_err(|error| InstanceError::Other(Box::new(error)))?;
        let class = data.class.as_deref();
        let group = data.group.as_deref();
        let data = TypeData { instance_type: instance_type.as_ref(), class, group, requested_partition: None };
        Ok(to_instance(&record, data))
    }

    async fn list_instances(&self) -> Result<Vec<Instance>, ListError> {
        let records = self.context.instances.list().await.map_err(|error| ListError(Box::new(error)))?;
        let mut instances = Vec::with_capacity(records.len());
        for record in records {
            let data = self.type_data(&record).await.map_err(ListError)?;
            // One type that cannot be resolved does not hide the other instances (spec 05 §22, 12).
            let instance_type = data.instance_type.ok().flatten();
            let class = data.class.as_deref();
            let group = data.group.as_deref();
            let data = TypeData { instance_type: instance_type.as_ref(), class, group, requested_partition: None };
            instances.push(to_instance(&record, data));
        }
        Ok(instances)
    }

    /// Finds pool, class and type of an instance by its tags. What is missing is no error.
    async fn type_data(&self, record: &InstanceRecord) -> Result<ResolvedTypeData, BoxError> {
        let context = &self.context;
        let optional = |class: Result<Arc<EC2NodeClass>, NodeClassReadError>| match class {
            Ok(class) => Ok(Some(class)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(Box::new(error) as BoxError),
        };
        let class = match record.tag(aws::EC2NODECLASS) {
            Some(name) => optional(context.node_classes.get(name).await)?,
            None => None,
        };
        let pool = match record.tag(labels::NODEPOOL) {
            Some(name) => context.node_classes.pool(name).await.map_err(|error| Box::new(error) as BoxError)?,
            None => None,
        };
        let class_of_pool = match pool {
            Some(pool) => class_of_pool(context, &pool).await.map_err(|error| Box::new(error) as BoxError)?,
            None => None,
        };
        let instance_type = match class_of_pool {
            Some(class) => context.instance_type_of(&class, &record.instance_type).await.map(Some),
            None => Ok(None),
        };
        let group = match &class {
            Some(class) => context.placement_group(class).await,
            None => None,
        };
        Ok(ResolvedTypeData { instance_type, class, group })
    }

    /// Checks at start-up that the cluster is enabled for zonal shift, if the setting asks for it
    /// (spec 06 §15).
    async fn connect_zonal_shift(&self) -> Result<(), StartError> {
        let context = &self.context;
        if !context.settings.enable_zonal_shift {
            return Ok(());
        }
        let message = format!(
            "failed to find cluster {} in ARC zonal shift, check that the cluster is enabled for zonal shift and that \
             the controller's role allows arc-zonal-shift:GetManagedResource",
            context.settings.cluster_name
        );
        let failed = |cause: BoxError| StartError { message: message.clone(), cause };
        let arn = context.discovery.cluster_arn().await.map_err(|error| failed(Box::new(error)))?;
        context.zonal_shifts.connect(&arn).await.map_err(|error| {
            tracing::error!(arn, error = %error, "Cluster not found in Zonal Shift");
            failed(Box::new(error))
        })
    }

    /// Spec 06 §20.1. The message of an error is what Karpenter logs.
    async fn load(&self) -> Result<(), StartError> {
        let context = &self.context;
        let failed = |message: &str, cause: BoxError| StartError { message: message.to_owned(), cause };
        let probe = DescribeInstanceTypes { filters: Vec::new(), is_dry_run: true, page: PageRequest::default() };
        match context.ports.ec2.describe_instance_types(probe).await {
            Ok(_) => {}
            Err(error) if error.is_dry_run_passed() => {}
            Err(error) => return Err(failed("ec2 api connectivity check failed", Box::new(error))),
        }
        context.discovery.load().await.map_err(|error| {
            let message = match &error {
                ClusterFactsError::NoVersion(_)
                | ClusterFactsError::ServerVersion(_)
                | ClusterFactsError::UnsupportedVersion(_) => "failed detecting kubernetes version",
                ClusterFactsError::DescribeCluster { .. }
                | ClusterFactsError::NoEndpoint(_)
                | ClusterFactsError::NoArn(_)
                | ClusterFactsError::NoServiceCidr => "failed detecting cluster endpoint",
            };
            failed(message, Box::new(error))
        })?;
        self.connect_zonal_shift().await?;
        let catalogue = context.instance_types.refresh(context.ports.ec2.as_ref()).await;
        catalogue.map_err(|error| failed("failed updating instance types", Box::new(error)))
    }
}

/// Facts about an instance that are found by its tags.
struct ResolvedTypeData {
    instance_type: Result<Option<InstanceType>, InstanceTypeError>,
    class: Option<Arc<EC2NodeClass>>,
    group: Option<Arc<PlacementGroup>>,
}

fn instance_error(error: InstanceCallError) -> InstanceError {
    match error {
        InstanceCallError::NotFound(_) => InstanceError::NotFound(Box::new(error)),
        InstanceCallError::Describe(_)
        | InstanceCallError::Terminate { .. }
        | InstanceCallError::ZoneShifted { .. }
        | InstanceCallError::Tag { .. } => InstanceError::Other(Box::new(error)),
    }
}

impl CloudProvider for AwsProvider {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        NODE_CLASSES
    }

    fn node_class_status(&self) -> Option<NodeClassStatusReport> {
        Some(nodeclass::status_report(NODE_CLASSES[0], &self.context.settings))
    }

    fn label_rules(&self) -> &LabelRules {
        &self.context.label_rules
    }

    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        self.launcher.launch(claim).boxed()
    }

    fn delete<'a>(
        &'a self,
        provider_id: &'a str,
        claim: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>> {
        self.terminate(provider_id, claim).boxed()
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        self.read(provider_id).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        self.list_instances().boxed()
    }

    fn instance_types<'a>(&'a self, pool: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        async move {
            let other = |error: BoxError| InstanceTypesError::Other(error);
            match class_of_pool(&self.context, pool).await.map_err(|error| other(Box::new(error)))? {
                Some(class) => self.context.instance_types_of(&class).await.map_err(|error| match error {
                    InstanceTypeError::NoSubnets if !nodeclass::has_read_subnets(&class) => {
                        InstanceTypesError::ClassUnresolved(Box::new(error))
                    }
                    error => other(Box::new(error)),
                }),
                None => Ok(InstanceTypes::default()),
            }
        }
        .boxed()
    }

    fn drift<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        async move {
            let reason = check_drift(&self.context, claim).await.map_err(|error| DriftError(Box::new(error)))?;
            Ok(reason.map(str::to_owned))
        }
        .boxed()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        REPAIR_POLICIES
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &self.hooks
    }

    fn add_controllers(&self, setup: &mut ProviderSetup<'_>) {
        InstanceGarbageCollection::add_to(setup, GARBAGE_COLLECTION);
        nodeclass::add_controllers(&self.context, setup);
        UnregisteredInstances::add_to(setup, self.context.clone());
        NodeClaimTagging::add_to(setup, self.context.clone());
        reserved_claims::add_controllers(&self.context, setup);
        InterruptionQueue::add_to(setup, self.context.clone());
        InstanceStatusChecks::add_to(setup, self.context.clone());
        MemoryDiscovery::add_to(setup, self.context.clone());
        PricingRefresh::add_to(setup, self.context.clone());
        InstanceTypeRefresh::add_to(setup, self.context.clone());
        ZonalShiftRefresh::add_to(setup, self.context.clone());
        LaunchTemplateCleanup::add_to(setup, self.context.clone());
    }

    fn start(&self) -> BoxFuture<'_, Result<(), StartError>> {
        self.load().boxed()
    }

    fn on_leader(&self) -> BoxFuture<'_, ()> {
        self.context.launch_templates.hydrate().boxed()
    }
}

#[cfg(test)]
mod tests;
