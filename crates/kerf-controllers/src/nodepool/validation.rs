//! `nodepool.validation`: sets a NodePool's condition `ValidationSucceeded` from checks beyond
//! those of admission (spec 04 §8.5), and conditions about fields without effect: budgets that
//! cannot be read, and `replicas` while the feature gate is off. These pools stay ready.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use kerf_api::conditions::{DISRUPTION_BUDGETS_VALID, STATIC_CAPACITY_ENABLED, VALIDATION_SUCCEEDED};
use kerf_api::nodepool::NodePool;
use kerf_api::requirement::RequirementWithMinValues;
use kerf_api::schedule::budget_errors;
use kerf_api::slim::Str;
use kerf_api::validation::{self, requirement::ignored_values};
use kerf_runtime::ReconcileAction;
use tracing::error;

use crate::context::Context;
use crate::error::{Error, Interrupted};
use crate::events;
use kerf_operator::Reconcile;
use kerf_operator::logs::json;

pub(crate) struct Validation {
    ctx: Context,
    /// The last logged values of each NodePool, by name, so that unchanged ones are not logged
    /// again.
    logged: Mutex<BTreeMap<Str, Vec<IgnoredValues>>>,
}

/// A requirement with some invalid values. They are ignored; the valid ones apply.
#[derive(Debug, PartialEq, Eq)]
struct IgnoredValues {
    key: String,
    valid: Vec<String>,
    invalid: Vec<String>,
}

impl Validation {
    pub(crate) fn new(ctx: Context) -> Self {
        Self { ctx, logged: Mutex::default() }
    }

    /// Logs the ignored values of a NodePool, if they differ from those logged last.
    fn log_ignored(&self, name: &Str, pool: Option<&NodePool>) {
        let requirements = pool.into_iter().flat_map(|pool| &pool.spec.template.spec.requirements);
        let ignored: Vec<IgnoredValues> =
            requirements.filter_map(|requirement| self.ignored_values(requirement)).collect();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.get(name).map(Vec::as_slice).unwrap_or_default() == ignored {
            return;
        }
        for IgnoredValues { key, valid, invalid } in &ignored {
            error!(
                key,
                "valid-values" = %json(valid),
                "invalid-values" = %json(invalid),
                error = "invalid values found for key",
                "please correct found invalid values, proceeding with valid values"
            );
        }
        logged.insert(name.clone(), ignored);
        logged.retain(|_, ignored| !ignored.is_empty());
    }

    /// Returns why `replicas` has no effect. `None` if it has one, or the pool has none.
    fn replicas_problem(&self, pool: &NodePool) -> Option<String> {
        let replicas = pool.spec.replicas.filter(|_| !self.ctx.settings.static_capacity)?;
        Some(format!(
            "spec.replicas is {replicas}, but the feature gate StaticCapacity is off: no node of the NodePool is launched or \
             disrupted; set FEATURE_GATES=StaticCapacity=true, or create a NodePool without spec.replicas"
        ))
    }

    fn ignored_values(&self, requirement: &RequirementWithMinValues) -> Option<IgnoredValues> {
        let invalid = ignored_values(requirement.into(), self.ctx.cloud.label_rules());
        let is_valid = |value: &&String| !invalid.contains(&value.as_str());
        let valid = requirement.values.iter().flatten().filter(is_valid).cloned().collect();
        let invalid: Vec<String> = invalid.into_iter().map(str::to_owned).collect();
        (!invalid.is_empty()).then(|| IgnoredValues { key: requirement.key.clone(), valid, invalid })
    }
}

/// Returns why the budgets of a pool cannot be read. `None` if all can be.
fn budget_problem(pool: &NodePool) -> Option<String> {
    let budgets = pool.spec.disruption.as_ref().and_then(|disruption| disruption.budgets.as_deref());
    let errors = budget_errors(budgets.unwrap_or_default());
    let texts: Vec<String> = errors.iter().map(|error| format!("spec.disruption.{error}")).collect();
    (!texts.is_empty()).then(|| {
        format!("no node of the NodePool is disrupted until its budgets can be read: {}", texts.join("; "))
    })
}

impl Reconcile for Validation {
    type Error = Error;

    async fn reconcile(&self, name: &Str) -> Result<ReconcileAction, Error> {
        let pool = self.ctx.managed_pool(name);
        self.log_ignored(name, pool.as_deref());
        let Some(pool) = pool else { return Ok(ReconcileAction::Done) };
        let failures = validation::nodepool::failures(&pool.spec, self.ctx.cloud.label_rules());
        let budget_problem = budget_problem(&pool);
        let replicas_problem = self.replicas_problem(&pool);
        if let Some(why) = &budget_problem {
            self.ctx.publish(events::invalid_disruption_budget(&pool, why));
        }
        if let Some(why) = &replicas_problem {
            self.ctx.publish(events::static_capacity_disabled(&pool, why));
        }
        let outcome = super::update_conditions(&self.ctx, &pool, |conditions, now| {
            if failures.is_empty() {
                conditions.set_true(VALIDATION_SUCCEEDED, now);
            } else {
                let message = validation::join(&failures);
                conditions.set_false(VALIDATION_SUCCEEDED, "NodePoolValidationFailed", &message, now);
            }
            let field_problems = [
                (DISRUPTION_BUDGETS_VALID, "InvalidDisruptionBudget", &budget_problem),
                (STATIC_CAPACITY_ENABLED, "FeatureGateDisabled", &replicas_problem),
            ];
            for (condition_type, reason, problem) in field_problems {
                if let Some(message) = problem {
                    conditions.set_false(condition_type, reason, message, now);
                } else if conditions.get(condition_type).is_some() {
                    conditions.clear(condition_type).expect("neither condition is a dependent one");
                }
            }
        });
        Interrupted::into_result(outcome.await)
    }
}
