//! `min` and `max` of two numbers, which only numeric expressions have. A mixed pair gives a
//! double.

use super::super::value::{Arguments, EvalResult, Value, no_such_overload};

pub(in super::super) fn max<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    choose(&args, |a, b| a > b, |a, b| a > b)
}

pub(in super::super) fn min<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    choose(&args, |a, b| a < b, |a, b| a < b)
}

/// Returns the first number if it wins, otherwise the second, also if they cannot be compared.
fn choose<'a>(
    args: &Arguments<'a, '_>,
    wins: impl Fn(i64, i64) -> bool,
    wins_as_double: impl Fn(f64, f64) -> bool,
) -> EvalResult<'a> {
    let (a, b) = match args.values[..] {
        [Value::Int(a), Value::Int(b)] => return Ok(Value::Int(if wins(a, b) { a } else { b })),
        [Value::Double(a), Value::Double(b)] => (a, b),
        [Value::Int(a), Value::Double(b)] => (a as f64, b),
        [Value::Double(a), Value::Int(b)] => (a, b as f64),
        _ => return no_such_overload(),
    };
    Ok(Value::Double(if wins_as_double(a, b) { a } else { b }))
}
