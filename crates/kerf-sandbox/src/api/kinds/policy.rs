//! PodDisruptionBudgets, PriorityClasses, RuntimeClasses, ResourceQuotas and LimitRanges.

use serde_json::{Value, json};

use super::defaults::DefaultValue::Text;
use super::defaults::set_defaults_if_object;
use super::{KindStrategy, NO_OP_STRATEGY};
use crate::api::field::{self, FieldError};
use crate::api::object;

pub(super) const DISRUPTION_BUDGET: KindStrategy = KindStrategy {
    prepare_for_create: |budget, _| {
        let status = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        object::ensure_object(budget, &[]).insert("status".into(), status);
    },
    validate: validate_budget,
    ..NO_OP_STRATEGY
};

pub(super) const PRIORITY_CLASS: KindStrategy = KindStrategy {
    default: |class| set_defaults_if_object(class, &[("preemptionPolicy", Text("PreemptLowerPriority"))]),
    validate: |class, old, errors| {
        let value = |class: &Value| object::number(class, &["value"]).unwrap_or_default();
        if let Some(old) = old {
            if value(old) != value(class) {
                errors.push(field::forbidden("value", "may not be changed in an update."));
            }
            if old.get("preemptionPolicy") != class.get("preemptionPolicy") {
                let policy = class.get("preemptionPolicy").cloned().unwrap_or_default();
                errors.push(field::invalid("preemptionPolicy", policy, "field is immutable"));
            }
        } else if object::name(class).starts_with("system-") {
            let name = object::name(class);
            if !["system-node-critical", "system-cluster-critical"].contains(&name) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
                );
                errors.push(field::forbidden("metadata.name", detail));
            }
        } else if value(class) > 1_000_000_000 {
            let detail = "maximum allowed value of a user defined priority is 1000000000";
            errors.push(field::forbidden("value", detail));
        }
    },
    ..NO_OP_STRATEGY
};

pub(super) const RUNTIME_CLASS: KindStrategy = KindStrategy {
    validate: |class, old, errors| {
        if object::text(class, &["handler"]).is_empty() {
            errors.push(field::required("handler", ""));
        }
        if old.is_some_and(|old| old.get("handler") != class.get("handler")) {
            errors.push(super::small_kinds::immutable_field_error("handler", class.get("handler")));
        }
    },
    ..NO_OP_STRATEGY
};

pub(super) const QUOTA: KindStrategy = KindStrategy {
    prepare_for_create: |quota, _| drop(object::ensure_object(quota, &[]).insert("status".into(), json!({}))),
    ..NO_OP_STRATEGY
};

pub(super) const LIMIT_RANGE: KindStrategy = KindStrategy {
    default: |range| {
        for item in object::list_mut(range, &["spec", "limits"]) {
            default_limits(item);
        }
    },
    ..NO_OP_STRATEGY
};

/// Sets the missing bounds of a container item: the default limit from the maximum, the default
/// request from the default limit, or else from the minimum.
fn default_limits(item: &mut Value) {
    if object::text(item, &["type"]) != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let source = object::at(item, &[from]).and_then(Value::as_object).cloned().unwrap_or_default();
        if source.is_empty() {
            continue;
        }
        let target = object::ensure_object(item, &[to]);
        for (resource, amount) in source {
            target.entry(resource).or_insert(amount);
        }
    }
}

fn validate_budget(budget: &Value, _: Option<&Value>, errors: &mut Vec<FieldError>) {
    let both = ["minAvailable", "maxUnavailable"].iter().all(|field| object::at(budget, &["spec", field]).is_some());
    if both {
        let spec = budget.get("spec").cloned().unwrap_or_default();
        errors.push(field::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{field}");
        match object::at(budget, &["spec", field]) {
            Some(Value::Number(number)) if number.as_i64().is_some_and(|number| number < 0) => {
                errors.push(field::invalid(path, number.clone(), "must be greater than or equal to 0"));
            }
            Some(Value::String(text)) => {
                let percent = text
                    .strip_suffix('%')
                    .filter(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()));
                match percent.map(str::parse::<u32>) {
                    Some(Ok(percent)) if percent <= 100 => {}
                    Some(_) => errors.push(field::invalid(path, text.as_str(), "must not be greater than 100%")),
                    None => {
                        let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                                      regex used for validation is '[0-9]+%')";
                        errors.push(field::invalid(path, text.as_str(), detail));
                    }
                }
            }
            _ => {}
        }
    }
}
