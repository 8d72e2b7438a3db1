//! `state.nodeclaimgc`: 15 seconds after a claim was created, checks that it still exists. A claim
//! that was deleted before any watch reported it would otherwise keep cluster state unsynced
//! forever (spec 04 §4.9).

use std::time::Duration;

use kerf_api::slim::Str;
use kerf_runtime::ReconcileAction;

use crate::actions;
use crate::context::Context;
use crate::error::Error;
use kerf_operator::Reconcile;

/// Delay between the creation of a claim and the check.
pub(crate) const EXISTENCE_CHECK_DELAY: Duration = Duration::from_secs(15);

pub(crate) struct StaleClaims {
    ctx: Context,
}

impl StaleClaims {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for StaleClaims {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let exists = actions::claim::exists(&self.ctx, name)
            .await
            .map_err(|cause| Error::Api { operation: "getting nodeclaim", cause })?;
        if !exists {
            self.ctx.cluster.lock().remove_unobserved(name);
        }
        Ok(ReconcileAction::Done)
    }
}
