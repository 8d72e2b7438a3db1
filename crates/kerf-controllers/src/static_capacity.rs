//! Static capacity, only with the feature gate `StaticCapacity` (spec 04 §9): a pool with `replicas` keeps that many nodes, whatever pods
//! there are. One controller makes up for what is missing, another takes away what is too many; each looks at the pool's claims as they
//! are, so it does not matter what woke it.

pub(crate) mod deprovisioning;
pub(crate) mod provisioning;

use std::sync::Arc;
use std::time::Duration;

use kerf_api::nodepool::NodePool;

use crate::context::Context;

/// How often a pool is looked at, whatever happens to it.
const POOL_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// A pool of ours that keeps so many nodes, and is not on its way out.
fn static_pool(ctx: &Context, name: &str) -> Option<(Arc<NodePool>, usize)> {
    let pool = ctx.managed_pool(name).filter(|pool| pool.metadata.deletion_timestamp.is_none())?;
    let replicas = usize::try_from(pool.spec.replicas?).unwrap_or(0);
    Some((pool, replicas))
}
