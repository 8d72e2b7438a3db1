//! Arithmetic, comparison, membership and indexing. Integers never wrap: an overflow is an error.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::super::time::SECOND;
use super::super::value::{Arguments, EvalFailure, EvalResult, Text, Value, error, no_such_overload};

fn overflow<T>() -> Result<T, EvalFailure> {
    error("integer overflow")
}

fn int<'a>(n: Option<i64>) -> EvalResult<'a> {
    n.map_or_else(overflow, |n| Ok(Value::Int(n)))
}

fn uint<'a>(n: Option<u64>) -> EvalResult<'a> {
    n.map_or_else(|| error("unsigned integer overflow"), |n| Ok(Value::Uint(n)))
}

fn duration<'a>(n: Option<i64>) -> EvalResult<'a> {
    n.map_or_else(|| error("duration overflow"), |n| Ok(Value::Duration(n)))
}

pub(in super::super) fn identity<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    args.values.into_iter().next().map_or_else(no_such_overload, Ok)
}

pub(in super::super) fn not<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Bool(b)] => Ok(Value::Bool(!b)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn negate<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(n)] => int(n.checked_neg()),
        [Value::Double(d)] => Ok(Value::Double(-d)),
        [Value::Duration(n)] => duration(n.checked_neg()),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn add<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => Ok(Value::text(format!("{}{}", &**a, &**b))),
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes([&**a, &**b].concat().into())),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_add(*b)),
        [Value::Timestamp(instant), Value::Duration(n)] | [Value::Duration(n), Value::Timestamp(instant)] => {
            shift(*instant, *n)
        }
        [Value::List(a), Value::List(b)] => a.add(b),
        _ => no_such_overload(),
    }
}

fn shift<'a>(instant: jiff::Timestamp, nanoseconds: i64) -> EvalResult<'a> {
    match instant.checked_add(jiff::SignedDuration::from_nanos(nanoseconds)) {
        Ok(shifted) => Ok(Value::Timestamp(shifted)),
        Err(_) => error("timestamp overflow"),
    }
}

pub(in super::super) fn subtract<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_sub(*b)),
        [Value::Timestamp(instant), Value::Duration(n)] => match n.checked_neg() {
            Some(n) => shift(*instant, n),
            None => error("timestamp overflow"),
        },
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            let difference = a.duration_since(*b);
            let seconds = difference.as_secs().checked_mul(SECOND);
            duration(seconds.and_then(|nanoseconds| nanoseconds.checked_add(difference.subsec_nanos().into())))
        }
        _ => no_such_overload(),
    }
}

pub(in super::super) fn multiply<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn divide<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => error("division by zero"),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn modulo<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => error("modulus by zero"),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        _ => no_such_overload(),
    }
}

fn order<'a>(args: Arguments<'a, '_>, holds: impl Fn(Ordering) -> bool) -> EvalResult<'a> {
    match &args.values[..] {
        [a, b] => Ok(Value::Bool(a.compare(b)?.is_some_and(holds))),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn less<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    order(args, Ordering::is_lt)
}

pub(in super::super) fn less_equals<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    order(args, Ordering::is_le)
}

pub(in super::super) fn greater<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    order(args, Ordering::is_gt)
}

pub(in super::super) fn greater_equals<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    order(args, Ordering::is_ge)
}

pub(in super::super) fn equals<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [a, b] => Ok(Value::Bool(a.equals(b)?)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn not_equals<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [a, b] => Ok(Value::Bool(!a.equals(b)?)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_in<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [value, Value::List(list)] => Ok(Value::Bool(list.contains(value)?)),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key)?.is_some())),
        _ => no_such_overload(),
    }
}

/// Returns the element or entry. The inner error is the message for an absent element, which
/// optional indexing turns into none.
fn element_or_entry<'a>(container: &Value<'a>, key: &Value<'a>) -> Result<Result<Value<'a>, Rc<str>>, EvalFailure> {
    match (container, key) {
        (Value::List(list), key) => {
            let index = match key {
                Value::Int(n) => usize::try_from(*n).ok(),
                Value::Uint(n) => usize::try_from(*n).ok(),
                Value::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Some(*d as usize),
                _ => return no_such_overload(),
            };
            match index.and_then(|index| list.get(index)) {
                Some(item) => item.map(Ok),
                None => Ok(Err(format!("index out of bounds: {}", key.display_text()).into())),
            }
        }
        (Value::Map(map), key) => match map.get(key)? {
            Some(value) => value.map(Ok),
            None => Ok(Err(format!("no such key: {}", key.display_text()).into())),
        },
        _ => no_such_overload(),
    }
}

pub(in super::super) fn index<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Optional(None), _] => Ok(Value::NONE),
        [Value::Optional(Some(inner)), key] => Ok(element_or_entry(inner, key)?.map_or(Value::NONE, Value::some)),
        [container, key] => element_or_entry(container, key)?.map_err(EvalFailure::Error),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn optional_index<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Optional(None), _] => Ok(Value::NONE),
        [Value::Optional(Some(inner)), key] => Ok(element_or_entry(inner, key)?.map_or(Value::NONE, Value::some)),
        [container, key] => Ok(element_or_entry(container, key)?.map_or(Value::NONE, Value::some)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn size<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [
            value @ (Value::String(Text::Borrowed(_) | Text::Owned(_))
            | Value::Bytes(_)
            | Value::List(_)
            | Value::Map(_)),
        ] => Ok(Value::Int(value.size() as i64)),
        _ => no_such_overload(),
    }
}
