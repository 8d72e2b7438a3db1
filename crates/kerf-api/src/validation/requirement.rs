//! Checks of one requirement of a NodePool, a NodeOverlay, or a pod's node selector or affinity
//! (spec 01 §3.4 item 3, spec 02 §2.2.1).

use std::collections::BTreeSet;

use super::go_list;
use crate::admission::names;
use crate::labels::LabelRules;
use crate::requirement::{NodeSelectorRequirement, Operator, RequirementWithMinValues};

/// Failure of a pod's node selector term that selects nodes by fields.
pub const MATCH_FIELDS_NOT_SUPPORTED: &str = "node selector term with matchFields is not supported";

/// Borrowed requirement, independent of the type that holds it.
#[derive(Debug)]
pub struct RequirementRef<'a, Text> {
    /// Label key, unchanged from the object.
    pub key: &'a str,
    /// Relation between the label and the values.
    pub operator: &'a Operator,
    /// Values of the operator.
    pub values: &'a [Text],
    /// Number of values that must remain possible; `None` if not set.
    pub min_values: Option<i64>,
}

// Derived impls would require that `Text` is `Copy`; only references are copied.
impl<Text> Clone for RequirementRef<'_, Text> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Text> Copy for RequirementRef<'_, Text> {}

impl<'a> From<&'a RequirementWithMinValues> for RequirementRef<'a, String> {
    fn from(requirement: &'a RequirementWithMinValues) -> Self {
        Self {
            key: &requirement.key,
            operator: &requirement.operator,
            values: requirement.values.as_deref().unwrap_or_default(),
            min_values: requirement.min_values,
        }
    }
}

impl<'a> From<&'a NodeSelectorRequirement> for RequirementRef<'a, String> {
    fn from(requirement: &'a NodeSelectorRequirement) -> Self {
        Self {
            key: &requirement.key,
            operator: &requirement.operator,
            values: requirement.values.as_deref().unwrap_or_default(),
            min_values: None,
        }
    }
}

/// Returns all failures of a requirement. A deprecated key counts as its current equivalent.
pub fn failures<Text: AsRef<str>>(requirement: RequirementRef<'_, Text>, rules: &LabelRules) -> Vec<String> {
    let requirement = RequirementRef { key: rules.normalise(requirement.key), ..requirement };
    let RequirementRef { key, operator, values, .. } = requirement;
    let mut failures = Vec::new();
    if let Operator::Unsupported(text) = operator {
        let mut supported = Operator::SUPPORTED.to_vec();
        supported.sort_unstable();
        failures.push(format!("key {key} has an unsupported operator {text} not in {}", go_list(supported)));
    }
    if rules.is_restricted(key) {
        failures.push(restricted_label(key, rules));
    }
    failures.extend(known_value_failure(requirement, rules));
    failures.extend(names::qualified_name(key).iter().map(|why| format!("key {key} is not a qualified name, {why}")));
    for value in values.iter().map(AsRef::as_ref) {
        failures
            .extend(names::label_value(value).iter().map(|why| format!("invalid value {value} for key {key}, {why}")));
    }
    failures.extend(operator_failures(requirement));
    failures
}

/// Returns the failures of one requirement as a NodePool or NodeOverlay reports them. Returns
/// `None` if the requirement is valid.
pub(super) fn requirement_failure(requirement: RequirementRef<'_, String>, rules: &LabelRules) -> Option<String> {
    let failures = failures(requirement, rules);
    (!failures.is_empty()).then(|| format!("invalid value: {} in requirements, restricted", super::join(&failures)))
}

/// Returns values that are not among the known values of the key, if other values are. The
/// requirement is valid nevertheless; the caller should log the values.
pub fn ignored_values<'a, Text: AsRef<str>>(requirement: RequirementRef<'a, Text>, rules: &LabelRules) -> Vec<&'a str> {
    match partition_known_values(requirement, rules) {
        Some((known, unknown)) if !known.is_empty() => unknown.into_iter().collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Returns the message that a label may not be set or required.
pub(super) fn restricted_label(key: &str, rules: &LabelRules) -> String {
    format!(
        "using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well known \
         label: {}, or a custom label that does not use a restricted domain: {}",
        go_list(rules.well_known()),
        go_list(rules.restricted_domains()),
    )
}

/// Splits the distinct values of an `In` requirement into known and unknown values of the key.
/// Returns `None` for other operators, and for keys without a closed set of values.
fn partition_known_values<'a, Text: AsRef<str>>(
    requirement: RequirementRef<'a, Text>,
    rules: &LabelRules,
) -> Option<(BTreeSet<&'a str>, BTreeSet<&'a str>)> {
    let known =
        rules.known_values(rules.normalise(requirement.key)).filter(|_| *requirement.operator == Operator::In)?;
    Some(requirement.values.iter().map(AsRef::as_ref).partition(|value| known.contains(value)))
}

fn known_value_failure<Text: AsRef<str>>(requirement: RequirementRef<'_, Text>, rules: &LabelRules) -> Option<String> {
    let (known, unknown) = partition_known_values(requirement, rules)?;
    let key = requirement.key;
    let values = go_list(requirement.values.iter().map(AsRef::as_ref));
    let expected = go_list(rules.known_values(key)?.iter().copied());
    if known.is_empty() {
        let unknown = go_list(unknown);
        return Some(format!(
            "no valid values found in {values} for {key}, expected one of: {expected}, got: {unknown}"
        ));
    }
    let min_values = requirement.min_values.filter(|min_values| (known.len() as i64) < *min_values)?;
    Some(format!(
        "not enough valid values found in {values} for {key}, expected at least {min_values} valid values from: {expected}, got: {}",
        known.len()
    ))
}

fn operator_failures<Text: AsRef<str>>(requirement: RequirementRef<'_, Text>) -> Vec<String> {
    let RequirementRef { key, operator, values, min_values } = requirement;
    match operator {
        Operator::In => {
            let mut failures = Vec::new();
            if values.is_empty() {
                failures.push(format!("key {key} with operator In must have a value defined"));
            }
            if min_values.is_some_and(|min_values| (values.len() as i64) < min_values) {
                failures.push(format!(
                    "key {key} with operator In must have at least minimum number of values defined in 'values' field"
                ));
            }
            failures
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => match values {
            [value] if value.as_ref().parse::<i64>().is_ok_and(|bound| bound >= 0) => Vec::new(),
            _ => vec![format!("key {key} with operator {operator} must have a single positive integer value")],
        },
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist | Operator::Unsupported(_) => Vec::new(),
    }
}
