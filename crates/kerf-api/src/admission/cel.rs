//! The rules that a schema carries in CEL (`x-kubernetes-validations`), with Kubernetes' semantics on top: `self` and `oldSelf` read through
//! the schema, fields under escaped names, int-or-string dynamic, times as times, quantities, networks and the rest of its library.
//!
//! ```text
//! parse (cel crate's grammar) → check (types, overloads) → program → eval (on a budget) → rules (which rule on which value, what to say)
//! ```
//!
//! A rule is compiled once, when its definition is; it then runs on borrowed JSON. The `cel` crate parses; the checker and the evaluator
//! are ours, because what a rule may see depends on the schema, every step must be paid for, and errors must read as cel-go's.

mod check;
mod cost;
mod escape;
mod estimate;
mod eval;
mod functions;
mod library;
mod literals;
mod parse;
mod program;
mod rule;
mod rules;
mod types;
mod value;

pub(crate) use estimate::{Cardinality, CostTotal};
pub(crate) use rule::{RuleContext, check_rule};
pub(crate) use rules::{CompiledRules, Ratchet, check_default};
