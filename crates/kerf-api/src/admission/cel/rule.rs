//! One rule: compiled against the schema of its values, or rejected with the position of the
//! mistake.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use super::super::error::{FieldError, FieldErrorKind};
use super::super::path::Path;
use super::super::schema::Schema;
use super::super::text;
use super::check::{Checked, check};
use super::cost::RULE_COST_MAX;
use super::estimate::{self, Cardinality, CostTotal};
use super::eval::evaluate;
use super::parse::{Parsed, format_issues, parse};
use super::program::{Constant, ProgramNode};
use super::types::Type;
use super::value::{EvalFailure, Value};

/// A rule that can be evaluated.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) program: ProgramNode,
    pub(super) message_program: Option<ProgramNode>,
    pub(super) uses_old_self: bool,
    /// True if `oldSelf` is an optional, so that the rule also runs if there is no stored value.
    pub(super) optional_old_self: bool,
    pub(super) message: String,
    pub(super) text: String,
    pub(super) reason: Option<FieldErrorKind>,
    pub(super) field_path: Option<String>,
    /// Maximum estimated cost of one evaluation of the rule. `message_cost` is that of its
    /// messageExpression.
    cost: u64,
    message_cost: u64,
}

impl CompiledRule {
    /// Returns the text that identifies the rule in errors: its message, otherwise its expression.
    pub(super) fn name(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }
}

/// The reason why a rule cannot be compiled.
pub(super) struct RuleCompileError {
    /// The field with the mistake: `rule` or `messageExpression`.
    pub(super) field: &'static str,
    pub(super) detail: String,
}

/// Compiles a rule for values of `schema`. Returns `None` for a rule without text.
pub(super) fn compile(
    schema: &Schema,
    is_resource: bool,
    rule: &ValidationRule,
) -> Result<Option<CompiledRule>, RuleCompileError> {
    if rule.rule.trim().is_empty() {
        return Ok(None);
    }
    let Some(self_type) = Type::from_schema(schema, is_resource) else {
        return Err(RuleCompileError {
            field: "rule",
            detail: "failed to convert to declType for CEL validation rules".to_owned(),
        });
    };
    let optional_old_self = rule.optional_old_self == Some(true);
    let old_type = if optional_old_self { Type::optional(self_type.clone()) } else { self_type.clone() };
    let compile_expression =
        |source: &str, field: &'static str, prefix: &str| -> Result<(Parsed, Checked<'_>), RuleCompileError> {
            parse(source)
                .and_then(|parsed| check(&parsed, self_type.clone(), old_type.clone()).map(|checked| (parsed, checked)))
                .map_err(|issues| RuleCompileError {
                    field,
                    detail: format!("{prefix}compilation failed: {}", format_issues(source, issues)),
                })
        };
    let (parsed, checked) = compile_expression(&rule.rule, "rule", "")?;
    if !matches!(checked.type_, Type::Bool) {
        return Err(RuleCompileError { field: "rule", detail: "cel expression must evaluate to a bool".to_owned() });
    }
    if let Some(text) = constant_failure(&checked.node) {
        return Err(RuleCompileError { field: "rule", detail: format!("program instantiation failed: {text}") });
    }
    let cost = estimate::cost(&parsed.expr, &checked, schema, is_resource);
    let (mut message_program, mut message_cost) = (None, 0);
    if let Some(source) = rule.message_expression.as_deref().filter(|source| !source.is_empty()) {
        let (parsed, checked_message) = compile_expression(source, "messageExpression", "messageExpression ")?;
        if !matches!(checked_message.type_, Type::String) {
            let detail = "messageExpression must evaluate to a string".to_owned();
            return Err(RuleCompileError { field: "messageExpression", detail });
        }
        if let Some(text) = constant_failure(&checked_message.node) {
            let detail = format!("messageExpression instantiation failed: {text}");
            return Err(RuleCompileError { field: "messageExpression", detail });
        }
        message_cost = estimate::cost(&parsed.expr, &checked_message, schema, is_resource);
        message_program = Some(checked_message.node);
    }
    Ok(Some(CompiledRule {
        program: checked.node,
        message_program,
        uses_old_self: checked.uses_old_self,
        optional_old_self,
        message: rule.message.as_deref().unwrap_or_default().trim().to_owned(),
        text: rule.rule.trim().to_owned(),
        reason: rule.reason.as_deref().map(|reason| match reason {
            "FieldValueForbidden" => FieldErrorKind::Forbidden,
            "FieldValueRequired" => FieldErrorKind::Required,
            "FieldValueDuplicate" => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        }),
        field_path: rule.field_path.as_deref().filter(|path| !path.is_empty()).map(normalize_path),
        cost,
        message_cost,
    }))
}

/// Returns the error of a conversion of a constant that fails. cel-go evaluates such conversions
/// when it compiles a rule, so the rule is rejected.
fn constant_failure(node: &ProgramNode) -> Option<String> {
    let parts: Vec<&ProgramNode> = match node {
        ProgramNode::Constant(_) | ProgramNode::Variable(_) => return None,
        ProgramNode::Select { operand, .. } => vec![operand],
        ProgramNode::NotStrictlyFalse(operand) => vec![operand],
        ProgramNode::And(operands) | ProgramNode::Or(operands) | ProgramNode::OptionalOr { operands, .. } => {
            operands.iter().collect()
        }
        ProgramNode::Conditional(parts) => parts.iter().collect(),
        ProgramNode::Call { args, .. } => args.iter().collect(),
        ProgramNode::List(elements) => elements.iter().map(|element| &element.value).collect(),
        ProgramNode::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
        ProgramNode::Comprehension(comprehension) => comprehension.parts(),
    };
    if let Some(text) = parts.into_iter().find_map(constant_failure) {
        return Some(text);
    }
    let ProgramNode::Call { function, args, .. } = node else { return None };
    let converts = matches!(
        function.name,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    );
    match &args[..] {
        [ProgramNode::Constant(Constant::Null)] if converts && !matches!(function.name, "dyn" | "type") => {
            Some(format!("no such overload: {}(null_type)", function.name))
        }
        [ProgramNode::Constant(_)] if converts => match evaluate(node, Ok(Value::Null), None, RULE_COST_MAX).0 {
            Err(EvalFailure::Error(text)) => Some(text.to_string()),
            Ok(_) | Err(EvalFailure::OverBudget) => None,
        },
        _ => None,
    }
}

/// Formats a JSON path as errors print it: `.spec.a['b']` becomes `spec.a[b]`. Brackets always
/// contain the key of a map here.
fn normalize_path(path: &str) -> String {
    path.trim_start_matches('.').replace("['", "[").replace("']", "]")
}

/// The position of a rule in a definition.
pub(crate) struct RuleContext<'a> {
    pub(crate) at: &'a Path<'a>,
    pub(crate) schema: &'a Schema,
    pub(crate) is_resource: bool,
    pub(crate) cardinality: Cardinality,
    pub(crate) uncorrelatable: Option<&'a str>,
}

/// Appends everything that is wrong with a rule of a definition.
pub(crate) fn check_rule(
    context: &RuleContext<'_>,
    rule: &ValidationRule,
    costs: &mut CostTotal,
    errors: &mut Vec<FieldError>,
) {
    let at = context.at;
    let uses_old_self = match compile(context.schema, context.is_resource, rule) {
        Err(error) => {
            errors.push(FieldError::invalid_with_display(&at.child(error.field), format_rule(rule), error.detail));
            // It is unknown whether a rule that does not compile reads oldSelf. A mistake in the
            // messageExpression is treated alike.
            false
        }
        Ok(None) => false,
        Ok(Some(compiled)) => {
            let cost = context.cardinality.total(compiled.cost, context.schema, context.is_resource);
            costs.add_rule_cost(&at.child("rule"), "estimated rule cost", cost, errors);
            if compiled.message_program.is_some() {
                let what = "estimated messageExpression cost";
                costs.add_rule_cost(&at.child("messageExpression"), what, compiled.message_cost, errors);
            }
            compiled.uses_old_self
        }
    };
    if uses_old_self {
        if let Some(path) = context.uncorrelatable {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {path}");
            errors.push(FieldError::invalid(&at.child("rule"), rule.rule.as_str(), detail));
        }
    } else if let Some(optional) = rule.optional_old_self {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(&at.child("optionalOldSelf"), optional, detail));
    }
}

/// Formats a rule as the API server prints its Go type.
fn format_rule(rule: &ValidationRule) -> String {
    let string = |text: Option<&str>| text::json(&serde_json::Value::from(text.unwrap_or_default()));
    let reason = rule.reason.as_deref().map_or("null".to_owned(), |reason| string(Some(reason)));
    let optional = rule.optional_old_self.map_or("null".to_owned(), |optional| optional.to_string());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        string(Some(&rule.rule)),
        string(rule.message.as_deref()),
        string(rule.message_expression.as_deref()),
        string(rule.field_path.as_deref()),
    )
}
