//! Sets of fields. A set is a trie of path elements; its JSON form is what stands in `fieldsV1`: `f:` a field, `k:` an item of a list by
//! its keys, `v:` an item by its value, `i:` an item by its place, and `.` where the path so far is itself in the set.
//! Invariant: every leaf of the trie is a member, so that an empty trie is an empty set.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use smol_str::SmolStr;

/// A set of fields below one point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeMap<SmolStr, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Whether the path to here is in the set.
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl FieldSet {
    /// Reads the JSON form. Anything that does not belong there is left out.
    pub(super) fn from_json(json: &Value) -> Self {
        let entries = json.as_object().into_iter().flatten().filter(|(element, _)| *element != ".");
        let nodes = entries.map(|(element, inner)| {
            let below = Self::from_json(inner);
            let member = below.0.is_empty() || inner.get(".").is_some();
            (SmolStr::from(element), Node { member, below })
        });
        Self(nodes.collect())
    }

    pub(super) fn to_json(&self) -> Value {
        let mut json = Map::new();
        for (element, node) in &self.0 {
            let mut inner = node.below.to_json();
            if node.member
                && !node.below.0.is_empty()
                && let Some(inner) = inner.as_object_mut()
            {
                inner.insert(".".into(), Map::new().into());
            }
            json.insert(element.to_string(), inner);
        }
        json.into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, path: &[SmolStr]) {
        if let Some((first, rest)) = path.split_first() {
            let node = self.0.entry(first.clone()).or_default();
            if rest.is_empty() {
                node.member = true;
            } else {
                node.below.insert(rest);
            }
        }
    }

    /// The node of one element, if the set has anything there.
    pub(super) fn get(&self, element: &str) -> Option<&Node> {
        self.0.get(element)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (&SmolStr, &Node)> {
        self.0.iter()
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.0 {
            let node = self.0.entry(element.clone()).or_default();
            node.member |= theirs.member;
            node.below = std::mem::take(&mut node.below).union(&theirs.below);
        }
        self
    }

    /// What is in this set and not in `other`, path by path.
    pub(super) fn difference(&self, other: &Self) -> Self {
        self.keep(|element, node| {
            let theirs = other.0.get(element);
            let member = node.member && !theirs.is_some_and(|theirs| theirs.member);
            let below = theirs.map_or_else(|| node.below.clone(), |theirs| node.below.difference(&theirs.below));
            Node { member, below }
        })
    }

    /// What is in both sets.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.keep(|element, node| match other.0.get(element) {
            Some(theirs) => {
                Node { member: node.member && theirs.member, below: node.below.intersection(&theirs.below) }
            }
            None => Node::default(),
        })
    }

    /// Takes away a field of the first level and everything below it.
    pub(super) fn remove_below(&mut self, element: &str) {
        self.0.remove(element);
    }

    /// Takes single paths out, leaving what is below them.
    pub(super) fn remove_paths(&mut self, paths: &[&[&str]]) {
        for path in paths {
            self.remove_path(path);
        }
    }

    fn remove_path(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let Some(node) = self.0.get_mut(*first) else { return };
        if rest.is_empty() {
            node.member = false;
        } else {
            node.below.remove_path(rest);
        }
        if !node.member && node.below.is_empty() {
            self.0.remove(*first);
        }
    }

    /// The paths that nothing in the set lies below, in order.
    pub(super) fn leaves(&self) -> Vec<Vec<SmolStr>> {
        let mut leaves = Vec::new();
        self.collect_leaves(&mut Vec::new(), &mut leaves);
        leaves
    }

    fn collect_leaves(&self, path: &mut Vec<SmolStr>, leaves: &mut Vec<Vec<SmolStr>>) {
        for (element, node) in &self.0 {
            path.push(element.clone());
            if node.below.is_empty() {
                leaves.push(path.clone());
            } else {
                node.below.collect_leaves(path, leaves);
            }
            path.pop();
        }
    }

    fn keep(&self, change: impl Fn(&str, &Node) -> Node) -> Self {
        let nodes = self.0.iter().map(|(element, node)| (element.clone(), change(element, node)));
        Self(nodes.filter(|(_, node)| node.member || !node.below.is_empty()).collect())
    }

    /// The set with a node of one's own making; empty nodes are left out.
    pub(super) fn from_nodes(nodes: impl Iterator<Item = (SmolStr, Node)>) -> Self {
        Self(nodes.filter(|(_, node)| node.member || !node.below.is_empty()).collect())
    }
}

/// The element for a field or a key of a map.
pub(super) fn field(name: &str) -> SmolStr {
    smol_str::format_smolstr!("f:{name}")
}

/// A path as messages show it: `.spec.containers[name="web"].image`.
pub(super) fn show(path: &[SmolStr]) -> String {
    let mut text = String::new();
    for element in path {
        match element.split_once(':') {
            Some(("f", name)) => {
                text.push('.');
                text.push_str(name);
            }
            Some(("k", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let shown: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                text.extend(["[", &shown.join(","), "]"]);
            }
            Some(("v", value)) => text.extend(["[=", value, "]"]),
            Some(("i", place)) => text.extend(["[", place, "]"]),
            _ => text.push_str(element),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(json: Value) -> FieldSet {
        FieldSet::from_json(&json)
    }

    #[test]
    fn the_json_form_goes_there_and_back() {
        let form =
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}, "f:replicas": {}}});
        assert_eq!(set(form.clone()).to_json(), form);
        let leaves: Vec<String> = set(form).leaves().iter().map(|path| show(path)).collect();
        assert_eq!(leaves, [".spec.containers[name=\"c\"].image", ".spec.replicas"]);
    }

    #[test]
    fn the_algebra_of_sets() {
        let one = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let two = set(json!({"f:a": {}, "f:d": {}}));
        assert_eq!(one.difference(&two).to_json(), json!({"f:a": {"f:b": {}}, "f:c": {}}));
        assert_eq!(one.intersection(&two).to_json(), json!({"f:a": {}}));
        assert_eq!(one.clone().union(&two).to_json(), json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}}));
        assert!(one.difference(&one).is_empty());
    }
}
