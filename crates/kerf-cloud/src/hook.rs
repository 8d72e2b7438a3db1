//! Registration hooks: further conditions that must hold before a node counts as registered (spec
//! 04 §5.4).

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use kerf_api::nodeclaim::NodeClaim;

use crate::BoxError;

/// A check that a provider adds to registration. The unregistered taint stays on the node until
/// every hook is satisfied.
pub trait RegistrationHook: Send + Sync {
    /// Returns the name that users read in the condition's message.
    fn name(&self) -> &str;

    /// Reports whether registration of the claim may proceed. Called again until the result is not
    /// pending.
    fn check_registration<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<HookResult, BoxError>>;
}

/// Result of one call of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookResult {
    /// True if the controller must call again, with its usual back-off.
    pub requeue: bool,
    /// Delay until the next call. Zero means that no call is needed for this reason.
    pub requeue_after: Duration,
    /// Labels to set on the claim and its node.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set on the claim and its node.
    pub annotations: BTreeMap<String, String>,
}

impl HookResult {
    /// Returns a result without labels or annotations that waits for nothing.
    pub fn satisfied() -> Self {
        Self::default()
    }

    /// Returns true if the hook must be called again before registration may proceed.
    pub fn is_pending(&self) -> bool {
        self.requeue || !self.requeue_after.is_zero()
    }
}
