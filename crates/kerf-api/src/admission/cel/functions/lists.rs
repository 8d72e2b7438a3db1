//! Functions on lists: search (also in strings), aggregation, slices, sorting.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::{Arguments, EvalFailure, EvalResult, Items, List, Map, Value, error, no_such_overload};
use super::{operators, strings};

pub(in super::super) fn index_of<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Int(match &args.values[..] {
        [Value::String(text), Value::String(part)] => strings::index_of(text, part, 0)?,
        [Value::String(text), Value::String(part), Value::Int(offset)] => strings::index_of(text, part, *offset)?,
        [Value::List(list), value] => index_or_minus_one(list.iter().enumerate(), value),
        _ => return no_such_overload(),
    }))
}

pub(in super::super) fn last_index_of<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Int(match &args.values[..] {
        [Value::String(text), Value::String(part)] => strings::last_index_of(text, part, None)?,
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            strings::last_index_of(text, part, Some(*offset))?
        }
        [Value::List(list), value] => {
            let last = list.len();
            index_or_minus_one(list.iter().rev().enumerate().map(|(i, item)| (last - 1 - i, item)), value)
        }
        _ => return no_such_overload(),
    }))
}

fn index_or_minus_one<'a>(items: impl Iterator<Item = (usize, EvalResult<'a>)>, value: &Value<'a>) -> i64 {
    let mut items = items;
    items
        .find(|(_, item)| item.as_ref().is_ok_and(|item| item.equals(value).unwrap_or(false)))
        .map_or(-1, |(i, _)| i as i64)
}

fn receiver<'v, 'a>(args: &'v Arguments<'a, '_>) -> Result<&'v List<'a>, EvalFailure> {
    match args.values.first() {
        Some(Value::List(list)) => Ok(list),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_sorted<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let items = receiver(&args)?.values()?;
    for pair in items.windows(2) {
        if pair[0].compare(&pair[1])? == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

pub(in super::super) fn sum<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let mut total: Option<Value<'a>> = None;
    for item in receiver(&args)?.iter() {
        let item = item?;
        total = Some(match total {
            None => item,
            Some(total) => operators::add(Arguments { values: vec![total, item], pattern: None })?,
        });
    }
    // An empty list has a type only in the schema. The integer zero equals zero of any number type.
    Ok(total.unwrap_or_else(|| match &args.values[..] {
        [Value::List(List { items: Items::Json(_, schema), .. })] if schema.format_name == "duration" => {
            Value::Duration(0)
        }
        _ => Value::Int(0),
    }))
}

fn best_element<'a>(args: &Arguments<'a, '_>, name: &str, better: Ordering) -> EvalResult<'a> {
    let mut best: Option<Value<'a>> = None;
    for item in receiver(args)?.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if item.compare(&best)? != Some(better) => best,
            _ => item,
        });
    }
    best.map_or_else(|| error(format!("{name} called on empty list")), Ok)
}

pub(in super::super) fn max<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    best_element(&args, "max", Ordering::Greater)
}

pub(in super::super) fn min<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    best_element(&args, "min", Ordering::Less)
}

pub(in super::super) fn slice<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = &args.values[..] else { return no_such_overload() };
    let length = list.len();
    if *start < 0 || *end < 0 {
        return error(format!("cannot slice({start}, {end}), negative indexes not supported"));
    }
    if start > end {
        return error(format!("cannot slice({start}, {end}), start index must be less than or equal to end index"));
    }
    let (from, to) = (usize::try_from(*start).unwrap_or(usize::MAX), usize::try_from(*end).unwrap_or(usize::MAX));
    if to > length {
        return error(format!("cannot slice({start}, {end}), list is length {length}"));
    }
    Ok(Value::list(list.iter().skip(from).take(to - from).collect::<Result<Vec<_>, _>>()?))
}

pub(in super::super) fn flatten<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let depth = match &args.values[..] {
        [_] => 1,
        [_, Value::Int(depth)] if *depth < 0 => return error("level must be non-negative"),
        [_, Value::Int(depth)] => *depth,
        _ => return no_such_overload(),
    };
    let mut out = Vec::new();
    flatten_into(receiver(&args)?, depth, &mut out)?;
    Ok(Value::list(out))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) -> Result<(), EvalFailure> {
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out)?,
            other => out.push(other),
        }
    }
    Ok(())
}

pub(in super::super) fn sort<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let items = receiver(&args)?.values()?;
    sort_items(items.clone(), items)
}

pub(in super::super) fn sort_by_keys<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let [Value::List(list), Value::List(keys)] = &args.values[..] else { return no_such_overload() };
    if list.len() != keys.len() {
        return error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        ));
    }
    sort_items(list.values()?, keys.values()?)
}

/// Returns the items in the order of their keys. Items with equal keys keep their order.
fn sort_items<'a>(items: Vec<Value<'a>>, keys: Vec<Value<'a>>) -> EvalResult<'a> {
    // All keys are compared with the first one, so that keys without an order are found before
    // sorting starts.
    if let Some(first) = keys.first() {
        for key in &keys {
            if first.type_name() != key.type_name() {
                return error("list elements must have the same type");
            }
            if key.compare(first).is_err() {
                return error("list elements must be comparable");
            }
        }
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(items).collect();
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

pub(in super::super) fn range<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Int(end)] => Ok(Value::list((0..*end).map(Value::Int).collect())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn reverse<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let mut items = receiver(&args)?.values()?;
    items.reverse();
    Ok(Value::list(items))
}

pub(in super::super) fn distinct<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in receiver(&args)?.iter() {
        let item = item?;
        if !unique.iter().any(|known| known.equals(&item).unwrap_or(false)) {
            unique.push(item);
        }
    }
    Ok(Value::list(unique))
}

pub(in super::super) fn first<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match receiver(&args)?.get(0) {
        Some(item) => Ok(Value::some(item?)),
        None => Ok(Value::NONE),
    }
}

pub(in super::super) fn last<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let list = receiver(&args)?;
    match list.len().checked_sub(1).and_then(|last| list.get(last)) {
        Some(item) => Ok(Value::some(item?)),
        None => Ok(Value::NONE),
    }
}

/// Implements `cel.@mapInsert` for comprehensions that build maps and could not be evaluated in
/// place.
pub(in super::super) fn map_insert<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let (Some(Value::Map(Map::Built(map))), added) = (args.values.first(), args.values.get(1..).unwrap_or_default())
    else {
        return no_such_overload();
    };
    let mut map = (**map).clone();
    let entries = match added {
        [key, value] => vec![(key.as_key()?, value.clone())],
        [Value::Map(Map::Built(entries))] => entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        _ => return no_such_overload(),
    };
    for (key, value) in entries {
        if map.insert(key, value).is_some() {
            return error("insert failed: key already exists");
        }
    }
    Ok(Value::Map(Map::Built(Rc::new(map))))
}
