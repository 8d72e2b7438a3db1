//! The trait between Kerf and a cloud (spec 04 §2.1).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_engine::catalogue::InstanceTypes;
use kerf_operator::{ControllerSet, Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::error::{CreateError, DriftError, InstanceError, InstanceTypesError, ListError, StartError};
use crate::hook::RegistrationHook;
use crate::instance::{Instance, NodeClassKind, NodeClassStatusReport, RepairPolicy};

/// A cloud. Implementations can be shared between tasks. Every call may be repeated, because the
/// caller may have been terminated before it recorded the result.
pub trait CloudProvider: Send + Sync {
    /// Returns the provider's name, which is also a metric label.
    fn name(&self) -> &str;

    /// Returns the supported kinds of node class, the default one first.
    fn node_classes(&self) -> &[NodeClassKind];

    /// Returns how the conditions of node classes are reported as metrics and Events, or `None` if
    /// they are not.
    fn node_class_status(&self) -> Option<NodeClassStatusReport> {
        None
    }

    /// Returns the rules about the provider's own labels.
    fn label_rules(&self) -> &LabelRules;

    /// Launches one instance that meets the claim's requirements and resource requests. If it is
    /// called again for the same claim (by UID) in one process, it returns the instance that it
    /// launched before. After a crash a repeated launch may start a second instance; the provider
    /// then terminates the one that no claim names.
    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>>;

    /// Starts the termination of an instance. `Ok` means that the termination has begun: the caller
    /// repeats the call until it returns [`InstanceError::NotFound`]. That may take several calls
    /// and minutes. `claim` is the claim that the instance belongs to, if there is one; its labels
    /// name the reservation that the instance used.
    fn delete<'a>(
        &'a self,
        provider_id: &'a str,
        claim: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>>;

    /// Reads one instance.
    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>>;

    /// Returns all instances of this cluster, including those that are being terminated.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>>;

    /// Returns all instance types that a pool can use, including those that are unavailable now. As
    /// long as nothing has changed, it returns the same list ([`InstanceTypes::is_same`]).
    fn instance_types<'a>(&'a self, pool: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>>;

    /// Returns the reason why an instance no longer matches its node class, or `None` if it
    /// matches.
    fn drift<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>>;

    /// Returns the conditions under which nodes count as unhealthy.
    fn repair_policies(&self) -> &[RepairPolicy];

    /// Returns further checks that must pass before a node counts as registered.
    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &[]
    }

    /// Adds the provider's own controllers, and the handlers that enqueue their keys. Called once
    /// per process, before the watches start. `setup.cloud` is this provider with all decorators.
    fn add_controllers(&self, setup: &mut ProviderSetup<'_>) {
        let _ = setup;
    }

    /// Prepares the provider: checks that the cloud can be reached and loads what every call needs.
    /// Called once per process, on standbys too, before the watches start. After an error the
    /// process ends. Must return within a few minutes.
    fn start(&self) -> BoxFuture<'_, Result<(), StartError>> {
        future::ready(Ok(())).boxed()
    }

    /// Runs when the process has become leader and cluster state is synced, before the controllers
    /// start. Failures are the provider's to log; the process goes on after a time limit.
    fn on_leader(&self) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }

    /// Returns true if a claim or pool with this node class reference belongs to this provider.
    fn supports(&self, class: &kerf_api::nodepool::NodeClassReference) -> bool {
        self.node_classes().iter().any(|kind| kind.matches(class))
    }
}

/// Parts of the process that a provider uses to add controllers of its own.
pub struct ProviderSetup<'a> {
    /// The set to which controllers and change handlers are added.
    pub set: &'a mut ControllerSet,
    /// The provider with all decorators, as Kerf's own controllers call it.
    pub cloud: Arc<dyn CloudProvider>,
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

impl std::fmt::Debug for ProviderSetup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderSetup").field("cloud", &self.cloud.name()).finish_non_exhaustive()
    }
}
