//! The interface of a cloud that has instances of its own, such as an EC2 in memory. The sandbox
//! depends on no provider, so a program or a test implements [`SimulatedCloud`] and attaches it
//! with [`crate::ApiServer::attach_cloud`].
//!
//! ```text
//! provider under test ── launch, terminate ──► SimulatedCloud ◄── list ── invariants
//!                                                 ▲      │ changes
//!                            advance, interrupt   │      ▼
//!                                             kubelets ──► Node objects
//! ```
//!
//! An instance exists before its Node and without one. The kubelets boot each running instance and
//! register the Node that the cloud describes. The invariants compare the cloud's own list with the
//! NodeClaims. [`crate::ApiServer::fork`] copies the cloud together with the objects.
//!
//! Without an attached cloud, the instances are the Nodes that a provider creates itself, as the
//! simulated provider does.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_runtime::Clock;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::aws_step::AwsStep;

/// Failure of a change of the account of a cloud that has none.
const NO_ACCOUNT: &str = "the cloud has no AWS account; use --provider aws";

/// State of an instance, as its cloud reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// The cloud has accepted the launch, and the instance does not run yet.
    Pending,
    /// The instance runs: its kubelet boots, or has booted.
    Running,
    /// The instance stops. Its kubelet has stopped, and it counts no longer as live.
    ShuttingDown,
    /// The instance has ended. A cloud may list it in this state for some time.
    Terminated,
}

impl InstanceState {
    /// Returns true for an instance that is or will be usable: pending or running. A live instance
    /// without a NodeClaim is a leak.
    pub fn is_live(self) -> bool {
        match self {
            Self::Pending | Self::Running => true,
            Self::ShuttingDown | Self::Terminated => false,
        }
    }
}

/// One instance in the list of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudInstance {
    /// Identifier of the instance, as in `spec.providerID` of its Node.
    pub provider_id: String,
    /// Name of the NodeClaim for which the instance was launched; `None` if the cloud does not
    /// record it.
    pub claim: Option<String>,
    /// Name of the instance type; empty if unknown.
    pub instance_type: String,
    /// Name of the zone; empty if unknown.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`; empty if unknown.
    pub capacity_type: String,
    /// Time at which the cloud accepted the launch.
    pub launched_at: Timestamp,
    /// State of the instance now.
    pub state: InstanceState,
    /// Address that its kubelet reports as `InternalIP`; `None` if the cloud assigns none.
    pub internal_ip: Option<Ipv4Addr>,
    /// Price now, in millionths of a dollar per hour; 0 if the cloud does not know it.
    pub micro_dollars_per_hour: u64,
}

/// The list of instances with which the invariants compare the NodeClaims.
pub trait InstanceList {
    /// Returns all instances that the cloud lists now. The order must be the same in every run with
    /// one seed, for example the order of the launches.
    fn instances(&self) -> Vec<CloudInstance>;

    /// Returns the age at which a live instance must have a NodeClaim, at any time of a run. It has
    /// to include the time after which the provider under test removes leaked instances. `None`:
    /// instances need a NodeClaim only at the end of a run, when faults are off.
    fn max_orphan_age(&self) -> Option<Duration>;

    /// Returns the instances that are pending or running. After a run whose NodeClaims are all
    /// deleted, the list must be empty.
    fn live_instances(&self) -> Vec<CloudInstance> {
        self.instances().into_iter().filter(|instance| instance.state.is_live()).collect()
    }
}

/// A cloud with instances of its own, beside the API server of a sandbox.
///
/// Every method may be called while other tasks call the cloud, and none may wait. A cloud calls
/// [`CloudChanges::notify`] after each change of its list, and holds no lock of its own meanwhile.
/// It must not change without a call, and keeps times as timestamps of its clock, so that a copy
/// stays as it was copied until it is used. It must not hold the [`crate::ApiServer`] to which it
/// is attached, because neither would be freed then.
pub trait SimulatedCloud: InstanceList + Any + Debug + Send + Sync {
    /// Returns an independent copy that reads the time from `clock` and reports its changes to
    /// `changes`. Later calls of either cloud do not affect the other. The copy repeats the random
    /// values of the original. Called by [`crate::ApiServer::fork`].
    fn fork(&self, clock: Clock, changes: CloudChanges) -> Arc<dyn SimulatedCloud>;

    /// Returns the beginning of all provider IDs of this cloud, such as `aws:///`. A Node with such
    /// a provider ID belongs to this cloud.
    fn provider_id_prefix(&self) -> &str;

    /// Carries out everything that is due at `now`, such as the end of a launch or of a shutdown.
    /// Returns the time of the next such change, or `None` if none is planned. The control plane
    /// calls it after each reported change and at the returned time, at least a millisecond later.
    fn advance(&self, now: Timestamp) -> Option<Timestamp>;

    /// Returns the Node that the kubelet of an instance registers at the end of its boot. Fails if
    /// the instance cannot join the cluster, for example because its user data is wrong. Called
    /// once per attempt to register; after a failure there is no other attempt.
    fn node_registration(&self, provider_id: &str) -> Result<NodeRegistration, String>;

    /// Carries out changes of its account from a scenario, and returns a line for each change.
    /// Fails with a message for each action that could not be carried out; each begins with the
    /// name of its field. The other actions are carried out.
    fn perform(&self, _step: &AwsStep) -> Result<Vec<String>, Vec<String>> {
        Err(vec![NO_ACCOUNT.to_owned()])
    }

    /// Carries out changes of its account that a person wrote in YAML or JSON, like
    /// [`SimulatedCloud::perform`]. Fails with all mistakes of the text if it has any.
    fn perform_by_hand(&self, _text: &[u8]) -> Result<Vec<String>, Vec<String>> {
        Err(vec![NO_ACCOUNT.to_owned()])
    }

    /// Describes the instances for a person, with their console output, as a list of objects.
    fn describe_instances(&self) -> Value {
        Value::Array(Vec::new())
    }

    /// Reclaims an instance, as a cloud does with spot capacity. The cloud decides whether it gives
    /// notice and when the instance ends. Ignored for an instance that is not live.
    fn interrupt(&self, provider_id: &str);
}

/// The Node that a kubelet registers for an instance. The provider ID is the instance's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRegistration {
    /// Name of the Node, for example the instance's host name.
    pub name: String,
    /// Labels, including those that a cloud controller manager would add.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the kubelet sets itself; empty on EKS.
    pub annotations: BTreeMap<String, String>,
    /// Taints with which the kubelet registers.
    pub taints: Vec<Taint>,
    /// Resources of the instance.
    pub capacity: BTreeMap<String, Quantity>,
    /// Resources that pods may request; the capacity if empty.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// Handle through which a cloud reports that its list of instances has changed. Clones report to
/// the same server; [`crate::ApiServer::cloud_changes`] returns it.
#[derive(Clone, Debug, Default)]
pub struct CloudChanges(Arc<ChangeSignal>);

#[derive(Debug, Default)]
struct ChangeSignal {
    changes: AtomicU64,
    notify: Notify,
}

impl CloudChanges {
    /// Reports a change. The kubelets and the invariants read the list afterwards, not during the
    /// call. Several reports before they read it have the effect of one.
    pub fn notify(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Returns the number of reports so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// Returns a future that completes at the next report after it was enabled.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.0.notify.notified()
    }
}
