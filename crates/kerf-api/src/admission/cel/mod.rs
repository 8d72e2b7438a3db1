//! The rules that a schema carries in CEL (`x-kubernetes-validations`). For now they are only carried along; evaluation follows.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSONSchemaProps, ValidationRule};
use serde_json::Value;

use super::error::FieldError;
use super::path::Path;
use super::schema::Schema;

/// How often a node can occur in one object, by the bounds of the lists and maps around it.
#[derive(Clone, Copy)]
pub(crate) struct Cardinality(#[allow(dead_code)] Option<u64>);

impl Cardinality {
    pub(crate) const ONE: Self = Self(Some(1));

    pub(crate) fn below(self, _schema: &JSONSchemaProps) -> Self {
        self
    }
}

/// The estimated cost of all rules of a definition.
#[derive(Default)]
pub(crate) struct CostTotal(Vec<FieldError>);

impl CostTotal {
    pub(crate) fn errors(&self, _at: &Path<'_>) -> Vec<FieldError> {
        self.0.clone()
    }
}

/// Where a rule stands.
#[allow(dead_code)]
pub(crate) struct RulePlace<'a> {
    pub(crate) at: &'a Path<'a>,
    pub(crate) schema: &'a Schema,
    pub(crate) is_resource: bool,
    pub(crate) cardinality: Cardinality,
    pub(crate) uncorrelatable: Option<&'a str>,
}

pub(crate) fn check_rule(
    _place: &RulePlace<'_>,
    _rule: &ValidationRule,
    _costs: &mut CostTotal,
    _errors: &mut Vec<FieldError>,
) {
}

pub(crate) fn check_default(_at: &Path<'_>, _schema: &Schema, _default: &Value) -> Vec<FieldError> {
    Vec::new()
}
