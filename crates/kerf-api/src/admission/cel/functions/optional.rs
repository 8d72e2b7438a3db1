//! Optional values. `or` and `orValue` evaluate their second operand only if necessary, so the
//! evaluator handles them itself (`ProgramNode::OptionalOr`); the functions here complete the
//! function table.

use super::super::value::{Arguments, EvalResult, Value, error, no_such_overload};

pub(in super::super) fn of<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    args.values.into_iter().next().map_or_else(no_such_overload, |value| Ok(Value::some(value)))
}

pub(in super::super) fn of_non_zero_value<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let Some(value) = args.values.into_iter().next() else { return no_such_overload() };
    let zero = match &value {
        Value::Null
        | Value::Bool(false)
        | Value::Int(0)
        | Value::Uint(0)
        | Value::Duration(0)
        | Value::Optional(None) => true,
        Value::Double(d) => *d == 0.0,
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
        _ => false,
    };
    Ok(if zero { Value::NONE } else { Value::some(value) })
}

pub(in super::super) fn none<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    if args.values.is_empty() { Ok(Value::NONE) } else { no_such_overload() }
}

pub(in super::super) fn value<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        [Value::Optional(None)] => error("optional.none() dereference"),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn has_value<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn or<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [first @ Value::Optional(Some(_)), _] => Ok(first.clone()),
        [Value::Optional(None), second] => Ok(second.clone()),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn or_value<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Optional(Some(inner)), _] => Ok((**inner).clone()),
        [Value::Optional(None), second] => Ok(second.clone()),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn unwrap<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let [Value::List(list)] = &args.values[..] else { return no_such_overload() };
    let mut out = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(inner)) => out.push((*inner).clone()),
            Value::Optional(None) => {}
            other => return error(format!("value {} is not optional", other.display_text())),
        }
    }
    Ok(Value::list(out))
}
