//! Checks of NodeClaims. A claim that fails is used without the fields that cannot be read.

use super::duration_failures;
use crate::nodeclaim::NodeClaimSpec;

/// Returns all failures of a claim; an empty list means that it is valid.
pub fn failures(spec: &NodeClaimSpec) -> Vec<String> {
    duration_failures([
        ("expireAfter", spec.expire_after.as_ref()),
        ("terminationGracePeriod", spec.termination_grace_period.as_ref()),
    ])
}
