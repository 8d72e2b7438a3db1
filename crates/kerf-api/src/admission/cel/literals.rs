//! Checks of literals in an expression that has correct types: arguments that no function can
//! parse, lists of mixed types, and format strings that do not match their arguments. cel-go calls
//! such checks validators and runs them after type checking.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::super::regexp::Regexp;
use super::super::time;
use super::check::ExpressionTypes;
use super::functions::printf::{self, Verb};
use super::parse::{Issue, Parsed};
use super::types::Type;

/// Returns all issues that the validators find.
pub(super) fn validate(parsed: &Parsed, types: &ExpressionTypes<'_>) -> Vec<Issue> {
    let mut validator = LiteralValidator { parsed, types, issues: Vec::new() };
    validator.validate_node(&parsed.expr, false);
    validator.issues
}

struct LiteralValidator<'p, 's> {
    parsed: &'p Parsed,
    types: &'p ExpressionTypes<'s>,
    issues: Vec<Issue>,
}

impl LiteralValidator<'_, '_> {
    /// Checks an expression. `exempt` is true inside `format`, whose arguments may have mixed
    /// types.
    fn validate_node(&mut self, expr: &IdedExpr, exempt: bool) {
        match &expr.expr {
            Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified | Expr::Struct(_) => {}
            Expr::Select(select) => self.validate_node(&select.operand, exempt),
            Expr::Call(call) => {
                self.check_call(expr, &call.func_name, call.target.as_deref(), &call.args);
                let exempt = exempt || call.func_name == "format";
                for part in call.target.as_deref().into_iter().chain(&call.args) {
                    self.validate_node(part, exempt);
                }
            }
            Expr::List(list) => {
                if !exempt {
                    let elements = list
                        .elements
                        .iter()
                        .enumerate()
                        .map(|(i, element)| (element, list.optional_indices.contains(&i)));
                    self.check_homogeneous(elements, true);
                }
                list.elements.iter().for_each(|element| self.validate_node(element, exempt));
            }
            Expr::Map(map) => {
                let entries: Vec<_> = map
                    .entries
                    .iter()
                    .filter_map(|entry| match &entry.expr {
                        EntryExpr::MapEntry(entry) => Some(entry),
                        EntryExpr::StructField(_) => None,
                    })
                    .collect();
                if !exempt {
                    self.check_homogeneous(entries.iter().map(|entry| (&entry.key, false)), false);
                    self.check_homogeneous(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
                }
                for entry in entries {
                    self.validate_node(&entry.key, exempt);
                    self.validate_node(&entry.value, exempt);
                }
            }
            Expr::Comprehension(comprehension) => {
                for part in [
                    &comprehension.iter_range,
                    &comprehension.accu_init,
                    &comprehension.loop_cond,
                    &comprehension.loop_step,
                    &comprehension.result,
                ] {
                    self.validate_node(part, exempt);
                }
            }
        }
    }

    /// Checks that all elements have the type of the first one.
    fn check_homogeneous<'e>(&mut self, elements: impl Iterator<Item = (&'e IdedExpr, bool)>, first_only: bool) {
        let mut first: Option<Type<'_>> = None;
        for (element, optional) in elements {
            let Some(type_) = self.types.get(&element.id) else { continue };
            let type_ = if optional { type_.unwrap_optional().0.clone() } else { type_.clone() };
            match &first {
                None => first = Some(type_),
                Some(first) if first.is_same(&type_) => {}
                Some(first) => {
                    let message = format!("expected type '{first}' but found '{type_}'");
                    self.issues.push(self.parsed.issue_at(element.id, message));
                    if first_only {
                        return;
                    }
                }
            }
        }
    }

    fn check_call(&mut self, expr: &IdedExpr, name: &str, target: Option<&IdedExpr>, args: &[IdedExpr]) {
        if let Some(IdedExpr { id, expr: Expr::Literal(LiteralValue::String(text)) }) = args.first() {
            let is_valid = match name {
                "duration" => time::parse_duration(text.inner()).is_some(),
                "timestamp" => time::parse_timestamp(text.inner()).is_some(),
                "matches" => Regexp::new(text.inner()).is_ok(),
                _ => true,
            };
            if !is_valid {
                self.issues.push(self.parsed.issue_at(*id, format!("invalid {name} argument")));
            }
        }
        if let (
            "format",
            Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(pattern)), .. }),
            [IdedExpr { expr: Expr::List(list), .. }],
        ) = (name, target, args)
        {
            self.check_format(expr.id, pattern.inner(), &list.elements);
        }
    }

    fn check_format(&mut self, id: u64, pattern: &str, args: &[IdedExpr]) {
        let mut used = 0;
        let mut rest = pattern;
        while let Some((_, clause)) = printf::next_clause(rest) {
            if used >= args.len() && !clause.is_empty() {
                self.issues.push(self.parsed.issue_at(id, format!("index {used} out of range")));
                return;
            }
            let (verb, _, after) = match printf::parse_clause(clause) {
                Ok(parsed) => parsed,
                Err(text) => {
                    self.issues.push(self.parsed.issue_at(id, text));
                    return;
                }
            };
            if let Err((bad_id, type_name)) = self.check_argument(verb, &args[used]) {
                let message = format!("error during formatting: {}", printf::wrong_type(verb, &type_name));
                self.issues.push(self.parsed.issue_at(bad_id, message));
                return;
            }
            used += 1;
            rest = after;
        }
        if args.len() > used {
            let message = format!("too many arguments supplied to string.format (expected {used}, got {})", args.len());
            self.issues.push(self.parsed.issue_at(id, message));
        }
    }

    /// Checks that `verb` can print the argument. Otherwise returns the id and the type name of the
    /// part that cannot be printed.
    fn check_argument(&self, verb: Verb, arg: &IdedExpr) -> Result<(), (u64, String)> {
        let Some(type_) = self.types.get(&arg.id) else { return Ok(()) };
        let fits = match (verb, type_) {
            (_, Type::Dyn | Type::Error) => true,
            (Verb::Text, type_) => !matches!(type_, Type::Optional(_) | Type::Object(_) | Type::Opaque(_)),
            (Verb::Decimal | Verb::Octal, type_) => matches!(type_, Type::Int | Type::Uint),
            (Verb::Fixed | Verb::Scientific, type_) => matches!(type_, Type::Double | Type::String),
            (Verb::Binary, type_) => matches!(type_, Type::Int | Type::Uint | Type::Bool),
            (Verb::Hex { .. }, type_) => matches!(type_, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
        if !fits {
            let type_text = type_.to_string();
            let name = type_text.split('(').next().unwrap_or(&type_text).to_owned();
            return Err((arg.id, name));
        }
        if verb == Verb::Text {
            match &arg.expr {
                Expr::List(list) => list.elements.iter().try_for_each(|element| self.check_argument(verb, element))?,
                Expr::Map(map) => {
                    for entry in &map.entries {
                        if let EntryExpr::MapEntry(entry) = &entry.expr {
                            self.check_argument(verb, &entry.key)?;
                            self.check_argument(verb, &entry.value)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
