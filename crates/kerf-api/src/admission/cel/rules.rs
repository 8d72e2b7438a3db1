//! Runs rules on the values of an object and creates the errors of failed rules. The tree of rules
//! follows the schema. A transition rule runs only on values for which there is a stored value.
//! Failures on unchanged values become warnings.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::super::correlate::{CorrelatedValue, old_element};
use super::super::error::{FieldError, FieldErrorKind};
use super::super::path::Path;
use super::super::schema::{Schema, SchemaType};
use super::cost::{OBJECT_COST_MAX, RULE_COST_MAX};
use super::eval::evaluate;
use super::rule::{CompiledRule, compile};
use super::types::Type;
use super::value::{EvalFailure, Value};

/// Maximum size of a message from a messageExpression; a longer message is ignored.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The compiled rules of a schema node and of all nodes inside it.
#[derive(Debug, Default)]
pub(crate) struct CompiledRules {
    own_rules: Vec<CompiledRule>,
    is_resource: bool,
    properties: BTreeMap<String, CompiledRules>,
    items: Option<Box<CompiledRules>>,
    values: Option<Box<CompiledRules>>,
}

impl CompiledRules {
    /// Compiles the rules of a valid schema. Returns `None` if there are none.
    pub(crate) fn build(schema: &Schema, is_resource: bool) -> Option<Self> {
        // If rules cannot read the values of this schema, no rule can run on them.
        Type::from_schema(schema, is_resource)?;
        let rules = Self {
            own_rules: schema
                .rules
                .iter()
                .filter_map(|rule| compile(schema, is_resource, rule).ok().flatten())
                .collect(),
            is_resource,
            properties: schema
                .properties
                .iter()
                .filter_map(|(name, property)| {
                    Some((name.clone(), Self::build(property, property.is_embedded_resource)?))
                })
                .collect(),
            items: schema
                .items
                .as_deref()
                .and_then(|items| Self::build(items, items.is_embedded_resource))
                .map(Box::new),
            values: schema
                .map_values()
                .and_then(|values| Self::build(values, values.is_embedded_resource))
                .map(Box::new),
        };
        let empty = rules.own_rules.is_empty()
            && rules.properties.is_empty()
            && rules.items.is_none()
            && rules.values.is_none();
        (!empty).then_some(rules)
    }

    /// Runs all rules on an object, which replaces `old` if that is present. Failures on unchanged
    /// values are added to `warnings`.
    pub(crate) fn validate(
        &self,
        schema: &Schema,
        object: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
        warnings: &mut Vec<String>,
    ) -> Vec<FieldError> {
        let mut runner = RuleRunner { errors: Vec::new(), warnings, budget: OBJECT_COST_MAX };
        // `BudgetExhausted` needs no handling: the errors already contain it.
        let _ = runner.validate_node(&Path::ROOT, self, schema, object, old, ratchet);
        runner.errors
    }
}

/// Checks that a default passes its rules both as a new value and as an unchanged value.
pub(crate) fn check_default(at: &Path<'_>, schema: &Schema, default: &Json) -> Vec<FieldError> {
    let Some(rules) = CompiledRules::build(schema, schema.is_embedded_resource) else { return Vec::new() };
    let mut warnings = Vec::new();
    for old in [Some(default), None] {
        let mut runner = RuleRunner { errors: Vec::new(), warnings: &mut warnings, budget: OBJECT_COST_MAX };
        let _ = runner.validate_node(at, &rules, schema, default, old, Ratchet::default());
        if !runner.errors.is_empty() {
            return runner.errors;
        }
    }
    Vec::new()
}

/// The stored value that corresponds to a value, for ratcheting.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ratchet<'a> {
    current: Option<CorrelatedValue<'a>>,
    /// The nearest ancestor that has a stored value; used if `current` is `None`.
    nearest_ancestor: Option<CorrelatedValue<'a>>,
}

impl<'a> Ratchet<'a> {
    pub(crate) fn new(root: CorrelatedValue<'a>) -> Self {
        Self { current: Some(root), nearest_ancestor: None }
    }

    fn is_unchanged(self) -> bool {
        self.current.or(self.nearest_ancestor).is_some_and(CorrelatedValue::is_unchanged)
    }

    fn key(self, name: &str) -> Self {
        let Some(current) = self.current else { return self };
        if self.nearest_ancestor.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        Self { current: current.key(name), nearest_ancestor: Some(current) }
    }

    fn index(self, index: usize) -> Self {
        let Some(current) = self.current else { return self };
        Self { current: current.index(index), nearest_ancestor: Some(current) }
    }
}

/// The cost budget of the object is used up; no further rule runs.
struct BudgetExhausted;

struct RuleRunner<'w> {
    errors: Vec<FieldError>,
    warnings: &'w mut Vec<String>,
    budget: i64,
}

impl RuleRunner<'_> {
    fn validate_node(
        &mut self,
        at: &Path<'_>,
        rules: &CompiledRules,
        schema: &Schema,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), BudgetExhausted> {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        if !rules.own_rules.is_empty() {
            self.run_rules(at, rules, schema, value, old, ratchet)?;
        }
        match value {
            Json::Array(items) => {
                let (Some(item_rules), Some(item_schema)) = (rules.items.as_deref(), schema.items.as_deref()) else {
                    return Ok(());
                };
                let old_items = old.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
                for (i, item) in items.iter().enumerate() {
                    let old_item = old_element(schema, old_items, item);
                    self.validate_node(&at.index(i), item_rules, item_schema, item, old_item, ratchet.index(i))?;
                }
            }
            Json::Object(fields) => {
                let old_field = |name: &str| old.and_then(Json::as_object).and_then(|old| old.get(name));
                if let (Some(value_rules), Some(value_schema)) = (rules.values.as_deref(), schema.map_values()) {
                    for (name, value) in fields {
                        self.validate_node(
                            &at.key(name),
                            value_rules,
                            value_schema,
                            value,
                            old_field(name),
                            ratchet.key(name),
                        )?;
                    }
                }
                for (name, property_rules) in &rules.properties {
                    if let (Some(value), Some(property)) = (fields.get(name), schema.properties.get(name)) {
                        self.validate_node(
                            &at.child(name),
                            property_rules,
                            property,
                            value,
                            old_field(name),
                            ratchet.key(name),
                        )?;
                    }
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
        Ok(())
    }

    fn run_rules(
        &mut self,
        at: &Path<'_>,
        rules: &CompiledRules,
        schema: &Schema,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), BudgetExhausted> {
        let type_name = schema.type_.map_or("", SchemaType::name);
        if self.budget <= 0 {
            return self.out_of_budget(at, type_name);
        }
        for rule in &rules.own_rules {
            if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            let self_value = Value::from_json(value, schema, rules.is_resource);
            let old_value = old.map(|old| Value::from_json(old, schema, rules.is_resource));
            let old_value = if rule.optional_old_self {
                Some(old_value.map_or(Ok(Value::NONE), |old_value| old_value.map(Value::some)))
            } else {
                old_value
            };
            let (result, cost) = evaluate(&rule.program, self_value.clone(), old_value.clone(), RULE_COST_MAX);
            if !matches!(result, Err(EvalFailure::OverBudget)) {
                self.charge(cost, at, type_name)?;
            }
            match result {
                Ok(Value::Bool(true)) => {}
                Ok(_) => {
                    let message = match &rule.message_program {
                        Some(program) => self.message(program, self_value, old_value, at, type_name, rule)?,
                        None => default_message(rule),
                    };
                    self.push_failure(at, rule, schema, value, message, ratchet);
                }
                Err(EvalFailure::OverBudget) => {
                    let detail = format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost \
                         exceeds limit for rule: {}",
                        rule.name()
                    );
                    self.errors.push(FieldError::invalid(at, type_name, detail));
                    return Err(BudgetExhausted);
                }
                Err(EvalFailure::Error(text)) => {
                    let detail = if text.starts_with("no such overload") {
                        format!(
                            "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                            rule.name()
                        )
                    } else {
                        format!("{text} evaluating rule: {}", rule.name())
                    };
                    self.errors.push(FieldError::invalid(at, type_name, detail));
                }
            }
        }
        Ok(())
    }

    fn charge(&mut self, cost: u64, at: &Path<'_>, type_name: &str) -> Result<(), BudgetExhausted> {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            return self.out_of_budget(at, type_name);
        }
        self.budget -= cost;
        Ok(())
    }

    fn out_of_budget(&mut self, at: &Path<'_>, type_name: &str) -> Result<(), BudgetExhausted> {
        let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.errors.push(FieldError::invalid(at, type_name, detail));
        Err(BudgetExhausted)
    }

    /// Evaluates the messageExpression. If that fails or its text is unusable, returns the rule's
    /// fixed message.
    fn message<'a>(
        &mut self,
        program: &'a super::program::ProgramNode,
        self_value: Result<Value<'a>, EvalFailure>,
        old_value: Option<Result<Value<'a>, EvalFailure>>,
        at: &Path<'_>,
        type_name: &str,
        rule: &CompiledRule,
    ) -> Result<String, BudgetExhausted> {
        let (result, cost) = evaluate(program, self_value, old_value, RULE_COST_MAX);
        if matches!(result, Err(EvalFailure::OverBudget)) || i64::try_from(cost).unwrap_or(i64::MAX) > self.budget {
            let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            self.errors.push(FieldError::invalid(at, type_name, detail));
            return Err(BudgetExhausted);
        }
        self.budget -= cost as i64;
        if let Ok(Value::String(text)) = result {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n') {
                return Ok(text.to_owned());
            }
        }
        Ok(default_message(rule))
    }

    fn push_failure(
        &mut self,
        at: &Path<'_>,
        rule: &CompiledRule,
        schema: &Schema,
        value: &Json,
        message: String,
        ratchet: Ratchet<'_>,
    ) {
        let field_path = rule.field_path.as_deref().map(|path| at.child(path));
        let at = field_path.as_ref().unwrap_or(at);
        let reported_value = match schema.type_ {
            Some(SchemaType::Object | SchemaType::Array) => None,
            _ => Some(value.clone()),
        };
        let error = match rule.reason.unwrap_or(FieldErrorKind::Invalid) {
            FieldErrorKind::Forbidden => FieldError::forbidden(at, message),
            FieldErrorKind::Required => FieldError::required(at, message),
            FieldErrorKind::Duplicate => FieldError::new(at, FieldErrorKind::Duplicate, reported_value, ""),
            _ => FieldError::new(at, FieldErrorKind::Invalid, reported_value, message),
        };
        if !rule.uses_old_self && ratchet.is_unchanged() {
            self.warnings.push(error.to_string());
        } else {
            self.errors.push(error);
        }
    }
}

fn default_message(rule: &CompiledRule) -> String {
    if rule.message.is_empty() { format!("failed rule: {}", rule.name()) } else { rule.message.clone() }
}
