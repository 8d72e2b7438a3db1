//! Schema-driven operations of structured merge: the fields of an object, the difference of two
//! objects, merging, and removing fields. Maps and structs are merged by key, associative lists by
//! the keys of their items, and all other values are replaced.

use serde_json::{Map, Value};
use smol_str::{SmolStr, SmolStrBuilder};

use super::field_set::{FieldSet, FieldSetNode, field};
use crate::api::schema::{ListKey, ListMergeType, SchemaCursor};

/// The difference between two objects.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Takes the fields that were added or modified.
    pub(super) fn take_changed(&mut self) -> FieldSet {
        std::mem::take(&mut self.added).union(&std::mem::take(&mut self.modified))
    }
}

/// Returns the identity of an item of an associative list, or a message that states why it has
/// none.
pub(super) fn element(kind: &ListMergeType, item: &Value) -> Result<SmolStr, String> {
    match kind {
        ListMergeType::Atomic => Err("an atomic list has no items of their own".into()),
        ListMergeType::Set => match item {
            Value::Array(_) | Value::Object(_) | Value::Null => Err("an item of a set must be a scalar".into()),
            scalar => Ok(smol_str::format_smolstr!("v:{scalar}")),
        },
        ListMergeType::Map(keys) => {
            let item = item.as_object().ok_or("associative list with keys may not have non-map elements")?;
            if let [ListKey { name, default }] = &**keys
                && let Some(Value::String(value)) = item.get(name.as_str()).or(default.as_ref())
                && is_plain(name)
                && is_plain(value)
            {
                // Fast path for the most common case, an item with a plain name.
                let mut identity = SmolStrBuilder::new();
                for part in ["k:{\"", name, "\":\"", value, "\"}"] {
                    identity.push_str(part);
                }
                return Ok(identity.finish());
            }
            let mut identity = Map::new();
            for ListKey { name, default } in keys {
                match item.get(name.as_str()).or(default.as_ref()) {
                    Some(value) => drop(identity.insert(name.to_string(), value.clone())),
                    None => {
                        return Err(format!(
                            "associative list with keys has an element that omits key field \"{name}\" (and doesn't have default value)"
                        ));
                    }
                }
            }
            Ok(smol_str::format_smolstr!("k:{}", Value::Object(identity)))
        }
    }
}

/// Returns true if the text needs no escapes in JSON.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

/// Returns all fields that `object` sets, or an error for a list whose items have no distinct
/// identities.
pub(super) fn fields(at: SchemaCursor<'_>, object: &Value) -> Result<FieldSet, String> {
    let mut nodes: Vec<(SmolStr, FieldSetNode)> = Vec::new();
    match object {
        Value::Object(entries) => {
            for (key, value) in entries {
                let inner = at.at_key(key);
                let (mut below, mut member) = (FieldSet::default(), true);
                if !is_leaf(inner, value) {
                    below = fields(inner, value).map_err(|problem| format!(".{key}{problem}"))?;
                    member = !at.has_field(key);
                }
                nodes.push((field(key), FieldSetNode { is_member: member, children: below }));
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                let identity =
                    element(at.list_merge_type(), item).map_err(|problem| format!(": element {place}: {problem}"))?;
                if nodes.iter().any(|(other, _)| *other == identity) {
                    return Err(format!(": duplicate entries for key {}", super::field_set::display_path(&[identity])));
                }
                let below = if is_leaf(at.at_item(), item) { FieldSet::default() } else { fields(at.at_item(), item)? };
                nodes.push((identity, FieldSetNode { is_member: true, children: below }));
            }
        }
        _ => {}
    }
    Ok(FieldSet::from_nodes(nodes.into_iter()))
}

/// Returns true if the value is owned as a whole: scalars, atomic maps and lists, and empty ones.
fn is_leaf(at: SchemaCursor<'_>, value: &Value) -> bool {
    match value {
        Value::Object(entries) => entries.is_empty() || at.is_atomic(),
        Value::Array(items) => items.is_empty() || *at.list_merge_type() == ListMergeType::Atomic,
        _ => true,
    }
}

/// Returns the difference from `old` to `new`. `standing` are fields of Go structs that exist even
/// if the object does not set them (such as `spec`), so that no manager becomes the owner of the
/// field itself.
pub(super) fn compare(at: SchemaCursor<'_>, old: &Value, new: &Value, standing: &[&str]) -> Comparison {
    let mut comparison = Comparison::default();
    Walk { implicit_fields: standing }.children(
        ComparePosition { at, in_struct: true },
        Some(old),
        Some(new),
        &mut comparison,
    );
    comparison
}

struct Walk<'a> {
    implicit_fields: &'a [&'a str],
}

/// The position of a comparison.
#[derive(Clone, Copy)]
struct ComparePosition<'a> {
    at: SchemaCursor<'a>,
    /// True if the path to this position has no items of lists.
    in_struct: bool,
}

/// The change of the path itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldChange {
    Added,
    Modified,
    Removed,
    Unchanged,
}

impl FieldChange {
    fn of(old: Option<&Value>, new: Option<&Value>) -> Self {
        match (old, new) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            _ => Self::Modified,
        }
    }
}

impl Comparison {
    fn push(&mut self, element: &SmolStr, became: FieldChange, below: Comparison) {
        for (set, below, kind) in [
            (&mut self.added, below.added, FieldChange::Added),
            (&mut self.modified, below.modified, FieldChange::Modified),
            (&mut self.removed, below.removed, FieldChange::Removed),
        ] {
            set.push(element.clone(), FieldSetNode { is_member: became == kind, children: below });
        }
    }
}

impl Walk<'_> {
    /// Compares two different values of one path.
    fn differ(
        &self,
        here: ComparePosition<'_>,
        element: &SmolStr,
        old: Option<&Value>,
        new: Option<&Value>,
        comparison: &mut Comparison,
    ) {
        if let (None, Some(new)) = (old, new) {
            comparison.added.push(element.clone(), self.new_node(here, element, new));
            return;
        }
        let leaf = |value: Option<&Value>| value.is_none_or(|value| is_leaf(here.at, value));
        let mut below = Comparison::default();
        let became = if leaf(old) && leaf(new) || kinds_differ(old, new) {
            FieldChange::of(old, new)
        } else {
            self.children(here, old, new, &mut below);
            match FieldChange::of(old, new) {
                FieldChange::Modified => FieldChange::Unchanged,
                became => became,
            }
        };
        comparison.push(element, became, below);
    }

    /// Returns the node of a value that did not exist before. Most values of create requests and
    /// first status updates are new.
    fn new_node(&self, here: ComparePosition<'_>, element: &SmolStr, new: &Value) -> FieldSetNode {
        if is_leaf(here.at, new) {
            return FieldSetNode { is_member: true, children: FieldSet::default() };
        }
        let mut below = FieldSet::default();
        match new {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let (inner, element) = (ComparePosition { at: here.at.at_key(key), ..here }, field(key));
                    let node = self.new_node(inner, &element, value);
                    below.push(element, node);
                }
            }
            Value::Array(_) => {
                let inner = ComparePosition { at: here.at.at_item(), in_struct: false };
                for (identity, items) in index(here.at.list_merge_type(), Some(new)) {
                    let node = match items.as_slice() {
                        [item] => self.new_node(inner, &identity, item),
                        // Duplicate items are owned together, as one item.
                        _ => FieldSetNode { is_member: true, children: FieldSet::default() },
                    };
                    below.push(identity, node);
                }
                below.sort();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        let stands = here.in_struct && self.implicit_fields.contains(&&element[2..]);
        FieldSetNode { is_member: !stands, children: below }
    }

    fn children(
        &self,
        here: ComparePosition<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        comparison: &mut Comparison,
    ) {
        if let (Some(Value::Array(_)), _) | (_, Some(Value::Array(_))) = (old, new) {
            self.items(here, old, new, comparison);
            return;
        }
        let empty = Map::new();
        let (old, new) =
            (old.and_then(Value::as_object).unwrap_or(&empty), new.and_then(Value::as_object).unwrap_or(&empty));
        let (mut was, mut is) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let key = match (was.peek(), is.peek()) {
                (None, None) => return,
                (Some((key, _)), None) | (None, Some((key, _))) => *key,
                (Some((one, _)), Some((two, _))) => *one.min(two),
            };
            let old = was.next_if(|(own, _)| *own == key).map(|(_, value)| value);
            let new = is.next_if(|(own, _)| *own == key).map(|(_, value)| value);
            if old != new {
                let inner = ComparePosition { at: here.at.at_key(key), in_struct: here.in_struct };
                self.differ(inner, &field(key), old, new, comparison);
            }
        }
    }

    fn items(&self, here: ComparePosition<'_>, old: Option<&Value>, new: Option<&Value>, comparison: &mut Comparison) {
        let kind = here.at.list_merge_type();
        let (old, new) = (index(kind, old), index(kind, new));
        let inner = ComparePosition { at: here.at.at_item(), in_struct: false };
        let none: &[&Value] = &[];
        let added = new.iter().filter(|(identity, _)| !old.iter().any(|(other, _)| other == identity));
        for (identity, _) in old.iter().chain(added) {
            let find = |index: &'_ [(SmolStr, Vec<&'_ Value>)]| -> Option<usize> {
                index.iter().position(|(other, _)| other == identity)
            };
            let was = find(&old).map_or(none, |place| &old[place].1);
            let is = find(&new).map_or(none, |place| &new[place].1);
            let compare = |old: Option<&Value>, new: Option<&Value>, comparison: &mut Comparison| {
                if old != new {
                    self.differ(inner, identity, old, new, comparison);
                }
            };
            match (was, is) {
                // Duplicate items are owned together, as one item.
                ([_, _, ..], [_, _, ..]) => {
                    if was != is {
                        comparison.push(identity, FieldChange::Modified, Comparison::default());
                    }
                }
                ([_, _, ..], _) => {
                    compare(None, is.first().copied(), comparison);
                    comparison.push(identity, FieldChange::Removed, Comparison::default());
                }
                (_, [_, _, ..]) => {
                    compare(was.first().copied(), None, comparison);
                    comparison.push(identity, FieldChange::Added, Comparison::default());
                }
                (was, is) => compare(was.first().copied(), is.first().copied(), comparison),
            }
        }
        for set in [&mut comparison.added, &mut comparison.modified, &mut comparison.removed] {
            set.sort();
        }
    }
}

/// Groups the items of a list by identity, in the order of their first item. Items without an
/// identity are left out.
fn index<'a>(kind: &ListMergeType, list: Option<&'a Value>) -> Vec<(SmolStr, Vec<&'a Value>)> {
    let mut index: Vec<(SmolStr, Vec<&Value>)> = Vec::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(identity) = element(kind, item) {
            match index.iter_mut().find(|(other, _)| *other == identity) {
                Some((_, items)) => items.push(item),
                None => index.push((identity, vec![item])),
            }
        }
    }
    index
}

fn kinds_differ(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            std::mem::discriminant(old) != std::mem::discriminant(new) && !old.is_null() && !new.is_null()
        }
        _ => false,
    }
}

/// Merges `over` into `under`. Values of `over` win.
pub(super) fn merge(at: SchemaCursor<'_>, under: &Value, over: &Value) -> Value {
    match (under, over) {
        (Value::Object(below), Value::Object(above)) if !(at.is_atomic() || (below.is_empty() && above.is_empty())) => {
            let mut merged = below.clone();
            for (key, value) in above {
                let value = below.get(key).map_or_else(|| value.clone(), |under| merge(at.at_key(key), under, value));
                merged.insert(key.clone(), value);
            }
            merged.into()
        }
        (Value::Array(below), Value::Array(above)) if *at.list_merge_type() != ListMergeType::Atomic => {
            merge_lists(at, below, above).into()
        }
        (_, over) => over.clone(),
    }
}

/// Merges the items that are in both lists, in the order of `above`. The other items keep their
/// neighbours.
fn merge_lists(at: SchemaCursor<'_>, below: &[Value], above: &[Value]) -> Vec<Value> {
    let identify = |items: &[Value]| -> Vec<SmolStr> {
        items.iter().map(|item| element(at.list_merge_type(), item).unwrap_or_default()).collect()
    };
    let (left, right) = (identify(below), identify(above));
    let merged = |place: usize| match left.iter().position(|identity| *identity == right[place]) {
        Some(under) => merge(at.at_item(), &below[under], &above[place]),
        None => above[place].clone(),
    };
    let mut shared = right.iter().filter(|identity| left.contains(identity));
    let mut next_shared = shared.next();
    let mut done: Vec<&SmolStr> = Vec::new();
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            if left[l] == right[r] {
                done.push(&right[r]);
                out.push(merged(r));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if right.contains(&left[l]) && next_shared.is_some_and(|next| *next != left[l]) {
                l += 1;
                continue;
            }
        }
        if l < left.len() {
            if !right.contains(&left[l]) {
                out.push(below[l].clone());
                l += 1;
                continue;
            }
            if done.contains(&&left[l]) {
                l += 1;
            }
        }
        if r < right.len() {
            done.push(&right[r]);
            out.push(merged(r));
            if next_shared == Some(&right[r]) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    out
}

/// Returns `object` without the fields of `gone`. Maps and lists that become empty are removed too;
/// `None` if nothing remains.
pub(super) fn without(at: SchemaCursor<'_>, object: &Value, gone: &FieldSet) -> Option<Value> {
    match object {
        Value::Object(entries) if !entries.is_empty() && !at.is_atomic() => {
            let mut kept = Map::new();
            for (key, value) in entries {
                match gone.get(&field(key)) {
                    Some(node) if node.is_member => {}
                    Some(node) => {
                        drop(kept.insert(
                            key.clone(),
                            without(at.at_key(key), value, &node.children).unwrap_or(Value::Null),
                        ));
                    }
                    None => drop(kept.insert(key.clone(), value.clone())),
                }
            }
            kept.retain(|_, value| !value.is_null());
            (!kept.is_empty()).then(|| kept.into())
        }
        Value::Array(items) if !items.is_empty() && *at.list_merge_type() != ListMergeType::Atomic => {
            let mut kept = Vec::new();
            for item in items {
                match element(at.list_merge_type(), item).ok().and_then(|identity| gone.get(&identity)) {
                    Some(node) if node.is_member => {}
                    Some(node) => kept.extend(without(at.at_item(), item, &node.children)),
                    None => kept.push(item.clone()),
                }
            }
            (!kept.is_empty()).then(|| kept.into())
        }
        Value::Object(_) | Value::Array(_) => None,
        scalar => Some(scalar.clone()),
    }
}

/// Returns the set with every struct field on the path to a member as a member too. Removing a
/// field then also removes a struct that becomes empty.
pub(super) fn with_named_fields(at: SchemaCursor<'_>, set: &FieldSet) -> FieldSet {
    FieldSet::from_nodes(set.nodes().map(|(element, node)| {
        let (inner, named) = match element.strip_prefix("f:") {
            Some(name) => (at.at_key(name), at.has_field(name)),
            None => (at.at_item(), false),
        };
        let member = node.is_member || (named && !node.children.is_empty());
        (element.clone(), FieldSetNode { is_member: member, children: with_named_fields(inner, &node.children) })
    }))
}
