//! Liveness (spec 04 §5.6): deletes a claim whose instance is not launched, or whose node does not
//! register, in time.

use std::time::Duration;

use kerf_api::registration::RegistrationOutcome;
use kerf_runtime::{ApiError, ReconcileAction};
use tracing::debug;

use super::{ClaimUpdate, LAUNCHED, Lifecycle, LifecycleStep, REGISTERED};
use crate::actions;
use crate::error::{Error, Interrupted};

/// Longest time for which a claim may stay unlaunched.
const LAUNCH_TIMEOUT: Duration = Duration::from_mins(5);
/// Longest time for which a launched claim may stay unregistered, from the last transition of
/// `Registered`.
const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

impl Lifecycle {
    pub(super) async fn check_liveness(&self, update: &mut ClaimUpdate) -> Result<LifecycleStep, Error> {
        if update.conditions.is_true(REGISTERED) {
            return Ok(LifecycleStep::Continue(ReconcileAction::Done));
        }
        let now = self.ctx.now();
        let (condition, timeout, reason) = if update.conditions.is_true(LAUNCHED) {
            (REGISTERED, REGISTRATION_TIMEOUT, "registration_timeout")
        } else {
            (LAUNCHED, LAUNCH_TIMEOUT, "launch_timeout")
        };
        let age = update.condition_age(condition, now);
        if age < timeout {
            return Ok(LifecycleStep::Continue(ReconcileAction::RequeueAfter(timeout.saturating_sub(age))));
        }
        match self.health.update(&self.ctx, update, RegistrationOutcome::Failed).await {
            Ok(()) => {}
            // If the NodePool cannot be updated, the claim stays, so that no failure goes
            // uncounted.
            Err(Interrupted::Requeue(next)) => return Ok(LifecycleStep::Continue(next)),
            Err(Interrupted::Failed(error)) => return Err(error),
        }
        debug!(timeout = ?timeout, reason, "terminating due to timeout");
        match actions::claim::delete(&self.ctx, &update.claim).await {
            Ok(()) => {
                self.ctx.metrics.claim_disrupted(&update.claim, reason, 0);
                Ok(LifecycleStep::Deleted)
            }
            Err(ApiError::NotFound) => Ok(LifecycleStep::Deleted),
            Err(cause) => Err(Error::Api { operation: "deleting nodeclaim", cause }),
        }
    }
}
