//! Type checking: every identifier is declared, every field exists, and every call has an overload.
//! A mistake is reported with its position in the rule when the definition is compiled.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use super::super::regexp::Regexp;
use super::library::{Function, Library};
use super::literals;
use super::parse::{Issue, Parsed};
use super::program::{AccumulatorStep, ComprehensionNode, Constant, Element, MapEntryNode, ProgramNode, SelectMode};
use super::types::{Type, TypeSubstitution, type_identifier};

pub(super) struct Checked<'s> {
    pub(super) node: ProgramNode,
    pub(super) type_: Type<'s>,
    pub(super) types: ExpressionTypes<'s>,
    /// The function and the possible overloads of each call.
    pub(super) calls: HashMap<u64, CalledOverloads>,
    pub(super) uses_old_self: bool,
}

/// Types by expression id, which the parser assigned.
pub(super) type ExpressionTypes<'s> = HashMap<u64, Type<'s>>;

/// Possible meanings of a call. Dynamic arguments can match more than one overload.
pub(super) struct CalledOverloads {
    pub(super) function: &'static Function,
    pub(super) overloads: Vec<usize>,
    /// True if the function is called on a receiver.
    pub(super) is_member: bool,
}

/// Checks the rule `parsed`, in which `self` and `oldSelf` have the given types.
pub(super) fn check<'s>(
    parsed: &Parsed,
    self_type: Type<'s>,
    old_self_type: Type<'s>,
) -> Result<Checked<'s>, Vec<Issue>> {
    let scope = vec![("self".to_owned(), self_type), ("oldSelf".to_owned(), old_self_type)];
    check_in_scope(parsed, scope, Library::Rules)
}

/// Checks `parsed`, in which the variables of `scope` are declared; their index is that of the
/// stack.
pub(super) fn check_in_scope<'s>(
    parsed: &Parsed,
    scope: Vec<(String, Type<'s>)>,
    library: Library,
) -> Result<Checked<'s>, Vec<Issue>> {
    let mut checker = Checker {
        parsed,
        library,
        solution: TypeSubstitution::default(),
        scope,
        types: HashMap::new(),
        calls: HashMap::new(),
        issues: Vec::new(),
        uses_old_self: false,
    };
    let (node, type_) = checker.expr(&parsed.expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|(id, type_)| (*id, checker.solution.resolve_or_dyn(type_))).collect();
    let issues = literals::validate(parsed, &types);
    if !issues.is_empty() {
        return Err(issues);
    }
    let type_ = checker.solution.resolve_or_dyn(&type_);
    Ok(Checked { node, type_, types, calls: checker.calls, uses_old_self: checker.uses_old_self })
}

struct Checker<'p, 's> {
    parsed: &'p Parsed,
    library: Library,
    solution: TypeSubstitution<'s>,
    /// Variables in stack order; later ones hide earlier ones with the same name.
    scope: Vec<(String, Type<'s>)>,
    types: ExpressionTypes<'s>,
    calls: HashMap<u64, CalledOverloads>,
    issues: Vec<Issue>,
    uses_old_self: bool,
}

const OLD_SELF_STACK_INDEX: usize = 1;

impl<'s> Checker<'_, 's> {
    fn expr(&mut self, expr: &IdedExpr) -> (ProgramNode, Type<'s>) {
        let (node, type_) = match &expr.expr {
            Expr::Literal(literal) => literal_node(literal),
            Expr::Ident(name) => self.identifier(expr.id, name),
            Expr::Select(select) => self.select(expr, select),
            Expr::Call(call) => self.call(expr.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => {
                let name = &message.type_name;
                self.report(expr.id, format!("undeclared reference to '{name}' (in container '')"));
                error_node()
            }
            Expr::Unspecified => {
                self.report(expr.id, "unexpected unspecified type: expression".to_owned());
                error_node()
            }
        };
        self.types.insert(expr.id, type_.clone());
        (node, type_)
    }

    fn identifier(&mut self, id: u64, name: &str) -> (ProgramNode, Type<'s>) {
        if let Some((index, (_, type_))) = self.scope.iter().enumerate().rev().find(|(_, (known, _))| known == name) {
            self.uses_old_self |= index == OLD_SELF_STACK_INDEX;
            return (ProgramNode::Variable(index), type_.clone());
        }
        if let Some((type_name, type_)) = type_identifier(name) {
            return (
                ProgramNode::Constant(Constant::Type(type_name.to_owned())),
                Type::Meta(std::sync::Arc::new(type_)),
            );
        }
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        error_node()
    }

    fn select(&mut self, expr: &IdedExpr, select: &SelectExpr) -> (ProgramNode, Type<'s>) {
        if let Some(name) = qualified_name(expr)
            && let Some((type_name, type_)) = type_identifier(&name)
        {
            return (
                ProgramNode::Constant(Constant::Type(type_name.to_owned())),
                Type::Meta(std::sync::Arc::new(type_)),
            );
        }
        let mode = if select.test { SelectMode::Presence } else { SelectMode::Field };
        let (node, type_) = self.field(expr.id, &select.operand, &select.field, mode);
        (node, if select.test { Type::Bool } else { type_ })
    }

    fn field(&mut self, id: u64, operand: &IdedExpr, field: &str, mode: SelectMode) -> (ProgramNode, Type<'s>) {
        let (node, type_) = self.expr(operand);
        let operand_type = self.solution.resolve(&type_);
        let (target, is_optional) = operand_type.unwrap_optional();
        let field_type = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => object.field(field).unwrap_or_else(|| {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }),
            Type::Param(_) => {
                self.solution.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        let node = ProgramNode::Select { operand: Box::new(node), field: field.to_owned(), mode };
        if is_optional || mode == SelectMode::Optional {
            return (node, Type::optional(field_type));
        }
        (node, field_type)
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> (ProgramNode, Type<'s>) {
        let name = call.func_name.as_str();
        match (name, &call.args[..], &call.target) {
            (operators::OPT_SELECT, [operand, field], None) => {
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    self.report(field.id, "unsupported optional field selection".to_owned());
                    return error_node();
                };
                return self.field(id, operand, field.inner(), SelectMode::Optional);
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, _], None) => return self.logical(id, call),
            (operators::CONDITIONAL, [_, _, _], None) => return self.conditional(id, call),
            _ => {}
        }
        let mut nodes = Vec::with_capacity(call.args.len() + 1);
        let mut types = Vec::with_capacity(call.args.len() + 1);
        for arg in &call.args {
            let (node, type_) = self.expr(arg);
            nodes.push(node);
            types.push(type_);
        }
        let mut is_member = false;
        let mut function = None;
        if let Some(target) = &call.target {
            // `a.b.f()` calls the function `a.b.f` if it exists, otherwise the method `f` of `a.b`.
            function = qualified_name(target).and_then(|prefix| self.library.find(&format!("{prefix}.{name}")));
            if function.is_none() {
                let (node, type_) = self.expr(target);
                nodes.insert(0, node);
                types.insert(0, type_);
                is_member = true;
            }
        }
        let Some(function) = function.or_else(|| self.library.find(name)) else {
            self.report(id, format!("undeclared reference to '{name}' (in container '')"));
            return error_node();
        };
        let Some(result) = self.overload(id, function, is_member, &types) else { return error_node() };
        (call_node(call, function, nodes), result)
    }

    fn logical(&mut self, id: u64, call: &CallExpr) -> (ProgramNode, Type<'s>) {
        let mut nodes = Vec::with_capacity(2);
        for arg in &call.args {
            let (node, type_) = self.expr(arg);
            if !self.solution.assign(&type_, &Type::Bool) {
                let actual = self.solution.resolve(&type_);
                self.report(arg.id, format!("expected type 'bool' but found '{actual}'"));
            }
            nodes.push(node);
        }
        self.record_call(id, &call.func_name, vec![0], false);
        let Ok(pair) = <[ProgramNode; 2]>::try_from(nodes) else { return error_node() };
        let node = if call.func_name == operators::LOGICAL_AND {
            ProgramNode::And(Box::new(pair))
        } else {
            ProgramNode::Or(Box::new(pair))
        };
        (node, Type::Bool)
    }

    fn conditional(&mut self, id: u64, call: &CallExpr) -> (ProgramNode, Type<'s>) {
        let mut nodes = Vec::with_capacity(3);
        let mut types = Vec::with_capacity(3);
        for arg in &call.args {
            let (node, type_) = self.expr(arg);
            nodes.push(node);
            types.push(type_);
        }
        let result = self.solution.fresh();
        let param_types = [Type::Bool, result.clone(), result.clone()];
        if !self.solution.assign_all(types.iter().zip(&param_types)) {
            self.report_no_overload(id, operators::CONDITIONAL, false, &types);
            return error_node();
        }
        self.record_call(id, operators::CONDITIONAL, vec![0], false);
        let Ok(parts) = <[ProgramNode; 3]>::try_from(nodes) else { return error_node() };
        (ProgramNode::Conditional(Box::new(parts)), self.solution.resolve(&result))
    }

    /// Returns the result type of the matching overloads, or `Dyn` if their results differ.
    fn overload(&mut self, id: u64, function: &'static Function, member: bool, args: &[Type<'s>]) -> Option<Type<'s>> {
        let mut result: Option<Type<'s>> = None;
        let mut matching = Vec::new();
        for (index, overload) in function.overloads.iter().enumerate() {
            if overload.is_member != member || overload.params.len() != args.len() {
                continue;
            }
            let offset = self.solution.reserve(overload.type_params);
            let params: Vec<Type<'s>> = overload.params.iter().map(|param| param.with_param_offset(offset)).collect();
            if self.solution.assign_all(args.iter().zip(&params)) {
                matching.push(index);
                let overload_result = self.solution.resolve(&overload.result.with_param_offset(offset));
                result = Some(match result {
                    None => overload_result,
                    Some(Type::Dyn) => Type::Dyn,
                    Some(previous) if previous.is_same(&overload_result) => previous,
                    Some(_) => Type::Dyn,
                });
            }
        }
        if result.is_none() {
            self.report_no_overload(id, function.name, member, args);
        }
        self.calls.insert(id, CalledOverloads { function, overloads: matching, is_member: member });
        result
    }

    fn record_call(&mut self, id: u64, name: &str, overloads: Vec<usize>, is_member: bool) {
        if let Some(function) = self.library.find(name) {
            self.calls.insert(id, CalledOverloads { function, overloads, is_member });
        }
    }

    fn report_no_overload(&mut self, id: u64, name: &str, is_member: bool, args: &[Type<'s>]) {
        let mut arg_types: Vec<String> = args.iter().map(|arg| self.solution.resolve_or_dyn(arg).to_string()).collect();
        let receiver = if is_member { format!("{}.", arg_types.remove(0)) } else { String::new() };
        let signature = format!("{receiver}({})", arg_types.join(", "));
        self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
    }

    fn list(&mut self, list: &cel::common::ast::ListExpr) -> (ProgramNode, Type<'s>) {
        let mut elements = Vec::with_capacity(list.elements.len());
        let mut element_type = None;
        for (i, element) in list.elements.iter().enumerate() {
            let optional = list.optional_indices.contains(&i);
            let (value, type_) = self.expr(element);
            let type_ = self.optional_part(element.id, type_, optional);
            element_type = Some(self.join(element_type, type_));
            elements.push(Element { value, optional });
        }
        let element_type = element_type.unwrap_or_else(|| self.solution.fresh());
        (ProgramNode::List(elements), Type::list(element_type))
    }

    fn map(&mut self, map: &cel::common::ast::MapExpr) -> (ProgramNode, Type<'s>) {
        let mut entries = Vec::with_capacity(map.entries.len());
        let (mut key_type, mut value_type) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let (key, this_key) = self.expr(&entry.key);
            key_type = Some(self.join(key_type, this_key));
            let (value, this_value) = self.expr(&entry.value);
            let this_value = self.optional_part(entry.value.id, this_value, entry.optional);
            value_type = Some(self.join(value_type, this_value));
            entries.push(MapEntryNode { key, value, optional: entry.optional });
        }
        let key_type = key_type.unwrap_or_else(|| self.solution.fresh());
        let value_type = value_type.unwrap_or_else(|| self.solution.fresh());
        (ProgramNode::Map(entries), Type::map(key_type, value_type))
    }

    /// Returns the type inside an optional element.
    fn optional_part(&mut self, id: u64, type_: Type<'s>, optional: bool) -> Type<'s> {
        if !optional {
            return type_;
        }
        let resolved = self.solution.resolve(&type_);
        match resolved.unwrap_optional() {
            (inner, true) => inner.clone(),
            (Type::Dyn, false) => Type::Dyn,
            (other, false) => {
                let message = format!("expected type '{}' but found '{other}'", Type::optional(other.clone()));
                self.report(id, message);
                Type::Error
            }
        }
    }

    /// Returns the common type of elements, or `Dyn`; `literals` rejects most mixed lists later.
    fn join(&mut self, previous: Option<Type<'s>>, next: Type<'s>) -> Type<'s> {
        match previous {
            None => next,
            Some(previous) if self.solution.assign(&previous, &next) => previous.most_general(next),
            Some(_) => Type::Dyn,
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> (ProgramNode, Type<'s>) {
        let (range, range_type) = self.expr(&comprehension.iter_range);
        let (init, accumulator_type) = self.expr(&comprehension.accu_init);
        let range_type = self.solution.resolve(&range_type);
        let has_two_variables = comprehension.iter_var2.is_some();
        let (first, second) = match &range_type {
            Type::List(element) if has_two_variables => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Param(_) => {
                self.solution.assign(&Type::Dyn, &range_type);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(comprehension.iter_range.id, message);
                (Type::Error, Type::Error)
            }
        };
        let stack_index = self.scope.len();
        self.scope.push((comprehension.accu_var.clone(), accumulator_type.clone()));
        self.scope.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        let (condition, condition_type) = self.expr(&comprehension.loop_cond);
        self.expect(comprehension.loop_cond.id, &Type::Bool, &condition_type);
        let (step, step_type) = self.expr(&comprehension.loop_step);
        self.expect(comprehension.loop_step.id, &accumulator_type, &step_type);
        self.scope.truncate(stack_index + 1);
        let (result, result_type) = self.expr(&comprehension.result);
        self.scope.truncate(stack_index);
        let node = ComprehensionNode {
            range,
            init,
            condition,
            step: accumulator_step(step, stack_index),
            result,
            stack_index,
            has_two_variables,
        };
        (ProgramNode::Comprehension(Box::new(node)), self.solution.resolve(&result_type))
    }

    fn expect(&mut self, id: u64, expected: &Type<'s>, actual: &Type<'s>) {
        if !self.solution.assign(expected, actual) {
            let (expected, actual) = (self.solution.resolve(expected), self.solution.resolve(actual));
            self.report(id, format!("expected type '{expected}' but found '{actual}'"));
        }
    }

    fn report(&mut self, id: u64, message: String) {
        self.issues.push(self.parsed.issue_at(id, message));
    }
}

fn literal_node<'s>(literal: &LiteralValue) -> (ProgramNode, Type<'s>) {
    let (constant, type_) = match literal {
        LiteralValue::Null => (Constant::Null, Type::Null),
        LiteralValue::Boolean(b) => (Constant::Bool(*b.inner()), Type::Bool),
        LiteralValue::Int(n) => (Constant::Int(*n.inner()), Type::Int),
        LiteralValue::UInt(n) => (Constant::Uint(*n.inner()), Type::Uint),
        LiteralValue::Double(d) => (Constant::Double(*d.inner()), Type::Double),
        LiteralValue::String(text) => (Constant::String(text.inner().to_owned()), Type::String),
        LiteralValue::Bytes(bytes) => (Constant::Bytes(bytes.inner().to_vec()), Type::Bytes),
    };
    (ProgramNode::Constant(constant), type_)
}

fn error_node<'s>() -> (ProgramNode, Type<'s>) {
    (ProgramNode::Constant(Constant::Null), Type::Error)
}

fn call_node(call: &CallExpr, function: &'static Function, mut nodes: Vec<ProgramNode>) -> ProgramNode {
    match (function.name, nodes.len()) {
        (operators::NOT_STRICTLY_FALSE, 1) => return ProgramNode::NotStrictlyFalse(Box::new(nodes.remove(0))),
        ("or" | "orValue", 2) => {
            let second = nodes.remove(1);
            let first = nodes.remove(0);
            return ProgramNode::OptionalOr { operands: Box::new([first, second]), unwrap: function.name == "orValue" };
        }
        _ => {}
    }
    let mut pattern = None;
    if matches!(function.name, "matches" | "find" | "findAll") {
        let pattern_arg = if call.target.is_some() { call.args.first() } else { call.args.get(1) };
        if let Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }) = pattern_arg {
            pattern = Regexp::new(text.inner()).ok();
        }
    }
    ProgramNode::Call { function, args: nodes, pattern }
}

/// Recognises steps that only extend the accumulator.
fn accumulator_step(node: ProgramNode, stack_index: usize) -> AccumulatorStep {
    match node {
        ProgramNode::Variable(variable) if variable == stack_index => AccumulatorStep::Keep,
        ProgramNode::Conditional(parts) => {
            let [condition, then, otherwise] = *parts;
            AccumulatorStep::If {
                condition,
                then: Box::new(accumulator_step(then, stack_index)),
                otherwise: Box::new(accumulator_step(otherwise, stack_index)),
            }
        }
        ProgramNode::Call { function, mut args, pattern } => {
            let extends = matches!(args.first(), Some(ProgramNode::Variable(variable)) if *variable == stack_index);
            match (function.name, args.len()) {
                (operators::ADD, 2) if extends => match args.pop() {
                    Some(ProgramNode::List(mut elements)) if elements.len() == 1 && !elements[0].optional => {
                        elements.pop().map_or(AccumulatorStep::Keep, |element| AccumulatorStep::Append(element.value))
                    }
                    Some(other) => {
                        args.push(other);
                        AccumulatorStep::Set(ProgramNode::Call { function, args, pattern })
                    }
                    None => AccumulatorStep::Keep,
                },
                ("cel.@mapInsert", 3) if extends => match (args.pop(), args.pop()) {
                    (Some(value), Some(key)) => AccumulatorStep::Insert { key, value },
                    _ => AccumulatorStep::Keep,
                },
                _ => AccumulatorStep::Set(ProgramNode::Call { function, args, pattern }),
            }
        }
        other => AccumulatorStep::Set(other),
    }
}

/// Returns `a.b.c` as text if the expression is a qualified name.
fn qualified_name(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified_name(&select.operand)?, select.field)),
        _ => None,
    }
}
