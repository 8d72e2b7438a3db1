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
                let (mut children, mut is_member) = (FieldSet::default(), true);
                if !is_leaf(inner, value) {
                    children = fields(inner, value).map_err(|problem| format!(".{key}{problem}"))?;
                    is_member = !at.has_field(key);
                }
                nodes.push((field(key), FieldSetNode { is_member, children }));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let identity =
                    element(at.list_merge_type(), item).map_err(|problem| format!(": element {index}: {problem}"))?;
                if nodes.iter().any(|(other, _)| *other == identity) {
                    return Err(format!(": duplicate entries for key {}", super::field_set::display_path(&[identity])));
                }
                let children =
                    if is_leaf(at.at_item(), item) { FieldSet::default() } else { fields(at.at_item(), item)? };
                nodes.push((identity, FieldSetNode { is_member: true, children }));
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

/// Returns the difference from `old` to `new`. `implicit_fields` are fields of Go structs that
/// exist even if the object does not set them (such as `spec`), so that no manager becomes the
/// owner of the field itself.
pub(super) fn compare(at: SchemaCursor<'_>, old: &Value, new: &Value, implicit_fields: &[&str]) -> Comparison {
    let mut comparison = Comparison::default();
    Walk { implicit_fields }.children(ComparePosition { at, in_struct: true }, Some(old), Some(new), &mut comparison);
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
    fn push(&mut self, element: &SmolStr, change: FieldChange, children: Comparison) {
        for (set, children, kind) in [
            (&mut self.added, children.added, FieldChange::Added),
            (&mut self.modified, children.modified, FieldChange::Modified),
            (&mut self.removed, children.removed, FieldChange::Removed),
        ] {
            set.push(element.clone(), FieldSetNode { is_member: change == kind, children });
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
        let mut children = Comparison::default();
        let change = if leaf(old) && leaf(new) || kinds_differ(old, new) {
            FieldChange::of(old, new)
        } else {
            self.children(here, old, new, &mut children);
            match FieldChange::of(old, new) {
                FieldChange::Modified => FieldChange::Unchanged,
                change => change,
            }
        };
        comparison.push(element, change, children);
    }

    /// Returns the node of a value that did not exist before. Most values of create requests and
    /// first status updates are new.
    fn new_node(&self, here: ComparePosition<'_>, element: &SmolStr, new: &Value) -> FieldSetNode {
        if is_leaf(here.at, new) {
            return FieldSetNode { is_member: true, children: FieldSet::default() };
        }
        let mut children = FieldSet::default();
        match new {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let (inner, element) = (ComparePosition { at: here.at.at_key(key), ..here }, field(key));
                    let node = self.new_node(inner, &element, value);
                    children.push(element, node);
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
                    children.push(identity, node);
                }
                children.sort();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        let is_implicit = here.in_struct && self.implicit_fields.contains(&&element[2..]);
        FieldSetNode { is_member: !is_implicit, children }
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
        let (mut old_fields, mut new_fields) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let key = match (old_fields.peek(), new_fields.peek()) {
                (None, None) => return,
                (Some((key, _)), None) | (None, Some((key, _))) => *key,
                (Some((one, _)), Some((two, _))) => *one.min(two),
            };
            let old = old_fields.next_if(|(other, _)| *other == key).map(|(_, value)| value);
            let new = new_fields.next_if(|(other, _)| *other == key).map(|(_, value)| value);
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
            let old_items = find(&old).map_or(none, |position| &old[position].1);
            let new_items = find(&new).map_or(none, |position| &new[position].1);
            let compare = |old: Option<&Value>, new: Option<&Value>, comparison: &mut Comparison| {
                if old != new {
                    self.differ(inner, identity, old, new, comparison);
                }
            };
            match (old_items, new_items) {
                // Duplicate items are owned together, as one item.
                ([_, _, ..], [_, _, ..]) => {
                    if old_items != new_items {
                        comparison.push(identity, FieldChange::Modified, Comparison::default());
                    }
                }
                ([_, _, ..], _) => {
                    compare(None, new_items.first().copied(), comparison);
                    comparison.push(identity, FieldChange::Removed, Comparison::default());
                }
                (_, [_, _, ..]) => {
                    compare(old_items.first().copied(), None, comparison);
                    comparison.push(identity, FieldChange::Added, Comparison::default());
                }
                (old_items, new_items) => compare(old_items.first().copied(), new_items.first().copied(), comparison),
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
        (Value::Object(under_entries), Value::Object(over_entries))
            if !(at.is_atomic() || (under_entries.is_empty() && over_entries.is_empty())) =>
        {
            let mut merged = under_entries.clone();
            for (key, value) in over_entries {
                let value =
                    under_entries.get(key).map_or_else(|| value.clone(), |under| merge(at.at_key(key), under, value));
                merged.insert(key.clone(), value);
            }
            merged.into()
        }
        (Value::Array(under_entries), Value::Array(over_entries)) if *at.list_merge_type() != ListMergeType::Atomic => {
            merge_lists(at, under_entries, over_entries).into()
        }
        (_, over) => over.clone(),
    }
}

/// Merges the items that are in both lists, in the order of `over_items`. The other items keep
/// their neighbours.
fn merge_lists(at: SchemaCursor<'_>, under_items: &[Value], over_items: &[Value]) -> Vec<Value> {
    let identities = |items: &[Value]| -> Vec<SmolStr> {
        items.iter().map(|item| element(at.list_merge_type(), item).unwrap_or_default()).collect()
    };
    let (left, right) = (identities(under_items), identities(over_items));
    let merged = |index: usize| match left.iter().position(|identity| *identity == right[index]) {
        Some(under) => merge(at.at_item(), &under_items[under], &over_items[index]),
        None => over_items[index].clone(),
    };
    let mut shared = right.iter().filter(|identity| left.contains(identity));
    let mut next_shared = shared.next();
    let mut done: Vec<&SmolStr> = Vec::new();
    let mut result = Vec::with_capacity(left.len().max(right.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if l < left.len() && r < right.len() {
            if left[l] == right[r] {
                done.push(&right[r]);
                result.push(merged(r));
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
                result.push(under_items[l].clone());
                l += 1;
                continue;
            }
            if done.contains(&&left[l]) {
                l += 1;
            }
        }
        if r < right.len() {
            done.push(&right[r]);
            result.push(merged(r));
            if next_shared == Some(&right[r]) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    result
}

/// Returns `object` without the fields of `removed`. Maps and lists that become empty are removed
/// too; `None` if nothing remains.
pub(super) fn without(at: SchemaCursor<'_>, object: &Value, removed: &FieldSet) -> Option<Value> {
    match object {
        Value::Object(entries) if !entries.is_empty() && !at.is_atomic() => {
            let mut kept = Map::new();
            for (key, value) in entries {
                match removed.get(&field(key)) {
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
                match element(at.list_merge_type(), item).ok().and_then(|identity| removed.get(&identity)) {
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
        let is_member = node.is_member || (named && !node.children.is_empty());
        (element.clone(), FieldSetNode { is_member, children: with_named_fields(inner, &node.children) })
    }))
}
