//! Registration hooks: what else must be true before a node counts as registered (spec 04 §5.4).

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use kerf_api::nodeclaim::NodeClaim;

use crate::BoxError;

/// A check that a provider adds to registration. The unregistered taint stays on the node until every hook is satisfied.
pub trait RegistrationHook: Send + Sync {
    /// The name that users read in the condition's message.
    fn name(&self) -> &str;

    /// How far the hook is with a claim.
    fn registered<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<HookResult, BoxError>>;
}

/// How far a hook is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookResult {
    /// Whether to come back with the controller's back-off.
    pub requeue: bool,
    /// When to come back; zero is not at all.
    pub requeue_after: Duration,
    /// Labels that the claim and its node shall have.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the claim and its node shall have.
    pub annotations: BTreeMap<String, String>,
}

impl HookResult {
    /// Nothing to wait for.
    pub fn satisfied() -> Self {
        Self::default()
    }

    /// Whether the hook still waits for something.
    pub fn is_pending(&self) -> bool {
        self.requeue || !self.requeue_after.is_zero()
    }
}
