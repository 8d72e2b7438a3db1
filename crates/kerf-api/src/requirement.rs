//! Requirements as NodePools, NodeClaims and NodeOverlays write them (spec 01 §2.3).
//!
//! The schema of a requirement depends on where it stands: which label keys are off limits, which operators need values, and
//! whether there is a `minValues`. What a requirement means is the engine's business; whether its words make sense is
//! checked in `validation`.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::open_enum::open_enum;
use crate::schema::{CelRule, LABEL_VALUE, LabelKeys, QUALIFIED_KEY, rule};

open_enum! {
    /// How the values of a requirement are meant. `Gte` and `Lte` are Karpenter's, the others Kubernetes' own.
    #[derive(Default)]
    pub enum Operator {
        /// An integer not below the value.
        Gte = "Gte",
        /// An integer not above the value.
        Lte = "Lte",
        /// One of the values.
        #[default]
        In = "In",
        /// None of the values, or no such label.
        NotIn = "NotIn",
        /// Any value.
        Exists = "Exists",
        /// No such label.
        DoesNotExist = "DoesNotExist",
        /// An integer above the value.
        Gt = "Gt",
        /// An integer below the value.
        Lt = "Lt",
    }
}

/// A requirement on a label, with the flexibility that it must keep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequirementWithMinValues {
    /// Label key that the requirement is about.
    #[schemars(extend("maxLength" = 316, "pattern" = QUALIFIED_KEY))]
    pub key: String,
    /// Smallest number of different values that must stay possible for the key when a node is launched. Keeps a claim
    /// flexible, for example over instance types, at the price of failing when fewer remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::Integer>", extend("minimum" = 1, "maximum" = 50))]
    pub min_values: Option<i64>,
    /// How the label relates to the values: `In`, `NotIn`, `Exists`, `DoesNotExist`, or one of the integer comparisons
    /// `Gt`, `Lt`, `Gte` and `Lte`.
    pub operator: Operator,
    /// Values that the operator works on: at least one for `In`, exactly one integer for `Gt`, `Lt`, `Gte` and `Lte`, none for
    /// `Exists` and `DoesNotExist`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = values)]
    pub values: Option<Vec<String>>,
}

/// A requirement on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSelectorRequirement {
    /// Label key that the requirement is about.
    #[schemars(extend("maxLength" = 316, "pattern" = QUALIFIED_KEY))]
    pub key: String,
    /// How the label relates to the values: `In`, `NotIn`, `Exists`, `DoesNotExist`, or one of the integer comparisons
    /// `Gt`, `Lt`, `Gte` and `Lte`.
    pub operator: Operator,
    /// Values that the operator works on: at least one for `In` and `NotIn`, exactly one integer for `Gt`, `Lt`, `Gte` and
    /// `Lte`, none for `Exists` and `DoesNotExist`.
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
/// The text differs by a comma from that of NodePools; both are what users search for.
const OVERLAY_BOUND_IS_AN_INTEGER: CelRule =
    rule(BOUND, "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value");
const MIN_VALUES_ARE_LISTED: CelRule = rule(
    "self.all(x, x.operator != 'In' || !has(x.minValues) || x.values.size() >= x.minValues)",
    "requirements with 'minValues' must have at least that many values specified in the 'values' field",
);

/// Schema of the requirements of a NodePool's template.
pub(crate) fn of_nodepool(schema: &mut Schema) {
    set_list_schema(schema, &[IN_HAS_VALUES, BOUND_IS_AN_INTEGER, MIN_VALUES_ARE_LISTED], LabelKeys::NodePool);
}

/// Schema of the requirements of a NodeClaim.
pub(crate) fn of_nodeclaim(schema: &mut Schema) {
    set_list_schema(schema, &[IN_HAS_VALUES, BOUND_IS_AN_INTEGER, MIN_VALUES_ARE_LISTED], LabelKeys::NodeClaim);
}

/// Schema of the requirements of a NodeOverlay.
pub(crate) fn of_overlay(schema: &mut Schema) {
    set_list_schema(schema, &[NOT_IN_HAS_VALUES, IN_HAS_VALUES, OVERLAY_BOUND_IS_AN_INTEGER], LabelKeys::NodeOverlay);
}

/// Schema of requirements that a controller writes into a status: nothing is checked.
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

/// Length and pattern are meant for each value but stand on the list, where they do nothing. Karpenter's schema has them
/// there; on the items they would refuse objects that exist.
fn values(schema: &mut Schema) {
    schema.insert("maxLength".into(), json!(63));
    schema.insert("pattern".into(), json!(LABEL_VALUE));
    schema.insert("x-kubernetes-list-type".into(), json!("atomic"));
}
