//! The parts of a process that the AWS provider is made from.

use std::sync::Arc;

use kerf_operator::{Publish, Registry, SharedCluster};
use kerf_runtime::Clock;
use kube::Client;

use crate::ports::AwsPorts;
use crate::settings::AwsSettings;

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
