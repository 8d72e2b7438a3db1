//! CEL rules of a schema (`x-kubernetes-validations`) with Kubernetes' semantics: `self` and
//! `oldSelf` are read through the schema, field names are escaped, int-or-string values are
//! dynamic, and time formats give timestamps and durations. Kubernetes' function library
//! (quantities, networks and others) is included.
//!
//! ```text
//! parse (grammar of the cel crate) → check (types, overloads) → program → eval (on a cost budget)
//! rules: which rule runs on which value, and the errors of failed rules
//! numeric: expressions outside of schemas that give a number
//! ```
//!
//! A rule is compiled once, with its definition, and then runs on borrowed JSON. Only the parser
//! comes from the `cel` crate. The checker and the evaluator are implemented here, because the
//! fields that a rule can read depend on the schema, every step must be charged, and error texts
//! must equal those of cel-go.

mod check;
mod cost;
mod escape;
mod estimate;
mod eval;
mod functions;
mod library;
mod literals;
mod numeric;
mod parse;
mod program;
mod rule;
mod rules;
mod types;
mod value;

pub(crate) use estimate::{Cardinality, CostTotal};
pub use numeric::NumericExpressionError;
pub(crate) use numeric::{NumericExpression, VariableType, VariableValue};
pub(crate) use rule::{RuleContext, check_rule};
pub(crate) use rules::{CompiledRules, Ratchet, check_default};
