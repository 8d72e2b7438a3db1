//! Sets of fields. A set is a trie of path elements. Its JSON form is `fieldsV1`: `f:` a field,
//! `k:` an item of a list by its keys, `v:` an item by its value, `i:` an item by its index, and
//! `.` if the path itself is in the set.
//!
//! Invariant: every leaf of the trie is a member, so that an empty trie is an empty set.

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use smol_str::{SmolStr, SmolStrBuilder};

/// The fields below one path, sorted by element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(Vec<(SmolStr, FieldSetNode)>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSetNode {
    /// True if the path to this node is in the set.
    pub(super) is_member: bool,
    pub(super) children: FieldSet,
}

impl FieldSetNode {
    fn is_empty(&self) -> bool {
        !self.is_member && self.children.0.is_empty()
    }
}

/// Parses the JSON form. Invalid parts are ignored.
impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ParsedFieldSet::deserialize(deserializer).map(|parsed| parsed.set)
    }
}

/// The fields below an element, and whether the element itself is a member.
#[derive(Default)]
struct ParsedFieldSet {
    set: FieldSet,
    is_member: bool,
}

impl<'de> Deserialize<'de> for ParsedFieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldSetVisitor;
        impl<'de> Visitor<'de> for FieldSetVisitor {
            type Value = ParsedFieldSet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a set of fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ParsedFieldSet, A::Error> {
                let mut parsed = ParsedFieldSet::default();
                while let Some(element) = map.next_key::<SmolStr>()? {
                    let inner: ParsedFieldSet = map.next_value()?;
                    if element == "." {
                        parsed.is_member = true;
                    } else {
                        let is_member = inner.is_member || inner.set.is_empty();
                        parsed.set.0.push((element, FieldSetNode { is_member, children: inner.set }));
                    }
                }
                parsed.set.sort();
                Ok(parsed)
            }

            fn visit_unit<E>(self) -> Result<ParsedFieldSet, E> {
                Ok(ParsedFieldSet::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<ParsedFieldSet, E> {
                Ok(ParsedFieldSet::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<ParsedFieldSet, E> {
                Ok(ParsedFieldSet::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<ParsedFieldSet, E> {
                Ok(ParsedFieldSet::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<ParsedFieldSet, E> {
                Ok(ParsedFieldSet::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<ParsedFieldSet, E> {
                Ok(ParsedFieldSet::default())
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<ParsedFieldSet, A::Error> {
                while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(ParsedFieldSet::default())
            }
        }
        deserializer.deserialize_any(FieldSetVisitor)
    }
}

impl FieldSet {
    /// Writes the JSON form.
    pub(super) fn write_to(&self, text: &mut Vec<u8>) {
        self.write_children(text, false);
    }

    fn write_children(&self, text: &mut Vec<u8>, is_member: bool) {
        text.push(b'{');
        if is_member && !self.0.is_empty() {
            text.extend_from_slice(b"\".\":{},");
        }
        for (index, (element, node)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut *text, element.as_str());
            text.push(b':');
            node.children.write_children(text, node.is_member);
        }
        text.push(b'}');
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an element. Callers that do not append in order must call [`FieldSet::sort`]
    /// afterwards. Each element may be appended once.
    pub(super) fn push(&mut self, element: SmolStr, node: FieldSetNode) {
        if !node.is_empty() {
            self.0.push((element, node));
        }
    }

    /// Sorts the elements. The last one of several equal elements is kept.
    pub(super) fn sort(&mut self) {
        if self.0.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return;
        }
        self.0.reverse();
        self.0.sort_by(|(one, _), (two, _)| one.cmp(two));
        self.0.dedup_by(|(later, _), (earlier, _)| later == earlier);
    }

    fn search(&self, element: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(element))
    }

    /// Returns the node of an element, or `None` if nothing in the set begins with it.
    pub(super) fn get(&self, element: &str) -> Option<&FieldSetNode> {
        self.search(element).ok().map(|index| &self.0[index].1)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&SmolStr, &FieldSetNode)> {
        self.0.iter().map(|(element, node)| (element, node))
    }

    pub(super) fn union(self, other: &Self) -> Self {
        let mut union = Vec::with_capacity(self.0.len().max(other.0.len()));
        let (mut ours, mut theirs) = (self.0.into_iter().peekable(), other.0.iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return Self(union),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((our_element, _)), Some((other, _))) => our_element.cmp(other),
            };
            match order {
                Ordering::Less => union.extend(ours.next()),
                Ordering::Greater => union.extend(theirs.next().cloned()),
                Ordering::Equal => {
                    if let (Some((element, node)), Some((_, other))) = (ours.next(), theirs.next()) {
                        let children = node.children.union(&other.children);
                        union.push((element, FieldSetNode { is_member: node.is_member || other.is_member, children }));
                    }
                }
            }
        }
    }

    /// Removes the paths of `other`. Returns true if the set changed.
    pub(super) fn subtract(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (element, theirs) in &other.0 {
            let Ok(index) = self.search(element) else { continue };
            let node = &mut self.0[index].1;
            changed |= node.children.subtract(&theirs.children);
            if theirs.is_member && node.is_member {
                (node.is_member, changed) = (false, true);
            }
            if node.is_empty() {
                self.0.remove(index);
            }
        }
        changed
    }

    /// Returns the paths of this set that are not in `other`.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut difference = self.clone();
        difference.subtract(other);
        difference
    }

    /// Returns the paths that are in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let common = self.0.iter().filter_map(|(element, node)| {
            let theirs = other.get(element)?;
            let (is_member, children) =
                (node.is_member && theirs.is_member, node.children.intersection(&theirs.children));
            Some((element.clone(), FieldSetNode { is_member, children }))
        });
        Self::from_nodes(common)
    }

    /// Removes a first-level element and everything below it.
    pub(super) fn remove_subtree(&mut self, element: &str) {
        if let Ok(index) = self.search(element) {
            self.0.remove(index);
        }
    }

    /// Removes single paths and keeps the paths below them.
    pub(super) fn remove_paths(&mut self, paths: &[&[&str]]) {
        for path in paths {
            self.remove_path(path);
        }
    }

    fn remove_path(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let Ok(index) = self.search(first) else { return };
        let node = &mut self.0[index].1;
        if rest.is_empty() {
            node.is_member = false;
        } else {
            node.children.remove_path(rest);
        }
        if node.is_empty() {
            self.0.remove(index);
        }
    }

    /// Returns the paths that have no other path below them, in order.
    pub(super) fn leaves(&self) -> Vec<Vec<SmolStr>> {
        let mut leaves = Vec::new();
        self.collect_leaves(&mut Vec::new(), &mut leaves);
        leaves
    }

    fn collect_leaves(&self, path: &mut Vec<SmolStr>, leaves: &mut Vec<Vec<SmolStr>>) {
        for (element, node) in &self.0 {
            path.push(element.clone());
            if node.children.is_empty() {
                leaves.push(path.clone());
            } else {
                node.children.collect_leaves(path, leaves);
            }
            path.pop();
        }
    }

    /// Builds a set from nodes. Empty nodes are left out.
    pub(super) fn from_nodes(nodes: impl Iterator<Item = (SmolStr, FieldSetNode)>) -> Self {
        let mut set = Self(nodes.filter(|(_, node)| !node.is_empty()).collect());
        set.sort();
        set
    }
}

/// Returns the element of a field or of a key of a map.
pub(super) fn field(name: &str) -> SmolStr {
    let mut element = SmolStrBuilder::new();
    element.push_str("f:");
    element.push_str(name);
    element.finish()
}

/// Formats a path for messages: `.spec.containers[name="web"].image`.
pub(super) fn display_path(path: &[SmolStr]) -> String {
    let mut text = String::new();
    for element in path {
        match element.split_once(':') {
            Some(("f", name)) => {
                text.push('.');
                text.push_str(name);
            }
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                text.extend(["[", &pairs.join(","), "]"]);
            }
            Some(("v", value)) => text.extend(["[=", value, "]"]),
            Some(("i", index)) => text.extend(["[", index, "]"]),
            _ => text.push_str(element),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use serde_json::json;

    use super::*;

    fn set(json: Value) -> FieldSet {
        serde_json::from_value(json).unwrap()
    }

    fn json(set: &FieldSet) -> Value {
        let mut text = Vec::new();
        set.write_to(&mut text);
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn writing_and_parsing_the_json_form_round_trips() {
        let form =
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}, "f:replicas": {}}});
        let mut text = Vec::new();
        set(form.clone()).write_to(&mut text);
        assert_eq!(String::from_utf8(text).unwrap(), form.to_string(), "in the order in which a tree is written");
        let leaves: Vec<String> = set(form).leaves().iter().map(|path| display_path(path)).collect();
        assert_eq!(leaves, [".spec.containers[name=\"c\"].image", ".spec.replicas"]);
    }

    #[test]
    fn invalid_parts_of_a_field_set_are_ignored() {
        let text = r#"{"f:z": {}, "f:a": {"f:b": {}, ".": 1}, "f:m": {}, "f:c": [1], "f:d": "x", "f:e": null, "f:m": {"f:n": {}}}"#;
        let parsed: FieldSet = serde_json::from_str(text).unwrap();
        let expected =
            json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}, "f:e": {}, "f:m": {"f:n": {}}, "f:z": {}});
        assert_eq!(json(&parsed), expected);
        assert!(parsed.get("f:m").is_some_and(|node| !node.is_member));
        assert!(set(json!(3)).is_empty());
    }

    #[test]
    fn difference_intersection_and_union_of_sets() {
        let one = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let two = set(json!({"f:a": {}, "f:d": {}}));
        assert_eq!(json(&one.difference(&two)), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        assert_eq!(json(&one.intersection(&two)), json!({"f:a": {}}));
        assert_eq!(json(&one.clone().union(&two)), json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}}));
        assert!(one.difference(&one).is_empty());
        let mut remaining = one.clone();
        assert!(remaining.subtract(&two) && !remaining.subtract(&two));
        assert!(!remaining.subtract(&set(json!({"f:c": {"f:x": {}}, "f:z": {}}))), "a missing path cannot be removed");
    }
}
