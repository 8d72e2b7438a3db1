//! Metrics of interruptions (spec 07 §6.5).

use kerf_operator::Registry;
use kerf_operator::metrics::{Counter, DURATION_BUCKETS, DisruptedClaims, Histogram};

/// Metrics of the interruption controllers.
#[derive(Debug, Clone)]
pub(super) struct InterruptionMetrics {
    pub(super) received: Counter,
    pub(super) deleted: Counter,
    pub(super) queue_duration: Histogram,
    pub(super) unhealthy: Counter,
    pub(super) disrupted: DisruptedClaims,
}

impl InterruptionMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            received: registry.counter(
                "karpenter_interruption_received_messages_total",
                "Number of messages received from the interruption queue, by kind",
                &["message_type"],
            ),
            deleted: registry.counter(
                "karpenter_interruption_deleted_messages_total",
                "Number of messages deleted from the interruption queue",
                &[],
            ),
            queue_duration: registry.histogram(
                "karpenter_interruption_message_queue_duration_seconds",
                "Time from an event until its message was handled",
                &[],
                &DURATION_BUCKETS,
            ),
            unhealthy: registry.counter(
                "karpenter_interruption_instance_status_unhealthy_total",
                "Number of instances that failed a status check, by category",
                &["category"],
            ),
            disrupted: DisruptedClaims::new(registry),
        }
    }
}
