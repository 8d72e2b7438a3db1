//! `nodeclaim.expiration`: deletes every managed claim when its `expireAfter` has elapsed (spec 03
//! §12.1). Neither budgets nor `do-not-disrupt` annotations delay the deletion; the node is then
//! drained like any other.

use std::time::Duration;

use kerf_api::slim::Str;
use kerf_engine::expires_at;
use kerf_runtime::ReconcileAction;
use tracing::debug;

use super::delete_disrupted;
use crate::context::Context;
use crate::error::Error;
use kerf_operator::Reconcile;

pub(crate) struct Expiration {
    ctx: Context,
}

impl Expiration {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for Expiration {
    type Error = Error;

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
