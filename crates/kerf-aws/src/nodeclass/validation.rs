//! Validation of a node class (spec 06 §4.7). The checks run in the order of the spec; the first
//! one that fails ends the run.

mod dry_run;
mod kubelet;
mod type_choice;

use std::time::Duration;

use kerf_api::conditions::{ConditionStatus, VALIDATION_SUCCEEDED};
use kerf_api::ec2nodeclass::AmiFamily;
use kerf_runtime::{Clock, ReconcileAction};
use serde_json::json;

use self::dry_run::DryRunStop;
pub(super) use self::type_choice::{choose_target, pool_requirements, pools_of_class};
use super::error::NodeClassError;
use super::reconcile::{AMIS_READY, ClassReconcile, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY};
use crate::cache_metrics::CacheMetrics;
use crate::context::AwsContext;
use crate::instance_profiles::fnv1;
use crate::instance_types::InstanceTypeCatalogue;
use crate::restricted_tags::check_restricted_tags;
use crate::ttl_cache::TtlCache;

/// Time until a class is validated again.
const REVALIDATE_AFTER: Duration = Duration::from_mins(10);
/// Time for which an outcome is used again.
const OUTCOME_TTL: Duration = Duration::from_mins(30);
/// Number of outcomes that are kept.
const OUTCOMES_MAX: usize = 10_000;

/// Conditions without which a class cannot be validated.
const REQUIRED: [&str; 4] = [AMIS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY];

/// Validates classes, and remembers the outcomes of AWS calls.
#[derive(Debug)]
pub(super) struct Validation {
    outcomes: TtlCache<String, ValidationOutcome>,
}

/// The outcome of the AWS calls of a validation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ValidationOutcome {
    Passed,
    /// A call was rejected, for this reason and with this message.
    Failed {
        reason: &'static str,
        message: String,
    },
}

impl Validation {
    pub(super) fn new(clock: Clock) -> Self {
        Self { outcomes: TtlCache::new(clock, OUTCOME_TTL, OUTCOMES_MAX) }
    }

    /// Publishes the number of outcomes from now on.
    pub(super) fn measure(&self, metrics: &CacheMetrics) {
        self.outcomes.measure(metrics.of("validation_outcomes"));
    }

    #[cfg(test)]
    pub(super) fn outcome_count(&self) -> usize {
        self.outcomes.entries().len()
    }

    /// Removes the outcomes of a class.
    pub(super) fn forget(&self, class_name: &str) {
        let prefix = format!("{class_name}:");
        self.outcomes.remove_where(|key, _| key.starts_with(&prefix));
    }

    /// Sets the condition `ValidationSucceeded`.
    pub(super) async fn validate(
        &self,
        context: &AwsContext,
        work: &mut ClassReconcile,
    ) -> Result<ReconcileAction, NodeClassError> {
        if let Some(action) = resolve_cluster_cidr(context, work).await? {
            return Ok(action);
        }
        if let Some(action) = kubelet::validate(work, &context.instance_types)? {
            return Ok(action);
        }
        if let Some(action) = check_dependencies(work) {
            return Ok(action);
        }
        if let Some(action) = kubelet::check_expressions(work, &context.instance_types)? {
            return Ok(action);
        }
        check_tags(work)?;
        let key = outcome_key(work);
        let outcome = match self.outcomes.get(&key) {
            Some(outcome) => outcome,
            None => match self.check(context, work).await {
                Ok(outcome) => {
                    self.outcomes.insert(key, outcome.clone());
                    outcome
                }
                Err(DryRunStop::Rejected(outcome)) => {
                    self.outcomes.insert(key, outcome.clone());
                    outcome
                }
                Err(DryRunStop::Retry) => return Ok(ReconcileAction::RequeueWithBackoff),
                Err(DryRunStop::InstanceProfileNotFound) => {
                    let name = work.spec().instance_profile.unwrap_or_default();
                    let message = format!("Instance profile {name:?} not found");
                    work.set_false(VALIDATION_SUCCEEDED, "InstanceProfileNotFound", &message);
                    return Ok(ReconcileAction::RequeueWithBackoff);
                }
                Err(DryRunStop::Failed(error)) => {
                    // Launches from a class that was valid go on.
                    if let Some((reason, message)) = error.user_error()
                        && !work.is_true_for_present_spec(VALIDATION_SUCCEEDED)
                    {
                        work.conditions.set_unknown(VALIDATION_SUCCEEDED, reason, &message, work.now);
                    }
                    return Err(error.into());
                }
            },
        };
        match outcome {
            ValidationOutcome::Passed => work.set_true(VALIDATION_SUCCEEDED),
            ValidationOutcome::Failed { reason, message } => work.set_false(VALIDATION_SUCCEEDED, reason, &message),
        }
        Ok(ReconcileAction::RequeueAfter(REVALIDATE_AFTER))
    }
}

impl Validation {
    /// Checks with AWS calls that launches from the class are allowed.
    async fn check(&self, context: &AwsContext, work: &ClassReconcile) -> Result<ValidationOutcome, DryRunStop> {
        if !context.settings.disable_dry_run {
            dry_run::check(context, &work.class).await?;
        }
        Ok(ValidationOutcome::Passed)
    }
}

/// Makes the checks that need neither AWS nor the other conditions, in their order. The first that
/// fails sets the condition `ValidationSucceeded`.
pub(super) fn check_spec(work: &mut ClassReconcile, types: &InstanceTypeCatalogue) {
    let is_checked = |result: Result<Option<ReconcileAction>, NodeClassError>| matches!(result, Ok(None));
    if is_checked(kubelet::validate(work, types)) && is_checked(kubelet::check_expressions(work, types)) {
        // The error has the text of the condition.
        drop(check_tags(work));
    }
}

fn check_tags(work: &mut ClassReconcile) -> Result<(), NodeClassError> {
    check_restricted_tags(&work.spec()).map_err(|error| {
        work.set_false(VALIDATION_SUCCEEDED, "TagValidationFailed", &error.to_string());
        error.into()
    })
}

/// Finds the range of Service addresses, which nodes of AL2023 need. Returns when to run again if
/// AWS failed.
async fn resolve_cluster_cidr(
    context: &AwsContext,
    work: &mut ClassReconcile,
) -> Result<Option<ReconcileAction>, NodeClassError> {
    if work.spec().effective_ami_family() != AmiFamily::Al2023 {
        return Ok(None);
    }
    match context.discovery.resolve_service_cidr().await {
        Ok(()) => Ok(None),
        Err(error) if error.is_server_fault() => Ok(Some(ReconcileAction::RequeueWithBackoff)),
        Err(error) => {
            let message = "Failed to detect the cluster CIDR";
            work.set_false(VALIDATION_SUCCEEDED, "ClusterCIDRResolutionFailed", message);
            Err(NodeClassError::ClusterCidr(error))
        }
    }
}

/// Returns when to run again if a condition is not True that validation needs.
fn check_dependencies(work: &mut ClassReconcile) -> Option<ReconcileAction> {
    let message = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution";
    let has = |status: ConditionStatus| REQUIRED.iter().any(|name| work.conditions.status(name) == status);
    if has(ConditionStatus::False) {
        work.set_false(VALIDATION_SUCCEEDED, "DependenciesNotReady", message);
    } else if REQUIRED.iter().any(|name| !work.conditions.is_true(name)) {
        work.conditions.set_unknown(VALIDATION_SUCCEEDED, "DependenciesNotReady", message, work.now);
    } else {
        return None;
    }
    Some(ReconcileAction::RequeueAfter(REVALIDATE_AFTER))
}

/// Returns a key that changes with everything that the AWS calls depend on. A change of any
/// annotation changes it too, so that users can force a validation.
fn outcome_key(work: &ClassReconcile) -> String {
    let status = work.class.status.clone().unwrap_or_default();
    let text = json!({
        "subnets": status.subnets,
        "securityGroups": status.security_groups,
        "amis": status.amis,
        "instanceProfile": status.instance_profile,
        "spec": work.class.spec,
        "annotations": work.class.metadata.annotations,
    });
    format!("{}:{:016x}", work.name(), fnv1(&text.to_string()))
}
