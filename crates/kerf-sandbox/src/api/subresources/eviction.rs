//! Eviction: deletes a pod if its PodDisruptionBudget (PDB) allows it. The PDB controller computes
//! the budget's status. Each eviction decrements `disruptionsAllowed` at once, so that a burst of
//! evictions cannot exceed the budget.

use serde_json::{Value, json};

use super::binding::set_condition;
use super::update_directly;
use crate::api::call::{Call, parse_stored};
use crate::api::delete::{self, DeleteOptions, delete_object};
use crate::api::object;
use crate::api::registry::Resource;
use crate::api::respond::Reply;
use crate::api::selector::{LabelSelector, Selection};
use crate::api::status::{ApiResult, Cause, StatusError};
use crate::api::storage::{ObjectKey, PageQuery};

/// The number of evicted pods that a budget records. Above it, evictions fail until the PDB
/// controller has removed pods that no longer exist.
const MAX_DISRUPTED_PODS: usize = 2000;
const BUDGET_VIOLATED_MESSAGE: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Handles `POST` of `pods/NAME/eviction`.
pub(super) fn evict(call: &Call<'_>) -> ApiResult<Reply> {
    let eviction = call.read_body()?.value;
    let (version, kind) = (object::text(&eviction, &["apiVersion"]), object::text(&eviction, &["kind"]));
    if !matches!(version, "" | "policy/v1" | "policy/v1beta1") || !matches!(kind, "" | "Eviction") {
        let short = version.rsplit('/').next().unwrap_or(version);
        let message = format!(
            "{kind} in version \"{short}\" cannot be handled as a Eviction: converting ({short}.{kind}) to (policy.Eviction): unknown conversion"
        );
        return Err(StatusError::bad_request(message));
    }
    let name = object::name(&eviction);
    if !name.is_empty() && name != call.name() {
        return Err(StatusError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options =
        eviction.get("deleteOptions").map_or_else(|| Ok(DeleteOptions::default()), delete::read_options)?;
    options.dry_run |= call.dry_run()?;
    let pod =
        parse_stored(&*call.server.storage.get(call.resource.table, &call.key()).ok_or_else(|| call.not_found())?)?;
    if !can_ignore_budget(&pod)
        && let Some(budget) = find_budget(call, &pod)?
    {
        check_and_decrement_budget(call, &budget, &pod, &options)?;
    }
    if !options.dry_run {
        set_disruption_target(call, &pod, &options)?;
    }
    delete_object(call, &call.key(), call.name(), &options)?;
    Ok(super::success())
}

/// Returns true if the pod has terminated, has not started or is being deleted. Its eviction
/// disrupts nothing.
fn can_ignore_budget(pod: &Value) -> bool {
    matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending") || object::is_deleting(pod)
}

/// Returns the budget that selects a pod, or `None`. More than one is an error, as in Kubernetes.
fn find_budget(call: &Call<'_>, pod: &Value) -> ApiResult<Option<Value>> {
    let Some(budgets) = call.registry.find("policy", "poddisruptionbudgets") else { return Ok(None) };
    let select_all = Selection::default();
    let query =
        PageQuery { namespace: call.namespace(), selection: &select_all, from: None, at_revision: None, limit: None };
    let page = call
        .server
        .storage
        .page(budgets.table, query)
        .map_err(|_| StatusError::internal("the present is never compacted"))?;
    let labels = object::selector_attributes(pod, std::iter::empty()).labels;
    let mut matching = Vec::new();
    for stored in page.objects {
        let budget = parse_stored(&stored)?;
        let selector = LabelSelector::from_object(object::at(&budget, &["spec", "selector"]));
        if selector.is_some_and(|selector| selector.matches(&labels)) {
            matching.push(budget);
        }
    }
    match matching.len() {
        0 | 1 => Ok(matching.pop()),
        _ => {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            Err(StatusError::server_error(message))
        }
    }
}

/// Decrements the budget, unless the budget allows the eviction of unready pods and the pod is
/// unready.
fn check_and_decrement_budget(call: &Call<'_>, budget: &Value, pod: &Value, options: &DeleteOptions) -> ApiResult<()> {
    let budgets =
        call.registry.find("policy", "poddisruptionbudgets").cloned().ok_or_else(StatusError::no_such_resource)?;
    if !is_ready(pod) && allows_unready_eviction(budget) {
        return Ok(());
    }
    let name = object::name(budget);
    if options.dry_run {
        return count_disruption(&mut budget.clone(), call);
    }
    decrement_stored_budget(call, &budgets, name)
}

fn decrement_stored_budget(call: &Call<'_>, budgets: &Resource, name: &str) -> ApiResult<()> {
    update_directly(call, budgets, &ObjectKey::new(call.namespace(), name), name, |budget| {
        count_disruption(budget, call)
    })
    .map(drop)
}

/// Returns true if unready pods may be evicted without the budget: always with `AlwaysAllow`,
/// otherwise only while enough other pods are healthy.
fn allows_unready_eviction(budget: &Value) -> bool {
    let number = |field: &str| object::number(budget, &["status", field]).unwrap_or_default();
    match object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) {
        "AlwaysAllow" => true,
        _ => number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0,
    }
}

fn is_ready(pod: &Value) -> bool {
    let ready = |condition: &&Value| object::text(condition, &["type"]) == "Ready";
    object::list(pod, &["status", "conditions"])
        .iter()
        .find(ready)
        .is_some_and(|condition| object::text(condition, &["status"]) == "True")
}

/// Decrements `disruptionsAllowed` and records the pod, or returns the error if no disruption is
/// allowed.
fn count_disruption(budget: &mut Value, call: &Call<'_>) -> ApiResult<()> {
    let number = |budget: &Value, path: &[&str]| object::number(budget, path).unwrap_or_default();
    let name = object::name(budget).to_string();
    let reject = |seconds: u32, message: String| {
        let cause = Cause { reason: "DisruptionBudget", message, field: String::new() };
        Err(StatusError::too_many_requests(BUDGET_VIOLATED_MESSAGE, seconds, vec![cause]))
    };
    if number(budget, &["status", "observedGeneration"]) < number(budget, &["metadata", "generation"]) {
        return reject(10, format!("The disruption budget {name} is still being processed by the server."));
    }
    let allowed = number(budget, &["status", "disruptionsAllowed"]);
    let budget_resource = crate::api::status::GroupResource { group: "policy", resource: "poddisruptionbudget" };
    if allowed < 0 {
        return Err(StatusError::forbidden(budget_resource, &name, "pdb disruptions allowed is negative", Vec::new()));
    }
    if object::at(budget, &["status", "disruptedPods"])
        .and_then(Value::as_object)
        .is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS)
    {
        let reason = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(StatusError::forbidden(budget_resource, &name, reason, Vec::new()));
    }
    if allowed == 0 {
        let (needs, has) =
            (number(budget, &["status", "desiredHealthy"]), number(budget, &["status", "currentHealthy"]));
        return reject(0, format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently"));
    }
    let now = object::rfc3339_seconds(call.now());
    let generation = number(budget, &["status", "observedGeneration"]);
    let status = object::ensure_object(budget, &["status"]);
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": generation, "lastTransitionTime": now,
            "reason": "InsufficientPods", "message": "",
        });
        set_condition(budget, condition);
    }
    object::ensure_object(budget, &["status", "disruptedPods"]).insert(call.name().into(), now.into());
    Ok(())
}

/// Sets the condition `DisruptionTarget`, which states why the pod is deleted.
fn set_disruption_target(call: &Call<'_>, pod: &Value, options: &DeleteOptions) -> ApiResult<()> {
    if options.uid.as_ref().is_some_and(|uid| uid != object::uid(pod)) {
        return Ok(());
    }
    let now = object::rfc3339_seconds(call.now());
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    update_directly(call, &call.resource, &call.key(), call.name(), |pod| {
        set_condition(pod, condition.clone());
        Ok(())
    })
    .map(drop)
}
