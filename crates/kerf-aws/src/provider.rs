//! The AWS provider as Kerf's controllers see it (spec 06 §8).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{
    CloudProvider, CreateError, DriftError, GarbageCollectionSchedule, Instance, InstanceError,
    InstanceGarbageCollection, InstanceTypesError, ListError, NodeClassKind, ProviderSetup, RepairPolicy, StartError,
};
use kerf_engine::catalogue::InstanceTypes;
use kerf_operator::{Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::context::AwsContext;
use crate::ports::AwsPorts;
use crate::settings::AwsSettings;

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

/// Everything that the provider is made from.
pub struct AwsParts {
    /// The AWS calls.
    pub ports: AwsPorts,
    /// Settings, validated by the caller.
    pub settings: AwsSettings,
    /// Client of the API server.
    pub client: Client,
    /// Index of the cluster's objects.
    pub cluster: SharedCluster,
    /// The only source of time.
    pub clock: Clock,
    /// Publisher of Kubernetes Events.
    pub events: Arc<dyn Publish>,
    /// Registry of the process's metrics.
    pub registry: Arc<Registry>,
}

impl std::fmt::Debug for AwsParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsParts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The AWS provider: launches, reads and terminates EC2 instances for NodeClaims.
///
/// [`CloudProvider::start`] must succeed before any other call.
pub struct AwsProvider {
    context: Arc<AwsContext>,
    label_rules: LabelRules,
}

impl std::fmt::Debug for AwsProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsProvider").field("settings", &self.context.settings).finish_non_exhaustive()
    }
}

impl AwsProvider {
    /// Creates the provider. Nothing is called before [`CloudProvider::start`].
    pub fn new(parts: AwsParts) -> Self {
        Self { context: Arc::new(AwsContext::new(parts)), label_rules: LabelRules::aws() }
    }
}

impl CloudProvider for AwsProvider {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        NODE_CLASSES
    }

    fn label_rules(&self) -> &LabelRules {
        &self.label_rules
    }

    fn create<'a>(&'a self, _claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        futures::future::ready(Err(CreateError::Other("not built yet".into()))).boxed()
    }

    fn delete<'a>(
        &'a self,
        _provider_id: &'a str,
        _claim: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>> {
        futures::future::ready(Err(InstanceError::Other("not built yet".into()))).boxed()
    }

    fn get<'a>(&'a self, _provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        futures::future::ready(Err(InstanceError::Other("not built yet".into()))).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        futures::future::ready(Err(ListError("not built yet".into()))).boxed()
    }

    fn instance_types<'a>(&'a self, _pool: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        futures::future::ready(Ok(InstanceTypes::default())).boxed()
    }

    fn drift<'a>(&'a self, _claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        REPAIR_POLICIES
    }

    fn add_controllers(&self, setup: &mut ProviderSetup<'_>) {
        InstanceGarbageCollection::add_to(setup, GARBAGE_COLLECTION);
    }

    fn start(&self) -> BoxFuture<'_, Result<(), StartError>> {
        futures::future::ready(Ok(())).boxed()
    }
}
