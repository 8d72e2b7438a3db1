//! The instances of a provider that keeps them as Node objects, such as the simulated provider.

use std::time::Duration;

use jiff::Timestamp;

use crate::simulated_cloud::{CloudInstance, InstanceList, InstanceState};

/// Prefix of the provider IDs of simulated instances.
const PROVIDER_ID_PREFIX: &str = "kwok://";

/// The instances of the simulated provider, as of the last change of a Node that was read.
#[derive(Debug, Default)]
pub(super) struct NodeInstances(Vec<CloudInstance>);

impl NodeInstances {
    /// Adds the instance of a Node. Nodes of other providers are ignored.
    pub(super) fn add_node(&mut self, provider_id: &str, capacity_type: &str, created: Timestamp) {
        if !provider_id.starts_with(PROVIDER_ID_PREFIX) {
            return;
        }
        self.0.push(CloudInstance {
            provider_id: provider_id.to_owned(),
            claim: None,
            instance_type: String::new(),
            zone: String::new(),
            capacity_type: capacity_type.to_owned(),
            launched_at: created,
            // A Node that is being deleted still has its instance: finalizers keep both.
            state: InstanceState::Running,
            internal_ip: None,
            // The label of the Node has the price.
            micro_dollars_per_hour: 0,
        });
    }
}

impl InstanceList for NodeInstances {
    fn instances(&self) -> Vec<CloudInstance> {
        self.0.clone()
    }

    fn max_orphan_age(&self) -> Option<Duration> {
        None
    }
}
