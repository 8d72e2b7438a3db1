//! `nodeclaim.expiration`: deletes every claim of ours at the instant at which its `expireAfter` is over (spec 03 §12.1). Nothing holds
//! it up, neither budgets nor pods that want to be left alone; the drain that follows is as careful as any.

use std::time::Duration;

use kerf_api::slim::Str;
use kerf_engine::expires_at;
use kerf_runtime::ReconcileAction;
use tracing::debug;

use super::delete_disrupted;
use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::Error;

/// The controller.
pub(crate) struct Expiration {
    ctx: Context,
}

impl Expiration {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for Expiration {
    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let Some(claim) = self.ctx.managed_claim(name).filter(|claim| !claim.is_terminating()) else {
            return Ok(ReconcileAction::Done);
        };
        let Some(end) = expires_at(&claim.engine_claim) else { return Ok(ReconcileAction::Done) };
        let now = self.ctx.now();
        if now < end {
            return Ok(ReconcileAction::RequeueAfter(Duration::try_from(end.duration_since(now)).unwrap_or_default()));
        }
        if delete_disrupted(&self.ctx, &claim, "expired").await? {
            debug!("deleting expired nodeclaim");
        }
        Ok(ReconcileAction::Done)
    }
}
