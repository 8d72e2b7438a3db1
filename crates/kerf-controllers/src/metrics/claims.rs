//! Counts events of NodeClaims, with labels that come from the claim (spec 04 §5.11).

use jiff::Timestamp;
use kerf_api::annotations::NODECLAIM_MIN_VALUES_RELAXED;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;

use super::{DisruptedClaims, Metrics};

fn label<'c>(claim: &'c NodeClaim, key: &str) -> &'c str {
    claim.metadata.labels.as_ref().and_then(|all| all.get(key)).map_or("", String::as_str)
}

/// Converts `KernelReady` to `kernel_ready`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

impl Metrics {
    /// Counts a created claim. `reason` is `provisioned`, or the disruption reason of a
    /// replacement.
    pub(crate) fn claim_created(&self, claim: &NodeClaim, reason: &str) {
        let annotations = claim.metadata.annotations.as_ref();
        let relaxed = annotations.and_then(|all| all.get(NODECLAIM_MIN_VALUES_RELAXED)).map_or("false", String::as_str);
        self.nodeclaims_created.inc(&[reason, label(claim, labels::NODEPOOL), relaxed]);
    }

    /// Counts a claim that a controller deleted, and the number of pods on its node that must move.
    pub(crate) fn claim_disrupted(&self, claim: &NodeClaim, reason: &str, pods: usize) {
        let labels = DisruptedClaims::labels(claim, reason, "");
        self.nodeclaims_disrupted.inc(&labels);
        self.pods_disruption_initiated.add(&labels, pods as f64);
    }

    /// Counts a claim that was deleted because of an unhealthy node condition.
    pub(crate) fn claim_unhealthy(&self, claim: &NodeClaim, condition: &str) {
        let image = claim.status.as_ref().and_then(|status| status.image_id.as_deref()).unwrap_or_default();
        let (pool, capacity_type) = (label(claim, labels::NODEPOOL), label(claim, labels::CAPACITY_TYPE));
        self.nodeclaims_unhealthy_disrupted.inc(&[&snake_case(condition), pool, capacity_type, image]);
    }

    /// Counts a registered node.
    pub(crate) fn node_registered(&self, claim: &NodeClaim) {
        self.nodes_created.inc(&[label(claim, labels::NODEPOOL), label(claim, labels::ZONE)]);
    }

    /// Records the duration of an instance's termination, which began at `since`.
    pub(crate) fn instance_terminated(&self, claim: &NodeClaim, since: Timestamp, now: Timestamp) {
        let took = now.duration_since(since).as_secs_f64();
        self.nodeclaims_instance_termination_duration.observe(&[label(claim, labels::NODEPOOL)], took);
    }

    /// Counts a claim whose finalizer was removed, and records how long its termination took.
    pub(crate) fn claim_terminated(&self, claim: &NodeClaim, now: Timestamp) {
        let pool = label(claim, labels::NODEPOOL);
        if let Some(deleted) = &claim.metadata.deletion_timestamp {
            self.nodeclaims_termination_duration.observe(&[pool], now.duration_since(deleted.0).as_secs_f64());
        }
        self.nodeclaims_terminated.inc(&[pool, label(claim, labels::CAPACITY_TYPE), label(claim, labels::ZONE)]);
    }
}
