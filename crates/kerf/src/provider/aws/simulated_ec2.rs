//! The EC2 in memory as the cloud of a sandbox: its instances boot, register the Nodes that their
//! user data describes, and are compared with the NodeClaims.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_aws::memory::{CapacityPool, LaunchFaults, LaunchedInstance, MemoryAws};
use kerf_aws::ports::ec2::InstanceStateName;
use kerf_runtime::Clock;
use kerf_sandbox::sim::read_aws_step;
use kerf_sandbox::{
    ApiServer, AwsStep, Cloud, CloudChanges, CloudInstance, InstanceList, InstanceState, NodeRegistration, OfferingRef,
    SimulatedCloud,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tracing::warn;

use super::account_steps::AccountSteps;
use super::registration::{self, InstancePlace};
use crate::program::SANDBOX_KUBERNETES_VERSION;

/// Tag with the name of the claim for which an instance was launched.
const CLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// Beginning of all provider IDs of EC2.
const PROVIDER_ID_PREFIX: &str = "aws:///";
/// State reason of an instance that EC2 loses without notice.
const INTERNAL_ERROR: &str = "Server.InternalError";
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
    /// True if a person's zonal shift would have no effect, because the sandbox runs without
    /// `--enable-zonal-shift`.
    ignores_zonal_shift: bool,
    /// Time of the next change that only the clock causes, as [`SimulatedCloud::advance`] returned
    /// it last.
    planned: Mutex<Option<Timestamp>>,
}

impl SimulatedEc2 {
    /// Attaches an EC2 to a server. Must be called on a tokio runtime.
    ///
    /// `faults` decides about faults of launches, besides the account.
    pub(crate) fn attach(
        server: &ApiServer,
        aws: MemoryAws,
        cluster_name: impl Into<String>,
        faults: Cloud,
        ignores_zonal_shift: bool,
    ) -> Arc<Self> {
        aws.set_launch_faults(Some(Arc::new(SandboxFaults(faults))));
        let cloud = Self::new(aws, server.cloud_changes().clone(), cluster_name.into());
        let cloud = Arc::new(Self { ignores_zonal_shift, ..cloud });
        server.attach_cloud(cloud.clone());
        cloud
    }

    pub(super) fn new(aws: MemoryAws, changes: CloudChanges, cluster_name: String) -> Self {
        forward_changes(&aws, changes.clone());
        Self { aws, changes, cluster_name, ignores_zonal_shift: false, planned: Mutex::new(None) }
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

/// Faults of the sandbox's cloud as faults of launches.
struct SandboxFaults(Cloud);

impl LaunchFaults for SandboxFaults {
    fn is_out_of_stock(&self, pool: &CapacityPool) -> bool {
        let CapacityPool { instance_type, zone, capacity_type } = pool;
        self.0.is_out_of_stock(OfferingRef { instance_type, zone, capacity_type })
    }

    fn is_throttled(&self) -> bool {
        self.0.is_launch_throttled()
    }
}

fn listed(aws: &MemoryAws, launched: &LaunchedInstance, now: Timestamp) -> CloudInstance {
    let price = aws.price_of(launched).and_then(|price| u64::try_from(price.micro_dollars()).ok());
    let instance = &launched.instance;
    CloudInstance {
        provider_id: provider_id(launched),
        claim: instance.tags.get(CLAIM_TAG).cloned(),
        instance_type: instance.instance_type.clone(),
        zone: instance.zone.clone(),
        capacity_type: launched.capacity_type().to_owned(),
        launched_at: instance.launched_at.unwrap_or(now),
        state: match instance.state {
            InstanceStateName::Pending => InstanceState::Pending,
            InstanceStateName::Running => InstanceState::Running,
            InstanceStateName::Stopping | InstanceStateName::Stopped | InstanceStateName::ShuttingDown => {
                InstanceState::ShuttingDown
            }
            InstanceStateName::Terminated => InstanceState::Terminated,
        },
        internal_ip: Some(launched.private_address),
        micro_dollars_per_hour: price.unwrap_or_default(),
    }
}

/// Returns an instance as a person reads it.
fn described(aws: &MemoryAws, launched: &LaunchedInstance) -> Value {
    let (instance, listed) = (&launched.instance, listed(aws, launched, aws.clock().now()));
    json!({
        "id": instance.id,
        "node": instance.private_dns_name,
        "nodePool": instance.tags.get("karpenter.sh/nodepool"),
        "nodeClaim": listed.claim,
        "instanceType": instance.instance_type,
        "zone": instance.zone,
        "capacityType": listed.capacity_type,
        "image": instance.image_id,
        "state": instance.state.name(),
        // EC2 has an empty reason for an instance that has not ended.
        "stateReason": instance.state_reason.as_ref().filter(|reason| !reason.is_empty()),
        "launchedAt": listed.launched_at.to_string(),
        "dollarsPerHour": listed.micro_dollars_per_hour as f64 / 1e6,
        "console": aws.console_output(&instance.id),
    })
}

impl InstanceList for SimulatedEc2 {
    fn instances(&self) -> Vec<CloudInstance> {
        let now = self.aws.clock().now();
        self.aws.instances().iter().map(|launched| listed(&self.aws, launched, now)).collect()
    }

    fn max_orphan_age(&self) -> Option<Duration> {
        Some(MAX_ORPHAN_AGE)
    }
}

impl SimulatedCloud for SimulatedEc2 {
    fn fork(&self, clock: Clock, changes: CloudChanges) -> Arc<dyn SimulatedCloud> {
        let copy = Self::new(self.aws.fork(clock), changes, self.cluster_name.clone());
        Arc::new(Self { ignores_zonal_shift: self.ignores_zonal_shift, ..copy })
    }

    fn provider_id_prefix(&self) -> &'static str {
        PROVIDER_ID_PREFIX
    }

    fn advance(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.planned.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A change of prices is never due in the account: its next one is always later than now.
        if due.into_iter().chain(self.aws.next_transition_at()).any(|at| at <= now) {
            // Reading the instances carries out what is due.
            drop(self.aws.instances());
            self.changes.notify();
        }
        let next = self.aws.next_transition_at();
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = next;
        next
    }

    fn node_registration(&self, provider_id: &str) -> Result<NodeRegistration, String> {
        let launched = self.find(provider_id).ok_or("there is no such instance")?;
        let instance = &launched.instance;
        let role = self.aws.role_of_profile(&launched.template.instance_profile);
        let (region, cluster, instance_type, image_name, is_role_mapped) = self.aws.change_account(|account| {
            let cluster = account.clusters.get(&self.cluster_name).cloned().unwrap_or_default();
            let instance_type = account.instance_type(&instance.instance_type).cloned();
            let image_name = account.images.get(&instance.image_id).map(|image| image.name.clone());
            let is_role_mapped = role.as_ref().is_some_and(|role| !account.unmapped_roles.contains(role));
            (account.region.clone(), cluster, instance_type, image_name.unwrap_or_default(), is_role_mapped)
        });
        let instance_type = instance_type.ok_or("the instance type does not exist any more")?;
        let place = InstancePlace {
            region: &region,
            cluster_name: &self.cluster_name,
            cluster: &cluster,
            instance_type: &instance_type,
            image_name: &image_name,
            role: role.as_deref(),
            is_role_mapped,
        };
        let log = |line: String| self.aws.append_console(&instance.id, line);
        log(format!("{image_name} boots with the user data of {}", launched.template_name));
        match registration::node_registration(&launched, place) {
            Ok(registration) => {
                log(format!("the kubelet registers the node {}", registration.name));
                Ok(registration)
            }
            Err(reason) => {
                warn!(instance = instance.id, %reason, "the instance does not join the cluster");
                log(format!("the instance does not join the cluster: {reason}"));
                Err(reason.to_string())
            }
        }
    }

    fn perform(&self, step: &AwsStep) -> Result<Vec<String>, Vec<String>> {
        if step.zonal_shift.is_some() && self.ignores_zonal_shift {
            let problem =
                "zonalShift: Kerf does not honour zonal shifts here; start the sandbox with --enable-zonal-shift";
            return Err(vec![problem.to_owned()]);
        }
        let kubernetes_version = SANDBOX_KUBERNETES_VERSION;
        let outcome =
            AccountSteps { aws: &self.aws, cluster_name: &self.cluster_name, kubernetes_version }.perform(step);
        // The time of the next change may have moved, for example to the end of a new reservation.
        self.changes.notify();
        outcome
    }

    fn perform_by_hand(&self, text: &[u8]) -> Result<Vec<String>, Vec<String>> {
        self.perform(&read_aws_step(text)?)
    }

    fn describe_instances(&self) -> Value {
        self.aws.instances().iter().map(|launched| described(&self.aws, launched)).collect()
    }

    fn interrupt(&self, provider_id: &str) {
        // Only spot instances, and those of interruptible reservations, have a notice.
        if let Some(id) = instance_id(provider_id)
            && !self.aws.reclaim_instance(id)
        {
            self.aws.fail_instance(id, INTERNAL_ERROR);
        }
    }
}
