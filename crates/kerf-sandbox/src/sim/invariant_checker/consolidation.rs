//! Savings of consolidation, and the price of the capacity of the pods that it moves, for the check
//! of a steady cluster.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::Pod;

use super::{ClaimRecord, InvariantChecker, NodeRecord};
use crate::sim::steady::ConsolidationDecision;

/// Age from which a pod is settled (spec 03 §16 rule 24).
const SETTLED_POD_AGE: SignedDuration = SignedDuration::from_hours(1);
/// Values of the condition `DisruptionReason` of nodes that are removed to save money.
const CONSOLIDATION_REASONS: [&str; 2] = ["Empty", "Underutilized"];

impl InvariantChecker {
    /// Records the decision to consolidate a claim. Other reasons are ignored.
    pub(super) fn record_consolidation(&mut self, name: &str, claim: &ClaimRecord, now: Timestamp) {
        let is_consolidation = claim.reason.as_deref().is_some_and(|reason| CONSOLIDATION_REASONS.contains(&reason));
        let Some(node) = self.nodes.get(&claim.node).filter(|_| is_consolidation) else { return };
        let is_settled = |pod: &Pod| pod.status.start_time.is_some_and(|at| now.duration_since(at) >= SETTLED_POD_AGE);
        let pods = self.pods_on(&claim.node).map(|record| &record.pod);
        let moved = pods.filter(|pod| !pod.is_owned_by_daemonset() && !pod.is_terminal() && is_settled(pod));
        let decision = ConsolidationDecision {
            claim: name,
            price: node.price,
            moved_price: moved.map(|pod| price_share(node, pod)).sum(),
            cluster_price: self.micro_dollars_per_hour(),
        };
        self.steady_check.record_decision(decision, now);
    }

    /// Returns true if the claim of a node is consolidated, and its wave saves enough to move
    /// settled pods.
    pub(in crate::sim) fn consolidation_saves_enough(&self, node: &str) -> bool {
        let Some((name, _)) = self.claims.iter().find(|(_, claim)| claim.node == node && !node.is_empty()) else {
            return false;
        };
        self.steady_check.saves_enough(name, |claims| self.price_of_replacements(claims))
    }

    fn price_of_replacements(&self, claims: &BTreeSet<String>) -> u64 {
        let replacements = self.claims.values().filter(|claim| claim.replaces.iter().any(|name| claims.contains(name)));
        replacements.filter_map(|claim| self.nodes.get(&claim.node)).map(|node| node.price).sum()
    }
}

/// Returns the node's price times the pod's largest share of the node's CPU or memory.
fn price_share(node: &NodeRecord, pod: &Pod) -> u64 {
    let share = |resource: &str| {
        let requests = pod.spec.containers.iter().filter_map(|container| container.resources.requests.get(resource));
        let requested = u128::try_from(requests.map(|amount| i128::from(amount.milli_value())).sum::<i128>()).ok()?;
        let allocatable = u128::try_from(node.allocatable.get(resource)?.milli_value()).ok()?;
        u64::try_from((u128::from(node.price) * requested).checked_div(allocatable)?).ok()
    };
    [share("cpu"), share("memory")].into_iter().flatten().max().unwrap_or_default()
}
