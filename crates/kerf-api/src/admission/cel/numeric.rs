//! Expressions outside of schemas: variables are declared by name, and the result is a number.

use super::check::check_in_scope;
use super::cost::RULE_COST_MAX;
use super::eval::evaluate_with;
use super::library::Library;
use super::parse::{format_issues, parse};
use super::program::ProgramNode;
use super::types::Type;
use super::value::{EvalFailure, Text, Value};

/// Declared type: expressions read integers and texts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum VariableType {
    Int,
    Text,
}

/// An integer or a text for one evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum VariableValue<'a> {
    Int(i64),
    Text(&'a str),
}

/// Reason why an expression gives no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumericExpressionError {
    /// The expression does not compile; the issues have positions.
    #[error("compiling expression {expression:?}: {issues}")]
    Compile {
        /// The expression as written.
        expression: String,
        /// One text for each mistake.
        issues: String,
    },
    /// The expression has a result of another type.
    #[error("expression {expression:?} must return int or double, got {result_type}")]
    ResultType {
        /// The expression as written.
        expression: String,
        /// The type that it has.
        result_type: String,
    },
    /// The evaluation failed.
    #[error("evaluating expression: {0}")]
    Evaluation(String),
}

/// A compiled expression with the static result type int or double.
#[derive(Debug)]
pub(crate) struct NumericExpression(ProgramNode);

impl NumericExpression {
    /// Compiles an expression over the variables.
    pub(crate) fn compile(
        expression: &str,
        variables: &[(&'static str, VariableType)],
    ) -> Result<Self, NumericExpressionError> {
        let declare = |(name, variable_type): &(&'static str, VariableType)| {
            let variable_type = match variable_type {
                VariableType::Int => Type::Int,
                VariableType::Text => Type::String,
            };
            ((*name).to_owned(), variable_type)
        };
        let scope = variables.iter().map(declare).collect();
        let checked = parse(expression).and_then(|parsed| check_in_scope(&parsed, scope, Library::Numbers)).map_err(
            |issues| NumericExpressionError::Compile {
                expression: expression.to_owned(),
                issues: format_issues(expression, issues),
            },
        )?;
        if !matches!(checked.type_, Type::Int | Type::Double) {
            let result_type = checked.type_.to_string();
            return Err(NumericExpressionError::ResultType { expression: expression.to_owned(), result_type });
        }
        Ok(Self(checked.node))
    }

    /// Evaluates the expression with values in the order of the variables. A double is truncated
    /// toward zero. Fails if it is not finite or outside the 64-bit integers.
    pub(crate) fn evaluate(&self, values: &[VariableValue<'_>]) -> Result<i64, NumericExpressionError> {
        let value = |value: &VariableValue<'_>| match *value {
            VariableValue::Int(number) => Value::Int(number),
            VariableValue::Text(text) => Value::String(Text::Owned(text.into())),
        };
        let stack = values.iter().map(|own| Ok(value(own))).collect();
        let failed = |text: &str| NumericExpressionError::Evaluation(text.to_owned());
        match evaluate_with(&self.0, stack, RULE_COST_MAX).0 {
            Ok(Value::Int(number)) => Ok(number),
            Ok(Value::Double(number)) => truncated(number).ok_or_else(|| failed("the result is no 64-bit integer")),
            Ok(_) => Err(failed("the result is no number")),
            Err(EvalFailure::Error(text)) => Err(failed(&text)),
            Err(EvalFailure::OverBudget) => Err(failed("the expression is too expensive")),
        }
    }
}

/// Returns the integer part; `None` if it is no 64-bit integer.
fn truncated(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let whole = number.trunc();
    if (-LIMIT..LIMIT).contains(&whole) { Some(whole as i64) } else { None }
}
