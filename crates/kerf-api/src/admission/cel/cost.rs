//! Runtime cost of rules in cel-go's units (one unit is about 100 ns there). Kubernetes limits the
//! cost of one rule and of all rules of an object.

use super::value::{Map, Value};

/// Cost of reading a variable or a field.
pub(super) const READ_COST: u64 = 1;
pub(super) const NEW_LIST_COST: u64 = 10;
pub(super) const NEW_MAP_COST: u64 = 30;
/// Limit on the cost of one rule on one value.
pub(super) const RULE_COST_MAX: u64 = 1_000_000;
/// Limit on the cost of all rules of one object together.
pub(super) const OBJECT_COST_MAX: i64 = 10_000_000;

/// Returns the cost of reading text: a tenth of a unit per character, rounded up.
fn traversal_cost(size: u64) -> u64 {
    size.div_ceil(10)
}

/// Returns the cost of a regular expression: a quarter of a unit per character of the pattern,
/// times the cost of the text.
fn matching_cost(text: u64, pattern: u64) -> u64 {
    traversal_cost(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// Returns the cost of a call, as far as it follows from the arguments.
pub(super) fn call_cost(function: &str, args: &[Value<'_>]) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, Value::size);
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, elements_cost),
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "url" | "isIP" | "cidr" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith" | "bytes" | "strings.quote" | "format" => {
            traversal_cost(size(0))
        }
        "ip" if !matches!(args.first(), Some(Value::Cidr(_))) => traversal_cost(size(0)),
        "string" if matches!(args.first(), Some(Value::Bytes(_))) => traversal_cost(size(0)),
        "replace" | "split" | "ip.isCanonical" => traversal_cost(size(0).saturating_mul(2)),
        "find" | "findAll" | "matches" => matching_cost(size(0), size(1)),
        "validate" => matching_cost(size(1), 128),
        "contains" => traversal_cost(size(0)).saturating_mul(traversal_cost(size(1))),
        "containsIP" | "containsCIDR" => 4 + traversal_cost(size(1)),
        "@in" if matches!(args.get(1), Some(Value::List(_))) => size(1),
        "_==_" | "_!=_" => traversal_cost(size(0).min(size(1))).max(1),
        "_<_" | "_<=_" | "_>_" | "_>=_" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal_cost(size(0).min(size(1)))
        }
        "_+_" if matches!(args.first(), Some(Value::String(_) | Value::Bytes(_))) => {
            traversal_cost(size(0).saturating_add(size(1)))
        }
        "_+_" if matches!(args.first(), Some(Value::List(_))) => 1 + traversal_cost(size(0).saturating_add(size(1))),
        "sets.contains" | "sets.intersects" => 1 + size(0).saturating_mul(size(1)),
        "sets.equivalent" => 1 + size(0).saturating_mul(size(1)).saturating_mul(2),
        "distinct" => 1 + size(0).saturating_mul(size(0)),
        "sort" | "@sortByAssociatedKeys" | "slice" | "flatten" | "reverse" | "optional.unwrap" | "unwrapOpt" => {
            1 + size(0)
        }
        "lists.range" => match args.first() {
            Some(Value::Int(n)) => 1 + u64::try_from(*n).unwrap_or(0),
            _ => 1,
        },
        "cel.@mapInsert" => 1 + size(0),
        _ => 1,
    }
}

/// Returns the part of a call's cost that is known only from its result.
pub(super) fn result_cost(function: &str, result: &Value<'_>) -> u64 {
    if function == "join" { traversal_cost(result.size().saturating_mul(2)) } else { 0 }
}

/// Returns the cost of visiting every element inside a value.
fn elements_cost(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => {
            list.iter().filter_map(Result::ok).map(|item| elements_cost(&item)).fold(0, u64::saturating_add)
        }
        Value::Map(map @ (Map::Json(..) | Map::Built(_))) => map
            .keys()
            .iter()
            .map(|key| match map.get(key) {
                Ok(Some(Ok(value))) => elements_cost(key).saturating_add(elements_cost(&value)),
                _ => elements_cost(key),
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}
