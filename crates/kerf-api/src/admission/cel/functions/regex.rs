//! Functions with regular expressions. A literal pattern is compiled with the rule, any other when
//! it is used.

use super::super::super::regexp::Regexp;
use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};

/// Calls `run` with the pattern. If the pattern does not compile, the error text begins with
/// `wording`.
fn with_pattern<T>(
    compiled: Option<&Regexp>,
    pattern: &str,
    wording: &str,
    apply: impl FnOnce(&Regexp) -> T,
) -> Result<T, EvalFailure> {
    match compiled {
        Some(regexp) => Ok(apply(regexp)),
        None => match Regexp::new(pattern) {
            Ok(regexp) => Ok(apply(&regexp)),
            Err(text) => error(format!("{wording}{text}")),
        },
    }
}

pub(in super::super) fn matches<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text), Value::String(pattern)] => {
            Ok(Value::Bool(with_pattern(args.pattern, pattern, "", |regexp| regexp.is_match(text))?))
        }
        _ => no_such_overload(),
    }
}

pub(in super::super) fn find<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text), Value::String(pattern)] => {
            with_pattern(args.pattern, pattern, "Illegal regex: ", |regexp| {
                Value::text(regexp.find(text).unwrap_or_default())
            })
        }
        _ => no_such_overload(),
    }
}

pub(in super::super) fn find_all<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (text, pattern, limit) = match &args.values[..] {
        [Value::String(text), Value::String(pattern)] => (text, pattern, usize::MAX),
        [Value::String(text), Value::String(pattern), Value::Int(n)] => {
            (text, pattern, usize::try_from(*n).unwrap_or(usize::MAX))
        }
        _ => return no_such_overload(),
    };
    with_pattern(args.pattern, pattern, "Illegal regex: ", |regexp| {
        Value::list(regexp.find_iter(text).take(limit).map(Value::text).collect())
    })
}
