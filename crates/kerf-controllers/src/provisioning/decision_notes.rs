//! Reports what operators should know about a decision besides its outcome (spec 02 §4.6, §5 and
//! §6.4): NodePools that were skipped, instance types excluded by limits, and relaxed preferences.
//! Notes that only the debug log shows are computed only if debug logging is enabled.

use std::collections::BTreeMap;
use std::sync::Arc;

use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_engine::{PoolWithoutTypes, RelaxedPod, Solution, TypesBeyondLimits};
use kerf_state::Cluster;
use tracing::{Level, debug, enabled, error, info};

use super::relaxation;
use crate::context::Context;
use crate::events;
use kerf_operator::logs::{key_reference, reference};

/// Notes about the last decision.
pub(super) struct DecisionNotes {
    not_ready: Vec<Str>,
    without_types: Vec<PoolWithoutTypes>,
    beyond_limits: Vec<TypesBeyondLimits>,
    relaxed: Vec<RelaxedPod>,
}

impl DecisionNotes {
    /// Collects the notes from the cluster state that the decision was made on.
    pub(super) fn collect(cluster: &mut Cluster, solution: &Solution) -> Self {
        let is_debug = enabled!(Level::DEBUG);
        // Limits matter only if instances must be launched, not if all pods fit on existing nodes.
        let needs_limits = is_debug && !(solution.claims.is_empty() && solution.unplaced.is_empty());
        Self {
            not_ready: cluster.pools_not_ready(),
            without_types: cluster.pools_without_types(),
            beyond_limits: if needs_limits { cluster.pools_beyond_limits() } else { Vec::new() },
            relaxed: if is_debug { cluster.pods_relaxed() } else { Vec::new() },
        }
    }

    /// Logs the notes about managed NodePools and publishes their Events.
    pub(super) fn report(&self, ctx: &Context, pools: &BTreeMap<Str, Arc<NodePool>>) {
        let managed = |name: &Str| pools.get(name).filter(|pool| ctx.manages_pool(pool));
        for name in self.not_ready.iter().filter(|name| managed(name).is_some()) {
            error!(NodePool = %reference(name), "ignoring nodepool, not ready");
        }
        for without in &self.without_types {
            let Some(pool) = managed(&without.pool) else { continue };
            let reference = reference(&without.pool);
            let message = "skipping, nodepool requirements filtered out all instance types";
            if without.min_values.is_empty() {
                info!(NodePool = %reference, "{message}");
            } else {
                let keys = without.min_values.join(", ");
                let why = format!("minValues requirement is not met for label(s) (label(s)=[{keys}])");
                info!(NodePool = %reference, minValuesIncompatibleErr = why, "{message}");
            }
            ctx.publish(events::no_compatible_instance_types(pool, !without.min_values.is_empty()));
        }
        for TypesBeyondLimits { pool, excluded, total } in &self.beyond_limits {
            debug!(
                NodePool = %reference(pool),
                excluded,
                total,
                "instance types were excluded because they would breach limits"
            );
        }
        for RelaxedPod { pod, relaxations } in &self.relaxed {
            for reason in relaxations.iter().map(relaxation::text) {
                debug!(
                    Pod = %key_reference(pod),
                    reason,
                    "relaxing soft constraints for pod since it previously failed to schedule"
                );
            }
        }
    }
}
