//! Checks of NodePools (spec 01 §3.4): labels, taints, requirements, and values that admission
//! accepts but that cannot be parsed.

use std::collections::{BTreeMap, BTreeSet};

use super::{duration_failures, requirement};
use crate::admission::names;
use crate::admission::text::quote;
use crate::labels::{LabelRules, NODEPOOL};
use crate::nodepool::{NodeClaimTemplateSpec, NodePoolSpec};
use crate::quantity::Quantity;
use crate::taints::{Taint, TaintEffect};

/// Returns all failures of a pool. Schedules, weights and the meaning of limits are not checked: a
/// schedule that cannot be evaluated blocks disruption, and admission limits the others.
pub fn failures(spec: &NodePoolSpec, rules: &LabelRules) -> Vec<String> {
    let template = &spec.template;
    let mut failures = Vec::new();
    if let Some(labels) = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref()) {
        failures.extend(labels_failures(labels, rules));
    }
    failures.extend(taints_failures(&template.spec));
    for requirement in &template.spec.requirements {
        failures.extend(requirement::requirement_failure(requirement.into(), rules));
    }
    if template.spec.requirements.iter().any(|requirement| requirement.key == NODEPOOL) {
        failures.push(format!("invalid key: {} in requirements, restricted", quote(NODEPOOL)));
    }
    failures.extend(unparsable_value_failures(spec));
    failures
}

fn labels_failures(labels: &BTreeMap<String, String>, rules: &LabelRules) -> Vec<String> {
    let mut failures = Vec::new();
    for (key, value) in labels {
        let quoted = quote(key);
        if key == NODEPOOL {
            failures.push(format!("invalid key name {quoted} in labels, restricted"));
        }
        let details = names::qualified_name(key);
        failures.extend(details.iter().map(|why| format!("invalid key name {quoted} in labels, {}", quote(why))));
        let details = names::label_value(value);
        failures.extend(details.iter().map(|why| format!("invalid value: {value} for label[{key}], {why}")));
        if rules.is_restricted(key) {
            let why = requirement::restricted_label(key, rules);
            failures.push(format!("invalid key name {quoted} in labels, {why}"));
        }
    }
    failures
}

fn taints_failures(spec: &NodeClaimTemplateSpec) -> Vec<String> {
    let mut failures = Vec::new();
    let mut seen = BTreeSet::new();
    for (field, taints) in [("taints", &spec.taints), ("startupTaints", &spec.startup_taints)] {
        for taint in taints.iter().flatten() {
            failures.extend(taint_failures(taint, field));
            if !seen.insert((&taint.key, &taint.effect)) {
                failures.push(format!("duplicate taint Key/Effect pair {}={}", taint.key, taint.effect));
            }
        }
    }
    failures
}

fn taint_failures(taint: &Taint, field: &str) -> Vec<String> {
    let mut details = names::qualified_name(&taint.key);
    if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
        details.extend(names::qualified_name(value));
    }
    match &taint.effect {
        TaintEffect::NoSchedule | TaintEffect::PreferNoSchedule | TaintEffect::NoExecute => {}
        TaintEffect::Unsupported(text) if text.is_empty() => {}
        TaintEffect::Unsupported(text) => details.push(quote(text)),
    }
    details.iter().map(|why| format!("invalid value: {why} in {field}")).collect()
}

/// Returns failures for durations and quantities that match their pattern but cannot be parsed,
/// such as `9999999999h`. Karpenter cannot decode such an object at all; Kerf decodes it and names
/// the field.
fn unparsable_value_failures(spec: &NodePoolSpec) -> Vec<String> {
    let disruption = spec.disruption.as_ref();
    let durations = [
        ("expireAfter", spec.template.spec.expire_after.as_ref()),
        ("terminationGracePeriod", spec.template.spec.termination_grace_period.as_ref()),
        ("consolidateAfter", disruption.and_then(|disruption| disruption.consolidate_after.as_ref())),
    ];
    let budgets = disruption.and_then(|disruption| disruption.budgets.as_ref()).into_iter().flatten();
    let durations = durations.into_iter().chain(budgets.map(|budget| ("budgets", budget.duration.as_ref())));
    let mut failures = duration_failures(durations);
    for (name, quantity) in spec.limits.iter().flatten() {
        if let Err(error) = quantity.text().parse::<Quantity>() {
            failures.push(format!("invalid value: {error} in limits[{name}]"));
        }
    }
    failures
}
