//! The trait between Kerf and a cloud (spec 04 §2.1).

use std::sync::Arc;

use futures::future::BoxFuture;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_engine::catalogue::InstanceTypes;

use crate::error::{CreateError, DriftError, InstanceError, InstanceTypesError, ListError};
use crate::hook::RegistrationHook;
use crate::instance::{Instance, NodeClassKind, RepairPolicy};

/// A cloud. Implementations can be shared between tasks. Every call may be repeated, because the
/// caller may have been terminated before it recorded the result.
pub trait CloudProvider: Send + Sync {
    /// Returns the provider's name, which is also a metric label.
    fn name(&self) -> &str;

    /// Returns the supported kinds of node class, the default one first.
    fn node_classes(&self) -> &[NodeClassKind];

    /// Returns the rules about the provider's own labels.
    fn label_rules(&self) -> &LabelRules;

    /// Launches one instance that meets the claim's requirements and resource requests. If it is
    /// called again for the same claim (by UID), it returns the instance that it launched before.
    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>>;

    /// Starts the termination of an instance. `Ok` means that the termination has begun: the caller
    /// repeats the call until it returns [`InstanceError::NotFound`].
    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), InstanceError>>;

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

    /// Returns true if a claim or pool with this node class reference belongs to this provider.
    fn supports(&self, class: &kerf_api::nodepool::NodeClassReference) -> bool {
        self.node_classes().iter().any(|kind| kind.matches(class))
    }
}
