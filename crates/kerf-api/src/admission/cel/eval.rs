//! Evaluates a checked expression on a cost budget. Every step is charged what cel-go charges for
//! it, and an evaluation that exceeds the limit ends with `OverBudget`.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::cost;
use super::program::{AccumulatorStep, ComprehensionNode, Constant, ProgramNode, SelectMode};
use super::value::{Arguments, EvalFailure, EvalResult, Items, List, Map, Text, Value, error, no_such_overload};

/// Evaluates `node` with the variables `self` and `oldSelf`. Also returns the cost, which exceeds
/// `limit` by at most one step.
pub(super) fn evaluate<'a>(
    node: &'a ProgramNode,
    self_value: EvalResult<'a>,
    old_self_value: Option<EvalResult<'a>>,
    limit: u64,
) -> (EvalResult<'a>, u64) {
    let no_old_self = || error("no such attribute(s): oldSelf");
    evaluate_with(node, vec![self_value, old_self_value.unwrap_or_else(no_old_self)], limit)
}

/// Evaluates `node` with the variables of `stack`. Also returns the cost, which exceeds `limit` by
/// at most one step.
pub(super) fn evaluate_with<'a>(
    node: &'a ProgramNode,
    stack: Vec<EvalResult<'a>>,
    limit: u64,
) -> (EvalResult<'a>, u64) {
    let mut evaluator = Evaluator { stack, cost: 0, limit };
    let value = evaluator.eval(node);
    (value, evaluator.cost)
}

struct Evaluator<'a> {
    /// Values of the variables by index. A variable may hold an error, which takes effect only when
    /// the variable is read.
    stack: Vec<EvalResult<'a>>,
    cost: u64,
    limit: u64,
}

impl<'a> Evaluator<'a> {
    fn charge(&mut self, cost: u64) -> Result<(), EvalFailure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(EvalFailure::OverBudget) } else { Ok(()) }
    }

    fn eval(&mut self, node: &'a ProgramNode) -> EvalResult<'a> {
        match node {
            ProgramNode::Constant(constant) => Ok(value_of(constant)),
            ProgramNode::Variable(stack_index) => {
                self.charge(cost::READ_COST)?;
                self.stack.get(*stack_index).cloned().unwrap_or_else(no_such_overload)
            }
            ProgramNode::Select { operand, field, mode } => self.select(operand, field, *mode),
            ProgramNode::And(operands) => self.logical(operands, false),
            ProgramNode::Or(operands) => self.logical(operands, true),
            ProgramNode::NotStrictlyFalse(operand) => match self.eval(operand) {
                Ok(Value::Bool(b)) => self.charge(1).map(|()| Value::Bool(b)),
                Err(EvalFailure::OverBudget) => Err(EvalFailure::OverBudget),
                Ok(_) | Err(EvalFailure::Error(_)) => self.charge(1).map(|()| Value::Bool(true)),
            },
            ProgramNode::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.eval(then),
                    Value::Bool(false) => self.eval(otherwise),
                    _ => no_such_overload(),
                }
            }
            ProgramNode::OptionalOr { operands, unwrap } => self.optional_or(operands, *unwrap),
            ProgramNode::Call { function, args, pattern } => {
                let values = args.iter().map(|arg| self.eval(arg)).collect::<Result<Vec<_>, _>>()?;
                // The cost of a call follows from its arguments, so it is charged before the call.
                self.charge(cost::call_cost(function.name, &values))?;
                let result = (function.implementation)(Arguments { values, pattern: pattern.as_ref() })?;
                self.charge(cost::result_cost(function.name, &result))?;
                Ok(result)
            }
            ProgramNode::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for element in elements {
                    let value = self.eval(&element.value)?;
                    match (element.optional, value) {
                        (false, value) => items.push(value),
                        (true, Value::Optional(Some(inner))) => items.push((*inner).clone()),
                        (true, Value::Optional(None)) => {}
                        (true, other) => {
                            return error(format!(
                                "cannot initialize optional list element from non-optional value {}",
                                other.display_text()
                            ));
                        }
                    }
                }
                self.charge(cost::NEW_LIST_COST)?;
                Ok(Value::list(items))
            }
            ProgramNode::Map(entries) => self.map(entries),
            ProgramNode::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn select(&mut self, operand: &'a ProgramNode, field: &str, mode: SelectMode) -> EvalResult<'a> {
        let operand = self.eval(operand)?;
        if mode != SelectMode::Presence {
            self.charge(cost::READ_COST)?;
        }
        let (target, is_optional) = match operand {
            Value::Optional(None) => {
                return Ok(if mode == SelectMode::Presence { Value::Bool(false) } else { Value::NONE });
            }
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, false),
        };
        let Value::Map(map) = target else { return no_such_overload() };
        let field_value = if map.is_object() {
            super::escape::unescape(field).and_then(|name| map.get_by_name(&name))
        } else {
            map.get_by_name(field)
        };
        match (mode, field_value) {
            (SelectMode::Presence, field_value) => Ok(Value::Bool(field_value.is_some())),
            (SelectMode::Field, Some(value)) if !is_optional => value,
            (SelectMode::Field, None) if !is_optional => error(format!("no such key: {field}")),
            (SelectMode::Field | SelectMode::Optional, Some(value)) => Ok(Value::some(value?)),
            (SelectMode::Field | SelectMode::Optional, None) => Ok(Value::NONE),
        }
    }

    /// Evaluates `&&` and `||`. If one operand decides the result, an error of the other is
    /// ignored.
    fn logical(&mut self, operands: &'a [ProgramNode; 2], deciding_value: bool) -> EvalResult<'a> {
        let mut failure = None;
        for operand in operands {
            match self.eval(operand) {
                Ok(Value::Bool(b)) if b == deciding_value => return Ok(Value::Bool(b)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(EvalFailure::Error("no such overload".into()))),
                Err(EvalFailure::OverBudget) => return Err(EvalFailure::OverBudget),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!deciding_value)), Err)
    }

    fn optional_or(&mut self, operands: &'a [ProgramNode; 2], unwrap: bool) -> EvalResult<'a> {
        match self.eval(&operands[0])? {
            Value::Optional(Some(inner)) => {
                self.charge(1)?;
                Ok(if unwrap { (*inner).clone() } else { Value::Optional(Some(inner)) })
            }
            Value::Optional(None) => {
                self.charge(1)?;
                self.eval(&operands[1])
            }
            _ => no_such_overload(),
        }
    }

    fn map(&mut self, entries: &'a [super::program::MapEntryNode]) -> EvalResult<'a> {
        let mut map = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let value = match (entry.optional, value) {
                (false, value) => value,
                (true, Value::Optional(Some(inner))) => (*inner).clone(),
                (true, Value::Optional(None)) => continue,
                (true, other) => {
                    return error(format!(
                        "cannot initialize optional entry from non-optional value {}",
                        other.display_text()
                    ));
                }
            };
            // If two entries have the same key, the later one is kept.
            map.insert(key.as_key()?, value);
        }
        self.charge(cost::NEW_MAP_COST)?;
        Ok(Value::Map(Map::Built(Rc::new(map))))
    }

    fn comprehension(&mut self, comprehension: &'a ComprehensionNode) -> EvalResult<'a> {
        let range = self.eval(&comprehension.range)?;
        let init = self.eval(&comprehension.init);
        debug_assert_eq!(
            self.stack.len(),
            comprehension.stack_index,
            "checker and evaluator use equal stack positions for variables"
        );
        self.stack.push(init);
        let loop_result = self.run_iterations(comprehension, &range);
        self.stack.truncate(comprehension.stack_index + 1);
        let result = loop_result.and_then(|()| self.eval(&comprehension.result));
        self.stack.truncate(comprehension.stack_index);
        result
    }

    fn run_iterations(&mut self, comprehension: &'a ComprehensionNode, range: &Value<'a>) -> Result<(), EvalFailure> {
        match range {
            Value::List(list) => {
                for (i, item) in list.iter().enumerate() {
                    let (first, second) = if comprehension.has_two_variables {
                        (Ok(Value::Int(i as i64)), item)
                    } else {
                        (item, Ok(Value::Null))
                    };
                    if !self.run_iteration(comprehension, first, second)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = if comprehension.has_two_variables {
                        map.get(&key)?.unwrap_or(Ok(Value::Null))
                    } else {
                        Ok(Value::Null)
                    };
                    if !self.run_iteration(comprehension, Ok(key), value)? {
                        break;
                    }
                }
                Ok(())
            }
            other => error(format!("got '{}', expected iterable type", other.type_name())),
        }
    }

    /// Runs one iteration. Returns false if the loop condition ended the loop.
    fn run_iteration(
        &mut self,
        comprehension: &'a ComprehensionNode,
        first: EvalResult<'a>,
        second: EvalResult<'a>,
    ) -> Result<bool, EvalFailure> {
        self.stack.truncate(comprehension.stack_index + 1);
        self.stack.push(first);
        if comprehension.has_two_variables {
            self.stack.push(second);
        }
        match self.eval(&comprehension.condition)? {
            Value::Bool(true) => {}
            _ => return Ok(false),
        }
        self.step(&comprehension.step, comprehension.stack_index)?;
        Ok(true)
    }

    fn step(&mut self, step: &'a AccumulatorStep, stack_index: usize) -> Result<(), EvalFailure> {
        match step {
            AccumulatorStep::Keep => self.charge(cost::READ_COST),
            AccumulatorStep::Append(node) => {
                let element = self.eval(node);
                self.charge(cost::READ_COST + cost::NEW_LIST_COST + 1)?;
                self.add_to_accumulator(stack_index, element, |accumulator, element| {
                    let Value::List(List { items: Items::Built(items), .. }) = accumulator else {
                        return no_such_overload();
                    };
                    Rc::make_mut(items).push(element);
                    Ok(())
                })
            }
            AccumulatorStep::Insert { key, value } => {
                let key = self.eval(key).and_then(|key| key.as_key());
                let value = self.eval(value);
                self.charge(cost::READ_COST + 1)?;
                let entry = key.and_then(|key| value.map(|value| (key, value)));
                self.add_to_accumulator(stack_index, entry, |accumulator, (key, value)| {
                    let Value::Map(Map::Built(entries)) = accumulator else { return no_such_overload() };
                    if Rc::make_mut(entries).insert(key, value).is_some() {
                        return error("insert failed: key already exists");
                    }
                    Ok(())
                })
            }
            AccumulatorStep::If { condition, then, otherwise } => match self.eval(condition) {
                Ok(Value::Bool(true)) => self.step(then, stack_index),
                Ok(Value::Bool(false)) => self.step(otherwise, stack_index),
                Ok(_) => self.set_accumulator(stack_index, no_such_overload()),
                Err(failure) => self.set_accumulator(stack_index, Err(failure)),
            },
            AccumulatorStep::Set(node) => {
                let value = self.eval(node);
                self.set_accumulator(stack_index, value)
            }
        }
    }

    fn add_to_accumulator<T>(
        &mut self,
        stack_index: usize,
        part: Result<T, EvalFailure>,
        add: impl FnOnce(&mut Value<'a>, T) -> Result<(), EvalFailure>,
    ) -> Result<(), EvalFailure> {
        let part = match part {
            Ok(part) => part,
            Err(failure) => return self.set_accumulator(stack_index, Err(failure)),
        };
        if let Some(Ok(accumulator)) = self.stack.get_mut(stack_index)
            && let Err(failure) = add(accumulator, part)
        {
            return self.set_accumulator(stack_index, Err(failure));
        }
        Ok(())
    }

    /// Replaces the accumulator. It may hold an error, which a later iteration may still override.
    /// `OverBudget` ends the evaluation.
    fn set_accumulator(&mut self, stack_index: usize, value: EvalResult<'a>) -> Result<(), EvalFailure> {
        if matches!(value, Err(EvalFailure::OverBudget)) {
            return Err(EvalFailure::OverBudget);
        }
        if let Some(accumulator) = self.stack.get_mut(stack_index) {
            *accumulator = value;
        }
        Ok(())
    }
}

fn value_of(constant: &Constant) -> Value<'_> {
    match constant {
        Constant::Null => Value::Null,
        Constant::Bool(b) => Value::Bool(*b),
        Constant::Int(n) => Value::Int(*n),
        Constant::Uint(n) => Value::Uint(*n),
        Constant::Double(d) => Value::Double(*d),
        Constant::String(text) => Value::String(Text::Borrowed(text)),
        Constant::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
        Constant::Type(name) => Value::Type(name.clone().into()),
    }
}
