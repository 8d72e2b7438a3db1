//! The provider for single calls on a described world, without a process: the questions of spec 11.
//! Every call is that of the controllers; this module only prepares memory and reads it back.

use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_cloud::CloudProvider;
use kerf_operator::Reconcile as _;
use kerf_runtime::{Causes, ReconcileAction};

use crate::context::AwsContext;
use crate::drift::{DriftCheckError, check_drift};
use crate::instances::InstanceCallError;
use crate::interruption::InterruptionQueue;
use crate::nodeclass::{self, NodeClassTrialError};
use crate::parts::AwsParts;
use crate::ports::ec2::{Ec2Instance, InstanceTypeInfo, InstanceTypeOffering};
use crate::pricing::Pricing;
use crate::provider::AwsProvider;
use crate::reservation_slots::ReservationSlots;
use crate::settings::ClusterFacts;
use crate::shifted_zones::ShiftedZones;
use crate::unavailable_offerings::UnavailableOfferings;

/// Reason why it is unknown if a claim has drifted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct TrialDriftError {
    /// The error and its causes.
    pub text: String,
    /// True if EC2 does not know the instance.
    pub is_instance_not_found: bool,
}

/// The provider for single calls. It keeps nothing that outlives it.
pub struct ProviderTrial {
    provider: AwsProvider,
}

impl std::fmt::Debug for ProviderTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderTrial").finish_non_exhaustive()
    }
}

impl ProviderTrial {
    /// Prepares the provider. `facts` and the catalogue are what the process would have found at
    /// its start.
    pub fn new(
        parts: AwsParts,
        facts: ClusterFacts,
        types: Vec<InstanceTypeInfo>,
        offerings: Vec<InstanceTypeOffering>,
    ) -> Self {
        let provider = AwsProvider::new(parts);
        let context = provider.context();
        context.discovery.facts().update(|known| *known = facts);
        context.instance_types.set_catalogue(types, offerings);
        Self { provider }
    }

    pub(crate) fn context(&self) -> &Arc<AwsContext> {
        self.provider.context()
    }

    /// Returns the provider as the controllers see it.
    pub fn provider(&self) -> &dyn CloudProvider {
        &self.provider
    }

    /// Returns the known prices.
    pub fn pricing(&self) -> &Pricing {
        self.context().instance_types.pricing()
    }

    /// Returns the marks of missing capacity.
    pub fn unavailable(&self) -> &UnavailableOfferings {
        &self.context().unavailable
    }

    /// Returns the free slots of capacity reservations.
    pub fn reservation_slots(&self) -> &ReservationSlots {
        &self.context().reservation_slots
    }

    /// Returns the zones that the cluster is shifted away from.
    pub fn shifted_zones(&self) -> &ShiftedZones {
        self.context().zonal_shifts.zones()
    }

    /// Sets the free addresses of a subnet as EC2 reported them last.
    pub fn set_free_addresses(&self, subnet_id: &str, count: i32) {
        self.context().subnets.set_free_addresses(subnet_id, count);
    }

    /// Keeps an instance in memory, as if it had been read before.
    pub fn remember_instance(&self, instance: Ec2Instance) {
        self.context().instances.remember_described(instance);
    }

    /// Resolves the images of a class, and returns the class with its new status.
    pub async fn resolve_amis(&self, class: EC2NodeClass) -> (EC2NodeClass, Result<(), NodeClassTrialError>) {
        nodeclass::resolve_amis(self.context(), class).await
    }

    /// Runs the controller `nodeclass` once for a class in cluster state.
    pub async fn reconcile_class(&self, name: &str) -> Result<ReconcileAction, NodeClassTrialError> {
        nodeclass::reconcile_once(self.context().clone(), name).await
    }

    /// Returns the reason why a claim's instance no longer matches its node class.
    pub async fn drift(&self, claim: &NodeClaim) -> Result<Option<&'static str>, TrialDriftError> {
        check_drift(self.context(), claim).await.map_err(|error| TrialDriftError {
            text: Causes(&error).to_string(),
            is_instance_not_found: matches!(
                &error,
                DriftCheckError::Instance(cause) if matches!(**cause, InstanceCallError::NotFound(_))
            ),
        })
    }

    /// Returns the controller of an interruption queue.
    pub fn interruption_queue(&self, name: &str) -> TrialQueue {
        TrialQueue(InterruptionQueue::new(self.context().clone(), name.to_owned()))
    }
}

/// The controller of an interruption queue for single runs.
pub struct TrialQueue(InterruptionQueue);

impl std::fmt::Debug for TrialQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrialQueue").finish_non_exhaustive()
    }
}

impl TrialQueue {
    /// Receives messages once and handles them. Returns the text of the error if the controller
    /// would run again with backoff.
    pub async fn receive(&self) -> Result<(), String> {
        let result = self.0.reconcile(&Str::default()).await;
        result.map(drop).map_err(|error| Causes(&error).to_string())
    }
}
