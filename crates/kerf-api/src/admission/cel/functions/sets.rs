//! Set functions on lists (`sets.*`).

use super::super::value::{Arguments, EvalFailure, EvalResult, List, Value, no_such_overload};

fn pair<'v, 'a>(args: &'v Arguments<'a, '_>) -> Result<(&'v List<'a>, &'v List<'a>), EvalFailure> {
    match &args.values[..] {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => no_such_overload(),
    }
}

fn has_all<'a>(list: &List<'a>, wanted: &List<'a>) -> Result<bool, EvalFailure> {
    for item in wanted.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(in super::super) fn contains<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (list, wanted) = pair(&args)?;
    Ok(Value::Bool(has_all(list, wanted)?))
}

pub(in super::super) fn equivalent<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (a, b) = pair(&args)?;
    Ok(Value::Bool(has_all(a, b)? && has_all(b, a)?))
}

pub(in super::super) fn intersects<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (a, b) = pair(&args)?;
    for item in a.iter() {
        if b.contains(&item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
