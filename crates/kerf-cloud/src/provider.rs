//! The trait that stands between Kerf and a cloud (spec 04 §2.1).

use std::sync::Arc;

use futures::future::BoxFuture;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_engine::catalogue::InstanceType;

use crate::error::{CreateError, DriftError, InstanceError, InstanceTypesError, ListError};
use crate::hook::RegistrationHook;
use crate::instance::{Instance, NodeClassKind, RepairPolicy};

/// A cloud. It can be shared, and every call may be repeated: the caller may have died before it could note the answer.
pub trait CloudProvider: Send + Sync {
    /// The provider's name, a metric label.
    fn name(&self) -> &str;

    /// The kinds of node class that it supports, the default one first.
    fn node_classes(&self) -> &[NodeClassKind];

    /// What its labels mean.
    fn label_rules(&self) -> &LabelRules;

    /// Launches one machine that meets a claim's requirements and resource requests. Called again for the same claim (by uid),
    /// it answers with the machine that it launched before.
    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>>;

    /// Has a machine terminated. `Ok` means that this is under way: the caller comes back until the answer is
    /// [`MachineError::NotFound`].
    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), InstanceError>>;

    /// Looks a machine up.
    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>>;

    /// All machines of this cluster, those that are being terminated included.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>>;

    /// All instance types that a pool can use, those that cannot be had just now included.
    fn instance_types<'a>(
        &'a self,
        pool: &'a NodePool,
    ) -> BoxFuture<'a, Result<Arc<Vec<InstanceType>>, InstanceTypesError>>;

    /// Why a machine is no longer what its class asks for; none if it is.
    fn drift<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>>;

    /// When nodes count as broken.
    fn repair_policies(&self) -> &[RepairPolicy];

    /// What else must be true before a node counts as registered.
    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &[]
    }

    /// Whether a claim or pool is this provider's, by the class that it refers to.
    fn supports(&self, class: &kerf_api::nodepool::NodeClassReference) -> bool {
        self.node_classes().iter().any(|kind| kind.matches(class))
    }
}
