//! Functions on strings, indexed by character. A result that exceeds `TEXT_MAX_BYTES` is rejected
//! before it is built.

use super::super::value::{Arguments, EvalFailure, EvalResult, Value, error, no_such_overload};

/// Limit on the size of a text that a rule creates. No object is larger than 3 MiB, so a larger
/// text has no use.
pub(super) const TEXT_MAX_BYTES: usize = 4 << 20;

fn compare_texts<'a>(args: Arguments<'a, '_>, holds: impl Fn(&str, &str) -> bool) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn contains<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    compare_texts(args, |text, part| text.contains(part))
}

pub(in super::super) fn starts_with<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    compare_texts(args, |text, part| text.starts_with(part))
}

pub(in super::super) fn ends_with<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    compare_texts(args, |text, part| text.ends_with(part))
}

fn out_of_range<T>(index: i64) -> Result<T, EvalFailure> {
    error(format!("index out of range: {index}"))
}

/// Returns the byte offset of a character; `None` if the index is outside the text.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

pub(in super::super) fn char_at<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text), Value::Int(index)] => match byte_of(text, *index) {
            Some(at) => Ok(Value::text(text[at..].chars().next().map(String::from).unwrap_or_default())),
            None => out_of_range(*index),
        },
        _ => no_such_overload(),
    }
}

/// Returns the character index of the first occurrence of `part` at or after `offset`; -1 if there
/// is none.
pub(super) fn index_of(text: &str, part: &str, offset: i64) -> Result<i64, EvalFailure> {
    if part.is_empty() {
        return Ok(offset);
    }
    if offset < 0 {
        return out_of_range(offset);
    }
    let Some(start) = byte_of(text, offset) else { return Ok(-1) };
    Ok(text[start..].find(part).map_or(-1, |at| text[..start + at].chars().count() as i64))
}

/// Returns the character index of the last occurrence of `part` at or before `offset`; -1 if there
/// is none.
pub(super) fn last_index_of(text: &str, part: &str, offset: Option<i64>) -> Result<i64, EvalFailure> {
    let length = text.chars().count() as i64;
    let offset = match offset {
        _ if part.is_empty() => return Ok(offset.unwrap_or(length)),
        None if text.len() < part.len() => return Ok(-1),
        None => length - 1,
        Some(offset) => offset,
    };
    if offset < 0 {
        return out_of_range(offset);
    }
    if offset >= length {
        return Ok(-1);
    }
    let Some(start) = byte_of(text, offset) else { return Ok(-1) };
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    Ok(text[..end].rfind(part).filter(|at| *at <= start).map_or(-1, |at| text[..at].chars().count() as i64))
}

pub(in super::super) fn lower_ascii<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::text(text.to_ascii_lowercase())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn upper_ascii<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::text(text.to_ascii_uppercase())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn replace<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (text, from, to, count) = match &args.values[..] {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, usize::MAX),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(n)] => {
            (text, from, to, usize::try_from(*n).unwrap_or(usize::MAX))
        }
        _ => return no_such_overload(),
    };
    let occurrences = text.matches(&**from).take(count).count();
    if text.len().saturating_add(occurrences.saturating_mul(to.len())) > TEXT_MAX_BYTES {
        return Err(EvalFailure::OverBudget);
    }
    Ok(Value::text(text.replacen(&**from, to, occurrences)))
}

pub(in super::super) fn split<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (text, separator, limit) = match &args.values[..] {
        [Value::String(text), Value::String(separator)] => (text, separator, None),
        [Value::String(text), Value::String(separator), Value::Int(n)] => (text, separator, usize::try_from(*n).ok()),
        _ => return no_such_overload(),
    };
    let limit = limit.unwrap_or(usize::MAX);
    let parts: Vec<Value<'a>> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        // Go splits into characters; the last part is the rest of the text.
        let mut parts = Vec::new();
        let mut rest = &**text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                break;
            }
            parts.push(Value::text(c.to_string()));
            rest = &rest[c.len_utf8()..];
        }
        if !rest.is_empty() {
            parts.push(Value::text(rest));
        }
        parts
    } else {
        text.splitn(limit, &**separator).map(Value::text).collect()
    };
    Ok(Value::list(parts))
}

pub(in super::super) fn substring<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (text, start, end) = match &args.values[..] {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return no_such_overload(),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return error(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let Some(from) = byte_of(text, start) else { return out_of_range(start) };
    let to = match end {
        None => text.len(),
        Some(end) => match byte_of(text, end) {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    Ok(Value::text(&text[from..to]))
}

pub(in super::super) fn trim<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::text(text.trim())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn quote<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let [Value::String(text)] = &args.values[..] else { return no_such_overload() };
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(Value::text(out))
}

pub(in super::super) fn join<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (list, separator) = match &args.values[..] {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return no_such_overload(),
    };
    let mut out = String::new();
    for (i, item) in list.iter().enumerate() {
        match item? {
            Value::String(text) => {
                if i > 0 {
                    out.push_str(separator);
                }
                out.push_str(&text);
            }
            other => return error(format!("join: invalid input: {}", other.display_text())),
        }
        if out.len() > TEXT_MAX_BYTES {
            return Err(EvalFailure::OverBudget);
        }
    }
    Ok(Value::text(out))
}
