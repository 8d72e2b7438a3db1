//! `nodepool.validation`: says on a pool whether its words make sense beyond what admission checks (spec 04 §8.5).

use kerf_api::slim::Str;
use kerf_api::validation;
use kerf_runtime::Next;

use crate::context::Context;
use crate::controllers::Reconcile;
use crate::error::{Error, Stopped};

/// The condition that tells.
const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

/// The controller.
pub(crate) struct Validation {
    ctx: Context,
}

impl Validation {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx }
    }
}

impl Reconcile for Validation {
    async fn reconcile(&self, name: &Str) -> Result<Next, Error> {
        let Some(pool) = self.ctx.pool(name) else { return Ok(Next::Done) };
        let failures = validation::nodepool::failures(&pool.spec, self.ctx.cloud.label_rules());
        let outcome = super::tell(&self.ctx, &pool, |conditions, now| {
            if failures.is_empty() {
                conditions.set_true(VALIDATION_SUCCEEDED, now);
            } else {
                let message = validation::join(&failures);
                conditions.set_false(VALIDATION_SUCCEEDED, "NodePoolValidationFailed", &message, now);
            }
        });
        Stopped::settle(outcome.await)
    }
}
