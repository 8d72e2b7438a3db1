//! Metrics of voluntary disruption (spec 03 §14, spec 07 §6.4).

use kerf_api::nodeclaim::NodeClaim;

use super::{DURATION_BUCKETS, DisruptedClaims, Metrics};
use kerf_operator::metrics::{Counter, Gauge, Histogram, Registry};

/// The metrics of voluntary disruption.
#[derive(Debug)]
pub struct DisruptionMetrics {
    /// Seconds per evaluation of a method, with the wait before validation, by reason and
    /// consolidation type.
    pub evaluation_duration: Histogram,
    /// Commands started, by decision, reason and consolidation type.
    pub decisions: Counter,
    /// Commands started, counted once for each pool involved, by pool, decision, reason and
    /// consolidation type.
    pub decisions_by_nodepool: Counter,
    /// Nodes that could be disrupted, by reason.
    pub eligible_nodes: Gauge,
    /// Searches that timed out, by consolidation type. Always zero: every candidate is evaluated.
    pub consolidation_timeouts: Counter,
    /// Nodes of commands that failed validation, by consolidation type.
    pub failed_validations: Counter,
    /// Replacements that failed, by decision, reason and consolidation type.
    pub queue_failures: Counter,
    /// Scores of moves in pools with the `Balanced` policy, by decision, pool and policy.
    pub consolidation_score: Histogram,
    /// Moves that consolidation found, by decision, pool and policy.
    pub consolidation_moves: Counter,
    /// Number of nodes that may be disrupted at once, by pool and reason.
    pub allowed_disruptions: Gauge,
    /// Number of nodes that are being disrupted or are not ready, by pool and reason.
    pub nodes_consuming_budgets: Gauge,
    /// Backoffs of drift after failed replacements, by pool.
    pub drift_backoffs: Counter,
    /// Seconds until drift is tried again, by pool.
    pub drift_backoff_seconds: Gauge,
}

impl DisruptionMetrics {
    pub(super) fn new(r: &Registry) -> Self {
        let of_command = ["decision", "reason", "consolidation_type"];
        let metrics = Self {
            evaluation_duration: r.histogram(
                "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
                "Duration of the disruption decision evaluation process.",
                &["reason", "consolidation_type"],
                &DURATION_BUCKETS,
            ),
            decisions: r.counter(
                "karpenter_voluntary_disruption_decisions_total",
                "Number of disruption decisions performed.",
                &of_command,
            ),
            decisions_by_nodepool: r.counter(
                "karpenter_voluntary_disruption_decisions_by_nodepool_total",
                "Number of disruption decisions performed, by nodepool.",
                &["nodepool", "decision", "reason", "consolidation_type"],
            ),
            eligible_nodes: r.gauge(
                "karpenter_voluntary_disruption_eligible_nodes",
                "Number of nodes eligible for disruption.",
                &["reason"],
            ),
            consolidation_timeouts: r.counter(
                "karpenter_voluntary_disruption_consolidation_timeouts_total",
                "Number of times the consolidation algorithm has reached a timeout.",
                &["consolidation_type"],
            ),
            failed_validations: r.counter(
                "karpenter_voluntary_disruption_failed_validations_total",
                "Number of candidates that were selected for disruption but failed validation.",
                &["consolidation_type"],
            ),
            queue_failures: r.counter(
                "karpenter_voluntary_disruption_queue_failures_total",
                "Number of replacements of disruption decisions that failed.",
                &of_command,
            ),
            consolidation_score: r.histogram(
                "karpenter_consolidation_score",
                "Scores of consolidation moves under the Balanced policy.",
                &["decision", "nodepool", "policy"],
                &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0],
            ),
            consolidation_moves: r.counter(
                "karpenter_consolidation_moves_total",
                "Number of consolidation moves that were found.",
                &["decision", "nodepool", "policy"],
            ),
            allowed_disruptions: r.gauge(
                "karpenter_nodepools_allowed_disruptions",
                "The number of nodes for a given nodepool that can be concurrently disrupting at a point in time.",
                &["nodepool", "reason"],
            ),
            nodes_consuming_budgets: r.gauge(
                "karpenter_nodepools_nodes_consuming_budgets",
                "The number of nodes for a given nodepool that are disrupting or not ready.",
                &["nodepool", "reason"],
            ),
            drift_backoffs: r.counter(
                "karpenter_voluntary_disruption_drift_backoffs_total",
                "Number of times that failed replacements started a drift backoff.",
                &["nodepool"],
            ),
            drift_backoff_seconds: r.gauge(
                "karpenter_nodepools_drift_backoff_seconds",
                "Seconds until drifted nodes of the nodepool are replaced again.",
                &["nodepool"],
            ),
        };
        // spec 07 #48
        for kind in ["multi", "single"] {
            metrics.consolidation_timeouts.add(&[kind], 0.0);
        }
        metrics
    }
}

impl Metrics {
    /// Counts a claim that a disruption command deleted, and the number of pods on its node that
    /// must move. `policy` is the consolidation policy of its pool, empty if the command is not a
    /// consolidation.
    pub(crate) fn claim_disrupted_by_command(&self, claim: &NodeClaim, reason: &str, policy: &str, pods: usize) {
        let labels = DisruptedClaims::labels(claim, reason, policy);
        self.nodeclaims_disrupted.inc(&labels);
        self.pods_disruption_initiated.add(&labels, pods as f64);
    }
}
