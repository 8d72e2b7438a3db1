//! The EC2 in memory as the cloud of a sandbox: its instances boot, register the Nodes that their
//! user data describes, and are compared with the NodeClaims.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_aws::memory::{LaunchedInstance, MemoryAws};
use kerf_aws::ports::ec2::InstanceStateName;
use kerf_runtime::Clock;
use kerf_sandbox::{
    ApiServer, CloudChanges, CloudInstance, InstanceList, InstanceState, NodeRegistration, SimulatedCloud,
};
use tokio::runtime::Handle;
use tracing::warn;

use super::registration::{self, InstancePlace};

/// Tag with the name of the claim for which an instance was launched.
const CLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// Beginning of all provider IDs of EC2.
const PROVIDER_ID_PREFIX: &str = "aws:///";
/// State reason of an instance that EC2 reclaims.
const SPOT_INTERRUPTION: &str = "Server.SpotInstanceTermination";
/// Age at which an instance must have a claim: the time after which the provider terminates it (06
/// §14).
const MAX_ORPHAN_AGE: Duration = Duration::from_secs(155);

/// An EC2 in memory, attached to the API server of a sandbox.
#[derive(Debug)]
pub(crate) struct SimulatedEc2 {
    aws: MemoryAws,
    changes: CloudChanges,
    /// Name of the EKS cluster whose API server the sandbox is.
    cluster_name: String,
}

impl SimulatedEc2 {
    /// Attaches an EC2 to a server. Must be called on a tokio runtime.
    pub(crate) fn attach(server: &ApiServer, aws: MemoryAws, cluster_name: impl Into<String>) -> Arc<Self> {
        let cloud = Arc::new(Self::new(aws, server.cloud_changes().clone(), cluster_name.into()));
        server.attach_cloud(cloud.clone());
        cloud
    }

    pub(super) fn new(aws: MemoryAws, changes: CloudChanges, cluster_name: String) -> Self {
        forward_changes(&aws, changes.clone());
        Self { aws, changes, cluster_name }
    }

    /// Returns the EC2.
    pub(crate) fn aws(&self) -> &MemoryAws {
        &self.aws
    }

    fn find(&self, provider_id: &str) -> Option<LaunchedInstance> {
        let id = instance_id(provider_id)?;
        self.aws.instances().into_iter().find(|launched| launched.instance.id == id)
    }
}

/// Reports changes of instances by AWS calls until the EC2 is dropped.
fn forward_changes(aws: &MemoryAws, changes: CloudChanges) {
    let mut receiver = aws.instance_changes();
    let forward = async move {
        while receiver.changed().await.is_ok() {
            changes.notify();
        }
    };
    // Without a runtime nothing runs that could read the changes.
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(forward);
    }
}

/// Returns the provider ID of an instance.
fn provider_id(launched: &LaunchedInstance) -> String {
    format!("{PROVIDER_ID_PREFIX}{}/{}", launched.instance.zone, launched.instance.id)
}

fn instance_id(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix(PROVIDER_ID_PREFIX)?.split_once('/').map(|(_, id)| id)
}

fn listed(launched: &LaunchedInstance, now: Timestamp) -> CloudInstance {
    let instance = &launched.instance;
    let capacity_type = match (&instance.capacity_reservation_id, instance.lifecycle.as_deref()) {
        (Some(_), _) => "reserved",
        (None, Some("spot")) => "spot",
        (None, Some(_) | None) => "on-demand",
    };
    CloudInstance {
        provider_id: provider_id(launched),
        claim: instance.tags.get(CLAIM_TAG).cloned(),
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: capacity_type.to_owned(),
        launched_at: instance.launched_at.unwrap_or(now),
        state: match instance.state {
            InstanceStateName::Pending => InstanceState::Pending,
            InstanceStateName::Running => InstanceState::Running,
            InstanceStateName::Stopping | InstanceStateName::Stopped | InstanceStateName::ShuttingDown => {
                InstanceState::ShuttingDown
            }
            InstanceStateName::Terminated => InstanceState::Terminated,
        },
    }
}

impl InstanceList for SimulatedEc2 {
    fn instances(&self) -> Vec<CloudInstance> {
        let now = self.aws.clock().now();
        self.aws.instances().iter().map(|launched| listed(launched, now)).collect()
    }

    fn max_orphan_age(&self) -> Option<Duration> {
        Some(MAX_ORPHAN_AGE)
    }
}

impl SimulatedCloud for SimulatedEc2 {
    fn fork(&self, clock: Clock, changes: CloudChanges) -> Arc<dyn SimulatedCloud> {
        Arc::new(Self::new(self.aws.fork(clock), changes, self.cluster_name.clone()))
    }

    fn provider_id_prefix(&self) -> &'static str {
        PROVIDER_ID_PREFIX
    }

    fn advance(&self, now: Timestamp) -> Option<Timestamp> {
        if self.aws.next_transition_at().is_some_and(|at| at <= now) {
            // Reading the instances carries out what is due.
            drop(self.aws.instances());
            self.changes.notify();
        }
        self.aws.next_transition_at()
    }

    fn node_registration(&self, provider_id: &str) -> Option<NodeRegistration> {
        let launched = self.find(provider_id)?;
        let instance = &launched.instance;
        let (region, cluster, instance_type) = self.aws.change_account(|account| {
            let cluster = account.clusters.get(&self.cluster_name).cloned().unwrap_or_default();
            (account.region.clone(), cluster, account.instance_type(&instance.instance_type).cloned())
        });
        let place = InstancePlace {
            region: &region,
            cluster_name: &self.cluster_name,
            cluster: &cluster,
            instance_type: &instance_type?,
        };
        match registration::node_registration(&launched, place) {
            Ok(registration) => Some(registration),
            Err(reason) => {
                warn!(instance = instance.id, %reason, "the instance does not join the cluster");
                None
            }
        }
    }

    fn interrupt(&self, provider_id: &str) {
        if let Some(id) = instance_id(provider_id) {
            self.aws.fail_instance(id, SPOT_INTERRUPTION);
        }
    }
}
