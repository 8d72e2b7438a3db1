//! What a provider gets to add controllers of its own.

use std::sync::Arc;

use kerf_operator::{ControllerSet, Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::provider::CloudProvider;

/// The process's parts that controllers of a provider use.
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
