//! The counter of deleted NodeClaims. Kerf's controllers and those of providers count into it.

use kerf_api::duration::Duration;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;

use super::registry::{Counter, Registry};

/// Counter of NodeClaims that a controller deleted (`karpenter_nodeclaims_disrupted_total`).
#[derive(Clone, Debug)]
pub struct DisruptedClaims(Counter);

impl DisruptedClaims {
    /// Labels of the counter. Other metrics about disrupted claims have the same labels.
    pub const LABELS: [&str; 5] = ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"];

    /// Registers the counter, or returns the registered one.
    pub fn new(registry: &Registry) -> Self {
        Self(registry.counter(
            "karpenter_nodeclaims_disrupted_total",
            "Number of nodeclaims deleted by the controller.",
            &Self::LABELS,
        ))
    }

    /// Returns the label values for a claim. `policy` is the consolidation policy of its pool,
    /// empty if the claim is not consolidated.
    pub fn labels<'c>(claim: &'c NodeClaim, reason: &'c str, policy: &'c str) -> [&'c str; 5] {
        let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str);
        [reason, label(labels::NODEPOOL), label(labels::CAPACITY_TYPE), policy, termination_mode(claim)]
    }

    /// Counts a claim with the values of [`Self::labels`].
    pub fn inc(&self, labels: &[&str; 5]) {
        self.0.inc(labels);
    }

    /// Returns the number of claims with these label values.
    pub fn get(&self, labels: &[&str; 5]) -> f64 {
        self.0.get(labels)
    }
}

/// Returns the label value for the claim's termination grace period: `graceful` if it has none,
/// `forceful` if it is zero, `eventual` otherwise.
fn termination_mode(claim: &NodeClaim) -> &'static str {
    match claim.spec.termination_grace_period.as_ref().map(|text| text.as_str().parse::<Duration>()) {
        None => "graceful",
        Some(Ok(period)) if period <= Duration::ZERO => "forceful",
        Some(Ok(_) | Err(_)) => "eventual",
    }
}
