//! Static capacity, behind the feature gate `StaticCapacity` (spec 04 §9): a NodePool with
//! `replicas` keeps that number of nodes, whatever pods there are. One controller creates missing
//! claims, the other deletes surplus ones. Both read the current claims of the NodePool, so the
//! event that enqueued it does not matter.

pub(crate) mod deprovisioning;
pub(crate) mod provisioning;

use std::sync::Arc;
use std::time::Duration;

use kerf_api::nodepool::NodePool;

use crate::context::Context;

/// Interval at which a NodePool is checked without any event.
const POOL_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Returns a managed NodePool that has `replicas` and is not being deleted, and the number of
/// replicas.
fn static_pool(ctx: &Context, name: &str) -> Option<(Arc<NodePool>, usize)> {
    let pool = ctx.managed_pool(name).filter(|pool| pool.metadata.deletion_timestamp.is_none())?;
    let replicas = usize::try_from(pool.spec.replicas?).unwrap_or(0);
    Some((pool, replicas))
}
