//! Estimates the maximum cost of a rule before any object exists, from the bounds in the schema
//! (`maxItems`, `maxProperties`, `maxLength`) and the expression. The API server rejects a
//! definition whose rules could cost too much. The estimates equal those of cel-go and Kubernetes,
//! because they decide which definitions a cluster accepts.

mod budget;
mod declared;
mod functions;
mod range;

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

pub(crate) use self::budget::{Cardinality, CostTotal};
use self::declared::DeclaredNode;
use self::range::{EntrySizes, EstimateRange};
use super::super::schema::Schema;
use super::check::{CalledOverloads, Checked};
use super::cost::{NEW_LIST_COST, NEW_MAP_COST};
use super::types::Type;

/// Returns the maximum cost of a checked expression on values of `schema`.
pub(super) fn cost(expr: &IdedExpr, checked: &Checked<'_>, schema: &Schema, is_resource: bool) -> u64 {
    let mut estimator = Estimator {
        types: &checked.types,
        calls: &checked.calls,
        root: DeclaredNode::Value(schema, is_resource),
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(expr).max
}

struct LocalVariable {
    name: String,
    path: Vec<String>,
    size: Option<EstimateRange>,
    entry: Option<EntrySizes>,
}

struct Estimator<'c, 's> {
    types: &'c HashMap<u64, Type<'s>>,
    calls: &'c HashMap<u64, CalledOverloads>,
    root: DeclaredNode<'s>,
    paths: HashMap<u64, Vec<String>>,
    sizes: HashMap<u64, EstimateRange>,
    entries: HashMap<u64, EntrySizes>,
    locals: Vec<LocalVariable>,
}

/// The cost of a call and the size of its result; `None` if the size is unknown.
struct CallEstimate {
    cost: EstimateRange,
    size: Option<EstimateRange>,
}

impl CallEstimate {
    fn with_cost(cost: EstimateRange) -> Self {
        Self { cost, size: None }
    }

    fn with_cost_and_size(cost: EstimateRange, size: EstimateRange) -> Self {
        Self { cost, size: Some(size) }
    }
}

impl Estimator<'_, '_> {
    fn cost(&mut self, expr: &IdedExpr) -> EstimateRange {
        match &expr.expr {
            Expr::Literal(_) | Expr::Unspecified | Expr::Struct(_) => EstimateRange::ZERO,
            Expr::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                EstimateRange::fixed(1)
            }
            // The name of a type, which has no operand.
            Expr::Select(select) if !self.types.contains_key(&select.operand.id) => {
                self.paths.insert(expr.id, vec![select.field.clone()]);
                EstimateRange::fixed(1)
            }
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                if select.test {
                    return operand;
                }
                let read_cost = match self.types.get(&select.operand.id) {
                    Some(Type::Map(_) | Type::Object(_) | Type::Param(_)) => EstimateRange::fixed(1),
                    _ => EstimateRange::ZERO,
                };
                let mut path = self.path(&select.operand);
                path.push(select.field.clone());
                self.paths.insert(expr.id, path);
                operand.add(read_cost)
            }
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => {
                let mut sum = EstimateRange::ZERO;
                let mut size = EstimateRange { min: if list.elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
                for element in &list.elements {
                    sum = sum.add(self.cost(element));
                    size = size.union(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, EntrySizes { is_list: true, key: EstimateRange::fixed(1), value: size });
                sum.add(EstimateRange::fixed(NEW_LIST_COST))
            }
            Expr::Map(map) => {
                let initial_min = if map.entries.is_empty() { 0 } else { u64::MAX };
                let (mut key, mut value) =
                    (EstimateRange { min: initial_min, max: 0 }, EstimateRange { min: initial_min, max: 0 });
                let mut sum = EstimateRange::ZERO;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, EntrySizes { is_list: false, key, value });
                sum.add(EstimateRange::fixed(NEW_MAP_COST))
            }
            Expr::Comprehension(comprehension) => {
                let is_binding = matches!(&comprehension.iter_range.expr, Expr::List(list) if list.elements.is_empty())
                    && matches!(&comprehension.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(b)) if !*b.inner());
                if is_binding { self.bind(expr, comprehension) } else { self.comprehension(expr, comprehension) }
            }
        }
    }

    fn comprehension(&mut self, expr: &IdedExpr, comprehension: &ComprehensionExpr) -> EstimateRange {
        let mut sum = self.cost(&comprehension.iter_range).add(self.cost(&comprehension.accu_init));
        self.push_bound(&comprehension.accu_var, &comprehension.accu_init);
        let entry = self.entry(&comprehension.iter_range);
        let is_list = entry.map_or_else(
            || matches!(self.types.get(&comprehension.iter_range.id), Some(Type::List(_))),
            |entry| entry.is_list,
        );
        let path = self.path(&comprehension.iter_range);
        let mut push = |name: &str, step: &str, size: Option<EstimateRange>| {
            let mut path = path.clone();
            path.push(step.to_owned());
            self.locals.push(LocalVariable { name: name.to_owned(), path, size, entry: None });
        };
        let depth = match &comprehension.iter_var2 {
            Some(second) => {
                push(&comprehension.iter_var, if is_list { "@indices" } else { "@keys" }, entry.map(|entry| entry.key));
                push(second, if is_list { "@items" } else { "@values" }, entry.map(|entry| entry.value));
                2
            }
            None if is_list => {
                push(&comprehension.iter_var, "@items", entry.map(|entry| entry.value));
                1
            }
            None => {
                push(&comprehension.iter_var, "@keys", entry.map(|entry| entry.key));
                1
            }
        };
        let iteration_cost = self.cost(&comprehension.loop_cond).add(self.cost(&comprehension.loop_step));
        self.locals.truncate(self.locals.len() - depth);
        sum = sum.add(self.cost(&comprehension.result));
        self.locals.pop();
        let iterations = self.size_or_unknown(&comprehension.iter_range);
        match &comprehension.accu_init.expr {
            Expr::Literal(_) => {
                if let Some(size) = self.size(&comprehension.accu_init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Expr::List(_) | Expr::Map(_) => {
                self.sizes.insert(expr.id, iterations);
                if let Some(entry) = self.entry(&comprehension.loop_step) {
                    self.entries.insert(expr.id, entry);
                }
            }
            _ => {}
        }
        sum.add(iterations.times(iteration_cost))
    }

    /// Estimates a comprehension that only binds a value to a name.
    fn bind(&mut self, expr: &IdedExpr, comprehension: &ComprehensionExpr) -> EstimateRange {
        let mut sum = self.cost(&comprehension.iter_range).add(self.cost(&comprehension.accu_init));
        self.push_bound(&comprehension.accu_var, &comprehension.accu_init);
        sum = sum.add(self.cost(&comprehension.result));
        self.locals.pop();
        self.copy_sizes(expr.id, &comprehension.result);
        sum
    }

    fn push_bound(&mut self, name: &str, value: &IdedExpr) {
        let local = LocalVariable {
            name: name.to_owned(),
            path: self.path(value),
            size: self.size(value),
            entry: self.entry(value),
        };
        self.locals.push(local);
    }

    fn copy_sizes(&mut self, id: u64, from: &IdedExpr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(id, size);
        }
        if let Some(entry) = self.entry(from) {
            self.entries.insert(id, entry);
        }
    }

    fn local(&self, name: &str) -> Option<&LocalVariable> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &IdedExpr) -> Vec<String> {
        if let Expr::Ident(name) = &expr.expr
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// Returns the size that the schema declares at a path. The first step is the name of a
    /// variable and is skipped, because all variables have the root schema.
    fn declared_size(&self, path: &[String]) -> Option<EstimateRange> {
        let (_, steps) = path.split_first()?;
        let mut node = self.root;
        for step in steps {
            node = node.child(step)?;
        }
        Some(EstimateRange { min: 0, max: node.max_elements() })
    }

    fn size(&mut self, expr: &IdedExpr) -> Option<EstimateRange> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        let literal = match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count() as u64),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Some(bytes.inner().len() as u64),
            Expr::Literal(_) => Some(1),
            Expr::List(list) => Some(list.elements.len() as u64),
            Expr::Map(map) => Some(map.entries.len() as u64),
            _ => None,
        };
        if let Some(size) = literal {
            return Some(EstimateRange::fixed(size));
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if self.types.get(&expr.id).is_some_and(is_scalar) {
            return Some(EstimateRange::fixed(1));
        }
        match &expr.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &IdedExpr) -> EstimateRange {
        self.size(expr).unwrap_or(EstimateRange::UNKNOWN)
    }

    fn entry(&self, expr: &IdedExpr) -> Option<EntrySizes> {
        if let Some(entry) = self.entries.get(&expr.id) {
            return Some(*entry);
        }
        match &expr.expr {
            Expr::Ident(name) => self.local(name)?.entry,
            _ => None,
        }
    }

    fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> EstimateRange {
        if call.func_name == "dyn"
            && let [arg] = &call.args[..]
        {
            let cost = self.cost(arg).add(EstimateRange::fixed(1));
            self.copy_sizes(expr.id, arg);
            return cost;
        }
        let arg_costs: Vec<EstimateRange> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let Some(called) = self.calls.get(&expr.id) else { return EstimateRange::ZERO };
        let (name, overloads) = (called.function.name, called.overloads.clone());
        let mut target_cost = EstimateRange::ZERO;
        let target = call.target.as_deref().filter(|_| called.is_member);
        if let Some(target) = target {
            target_cost = self.cost(target);
        }
        let mut cost = EstimateRange { min: u64::MAX, max: 0 };
        let mut size: Option<EstimateRange> = None;
        for index in overloads {
            let Some(overload) = self.calls.get(&expr.id).and_then(|called| called.function.overloads.get(index))
            else {
                continue;
            };
            let estimate = self.overload(expr, name, &overload.params, target, &call.args, &arg_costs);
            cost = cost.union(estimate.cost);
            size = match (size, estimate.size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if name == "_[_]"
                && let (Some(container), Some(first)) = (call.args.first(), overload.params.first())
            {
                let step = match first {
                    Type::List(_) => Some("@items"),
                    Type::Map(_) => Some("@values"),
                    _ => None,
                };
                if let Some(step) = step {
                    size = self.entry(container).map(|entry| entry.value);
                    let mut path = self.path(container);
                    path.push(step.to_owned());
                    self.paths.insert(expr.id, path);
                }
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        target_cost.add(cost)
    }
}

fn is_scalar(type_: &Type<'_>) -> bool {
    match type_ {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
