//! Requirements in NodePools, NodeClaims and NodeOverlays (spec 01 §2.3).
//!
//! The schema of a requirement depends on its object: which label keys are restricted, which
//! operators need values, and if `minValues` exists. The engine evaluates requirements;
//! `validation` checks that they make sense.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::open_enum::open_enum;
use crate::schema::{CelRule, LABEL_VALUE, LabelKeys, QUALIFIED_KEY, rule};

open_enum! {
    /// Operator of a requirement. `Gte` and `Lte` are Karpenter's; the others are from Kubernetes.
    #[derive(Default)]
    pub enum Operator {
        /// An integer greater than or equal to the value.
        Gte = "Gte",
        /// An integer less than or equal to the value.
        Lte = "Lte",
        /// One of the values.
        #[default]
        In = "In",
        /// None of the values, or the label is absent.
        NotIn = "NotIn",
        /// Any value.
        Exists = "Exists",
        /// The label is absent.
        DoesNotExist = "DoesNotExist",
        /// An integer greater than the value.
        Gt = "Gt",
        /// An integer less than the value.
        Lt = "Lt",
    }
}

/// Requirement on a label, with the flexibility that it must keep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequirementWithMinValues {
    /// Label key of the requirement.
    #[schemars(extend("maxLength" = 316, "pattern" = QUALIFIED_KEY))]
    pub key: String,
    /// Smallest number of different values of the key that must remain possible when a node is
    /// launched. It keeps a NodeClaim flexible, for example in its instance types; the launch fails
    /// if fewer values remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::Integer>", extend("minimum" = 1, "maximum" = 50))]
    pub min_values: Option<i64>,
    /// Relation between the label and the values: `In`, `NotIn`, `Exists`, `DoesNotExist`, or one
    /// of the integer comparisons `Gt`, `Lt`, `Gte` and `Lte`.
    pub operator: Operator,
    /// Values of the operator: at least one for `In`, exactly one integer for `Gt`, `Lt`, `Gte` and
    /// `Lte`, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = values)]
    pub values: Option<Vec<String>>,
}

/// Requirement on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// Label key of the requirement.
    #[schemars(extend("maxLength" = 316, "pattern" = QUALIFIED_KEY))]
    pub key: String,
    /// Relation between the label and the values: `In`, `NotIn`, `Exists`, `DoesNotExist`, or one
    /// of the integer comparisons `Gt`, `Lt`, `Gte` and `Lte`.
    pub operator: Operator,
    /// Values of the operator: at least one for `In` and `NotIn`, exactly one integer for `Gt`,
    /// `Lt`, `Gte` and `Lte`, none for `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = values)]
    pub values: Option<Vec<String>>,
}

const IN_HAS_VALUES: CelRule = rule(
    "self.all(x, x.operator != 'In' || x.values.size() > 0)",
    "requirements with operator 'In' must have a value defined",
);
const NOT_IN_HAS_VALUES: CelRule = rule(
    "self.all(x, x.operator != 'NotIn' || x.values.size() > 0)",
    "requirements with operator 'NotIn' must have a value defined",
);
const BOUND: &str =
    "self.all(x, !(x.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (x.values.size() == 1 && int(x.values[0]) >= 0))";
const BOUND_IS_AN_INTEGER: CelRule =
    rule(BOUND, "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value");
/// The message differs by a comma from that of NodePools. Both are Karpenter's, and users search
/// for them.
const OVERLAY_BOUND_IS_AN_INTEGER: CelRule =
    rule(BOUND, "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value");
const MIN_VALUES_ARE_LISTED: CelRule = rule(
    "self.all(x, x.operator != 'In' || !has(x.minValues) || x.values.size() >= x.minValues)",
    "requirements with 'minValues' must have at least that many values specified in the 'values' field",
);

/// Sets the schema of the requirements of a NodePool's template.
pub(crate) fn of_nodepool(schema: &mut Schema) {
    set_list_schema(schema, &[IN_HAS_VALUES, BOUND_IS_AN_INTEGER, MIN_VALUES_ARE_LISTED], LabelKeys::NodePool);
}

/// Sets the schema of the requirements of a NodeClaim.
pub(crate) fn of_nodeclaim(schema: &mut Schema) {
    set_list_schema(schema, &[IN_HAS_VALUES, BOUND_IS_AN_INTEGER, MIN_VALUES_ARE_LISTED], LabelKeys::NodeClaim);
}

/// Sets the schema of the requirements of a NodeOverlay.
pub(crate) fn of_overlay(schema: &mut Schema) {
    set_list_schema(schema, &[NOT_IN_HAS_VALUES, IN_HAS_VALUES, OVERLAY_BOUND_IS_AN_INTEGER], LabelKeys::NodeOverlay);
}

/// Sets the schema of requirements that a controller writes to a status, which are not validated.
pub(crate) fn of_status(schema: &mut Schema) {
    for (property, keywords) in
        [("key", &["maxLength", "pattern"][..]), ("operator", &["enum"]), ("values", &["maxLength", "pattern"])]
    {
        if let Some(property) =
            schema.pointer_mut(&format!("/items/properties/{property}")).and_then(Value::as_object_mut)
        {
            for keyword in keywords {
                property.remove(*keyword);
            }
        }
    }
}

fn set_list_schema(schema: &mut Schema, rules: &[CelRule], keys: LabelKeys) {
    schema.insert("maxItems".into(), json!(100));
    schema.insert("x-kubernetes-list-type".into(), json!("atomic"));
    schema.insert("x-kubernetes-validations".into(), json!(rules));
    if let Some(key) = schema.pointer_mut("/items/properties/key").and_then(Value::as_object_mut) {
        key.insert(LabelKeys::MARKER.into(), json!(keys));
    }
}

/// Adds the length and pattern of values to the list instead of its items, where they have no
/// effect. Karpenter's schema does the same; on the items they would reject existing objects.
fn values(schema: &mut Schema) {
    schema.insert("maxLength".into(), json!(63));
    schema.insert("pattern".into(), json!(LABEL_VALUE));
    schema.insert("x-kubernetes-list-type".into(), json!("atomic"));
}
