//! Limits on the estimated cost of the rules of a definition: of each rule on all its values, and
//! of all rules together.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::super::super::error::FieldError;
use super::super::super::path::Path;
use super::super::super::schema::Schema;
use super::declared::{MAX_REQUEST_BYTES, min_bytes};

const ESTIMATED_RULE_COST_MAX: u64 = 10_000_000;
const ESTIMATED_DEFINITION_COST_MAX: u64 = 100_000_000;

/// Maximum number of occurrences of a node in one object, by the bounds of the lists and maps
/// around it; `None` if one of them has no bound.
#[derive(Clone, Copy)]
pub(crate) struct Cardinality(Option<u64>);

impl Cardinality {
    pub(crate) const ONE: Self = Self(Some(1));

    /// Returns the cardinality of the children of a node.
    pub(crate) fn below(self, schema: &JSONSchemaProps) -> Self {
        let bound = |bound: Option<i64>| bound.map(|bound| u64::try_from(bound).unwrap_or(0));
        let elements = match schema.type_.as_deref() {
            Some("object") if schema.additional_properties.is_some() => bound(schema.max_properties),
            Some("array") => bound(schema.max_items),
            _ => Some(1),
        };
        Self(self.0.zip(elements).map(|(outer, inner)| outer.saturating_mul(inner)))
    }

    /// Returns the cost of a rule on all values of a schema together.
    pub(in super::super) fn total(self, cost: u64, schema: &Schema, is_resource: bool) -> u64 {
        let occurrences = self.0.unwrap_or_else(|| MAX_REQUEST_BYTES / (min_bytes(schema, is_resource) + 1));
        cost.saturating_mul(occurrences)
    }
}

/// The estimated cost of all rules of a definition.
#[derive(Default)]
pub(crate) struct CostTotal {
    total: u64,
    most_expensive: Vec<(String, u64)>,
}

impl CostTotal {
    /// Adds the cost of a rule, and reports an error if the rule alone is too expensive.
    pub(in super::super) fn add_rule_cost(
        &mut self,
        at: &Path<'_>,
        what: &str,
        cost: u64,
        errors: &mut Vec<FieldError>,
    ) {
        if cost > ESTIMATED_RULE_COST_MAX {
            errors.push(FieldError::forbidden(at, exceeds(what, cost, ESTIMATED_RULE_COST_MAX)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= ESTIMATED_DEFINITION_COST_MAX / 100 {
            self.most_expensive.push((at.to_string(), cost));
            self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(4);
        }
    }

    /// Returns errors if all rules together are too expensive.
    pub(crate) fn errors(&self, at: &Path<'_>) -> Vec<FieldError> {
        if self.total <= ESTIMATED_DEFINITION_COST_MAX {
            return Vec::new();
        }
        let contributed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors: Vec<FieldError> = self
            .most_expensive
            .iter()
            .map(|(path, _)| FieldError::forbidden(&Path::ROOT.child(path), contributed))
            .collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(at, exceeds(what, self.total, ESTIMATED_DEFINITION_COST_MAX)));
        errors
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where \
         arrays, maps, and strings are declared)"
    )
}
