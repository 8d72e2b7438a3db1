//! Metrics of launches (spec 07 §6.5).

use kerf_operator::Registry;
use kerf_operator::metrics::Counter;

/// Metrics of launches.
#[derive(Debug, Clone)]
pub(crate) struct LaunchMetrics {
    pub(crate) failures: Counter,
}

impl LaunchMetrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            failures: registry.counter(
                "karpenter_cloudprovider_instance_launch_failures_total",
                "Number of failed instance launches",
                &["zone", "zone_id", "capacity_type", "reason"],
            ),
        }
    }
}
