//! Kubernetes quantities, and the comparison functions that they share with semantic versions.

use std::cmp::Ordering;
use std::str::FromStr;

use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};
use crate::quantity::Quantity;

const NANOS_PER_UNIT: i128 = 1_000_000_000;

pub(in super::super) fn parse<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => match Quantity::from_str(text) {
            Ok(quantity) => Ok(Value::Quantity(quantity)),
            Err(_) => {
                error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
            }
        },
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_quantity<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::Bool(Quantity::from_str(text).is_ok())),
        _ => no_such_overload(),
    }
}

fn receiver(args: &Arguments<'_, '_>) -> Result<Quantity, EvalFailure> {
    match args.values.first() {
        Some(Value::Quantity(quantity)) => Ok(*quantity),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn sign<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Int(receiver(&args)?.nanos().signum() as i64))
}

pub(in super::super) fn as_approximate_float<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Double(receiver(&args)?.nanos() as f64 / NANOS_PER_UNIT as f64))
}

/// Returns the quantity as a whole number; `None` if it has a fraction or does not fit.
fn whole(quantity: Quantity) -> Option<i64> {
    (quantity.nanos() % NANOS_PER_UNIT == 0).then(|| i64::try_from(quantity.nanos() / NANOS_PER_UNIT).ok())?
}

pub(in super::super) fn as_integer<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    whole(receiver(&args)?).map_or_else(|| error("cannot convert value to integer"), |n| Ok(Value::Int(n)))
}

pub(in super::super) fn is_integer<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(whole(receiver(&args)?).is_some()))
}

fn operand(args: &Arguments<'_, '_>) -> Result<Quantity, EvalFailure> {
    match args.values.get(1) {
        Some(Value::Quantity(quantity)) => Ok(*quantity),
        Some(Value::Int(n)) => Ok(Quantity::from_units(*n)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn add<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Quantity(receiver(&args)? + operand(&args)?))
}

pub(in super::super) fn sub<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Quantity(receiver(&args)? - operand(&args)?))
}

fn order(args: &Arguments<'_, '_>) -> Result<Ordering, EvalFailure> {
    match &args.values[..] {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(a.cmp(b)),
        [Value::Semver(a), Value::Semver(b)] => Ok(a.cmp(b)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_greater_than<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(order(&args)?.is_gt()))
}

pub(in super::super) fn is_less_than<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(order(&args)?.is_lt()))
}

pub(in super::super) fn compare_to<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Int(order(&args)? as i64))
}
