//! Checks if custom user data of AL2023 is a YAML mapping (spec 05 §14.3). The rules are those of
//! Karpenter's YAML library and of the JSON that this library makes of it.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess, Visitor};

/// Depth below which values are not checked. The parser reads 127 levels of checked values.
const CHECKED_DEPTH_MAX: usize = 100;
/// Largest number of lists and mappings in brackets. Karpenter reads 10,000 levels, and EC2 takes
/// 16 KiB of user data.
const OPENING_BRACKETS_MAX: usize = 10_000;

/// Returns true if the first YAML document of the text is a mapping or empty.
pub(super) fn is_mapping_or_empty(text: &str) -> bool {
    if has_other_version(text) || text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > OPENING_BRACKETS_MAX
    {
        return false;
    }
    let Some(document) = serde_yaml_ng::Deserializer::from_str(text).next() else {
        return true;
    };
    // An alias may stand in the value that it names, which has no end.
    let node = CheckedValue { depth: 0, has_aliases: text.contains('*') };
    node.deserialize(document).is_ok_and(|kind| matches!(kind, NodeKind::Mapping | NodeKind::Null))
}

/// Returns true if a directive before the first document names another version of YAML than 1.1.
fn has_other_version(text: &str) -> bool {
    let before_document =
        text.lines().take_while(|line| line.trim().is_empty() || line.starts_with('#') || line.starts_with('%'));
    let mut versions = before_document.filter_map(|line| line.strip_prefix("%YAML"));
    versions.any(|version| version.split('#').next().is_some_and(|version| version.trim() != "1.1"))
}

/// Kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Null,
    Scalar,
    Mapping,
    /// A list, also an empty one, that holds only mappings.
    MappingList,
    List,
}

/// Reads a value. Fails if it has a key that JSON does not have, a number that JSON does not have,
/// or a merge key `<<` without mappings. A key may occur twice.
#[derive(Clone, Copy)]
struct CheckedValue {
    depth: usize,
    has_aliases: bool,
}

impl CheckedValue {
    fn child(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for CheckedValue {
    type Value = NodeKind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeKind, D::Error> {
        if self.depth < CHECKED_DEPTH_MAX {
            return deserializer.deserialize_any(self);
        }
        if self.has_aliases {
            return Err(D::Error::custom("too deep for aliases"));
        }
        deserializer.deserialize_ignored_any(IgnoredAny).map(|_| NodeKind::Scalar)
    }
}

impl<'de> Visitor<'de> for CheckedValue {
    type Value = NodeKind;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON has")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<NodeKind, E> {
        Ok(NodeKind::Scalar)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<NodeKind, E> {
        Ok(NodeKind::Scalar)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<NodeKind, E> {
        Ok(NodeKind::Scalar)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<NodeKind, E> {
        Ok(NodeKind::Scalar)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<NodeKind, E> {
        Ok(NodeKind::Scalar)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<NodeKind, E> {
        if number.is_finite() { Ok(NodeKind::Scalar) } else { Err(E::custom("JSON has no such number")) }
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<NodeKind, E> {
        Ok(NodeKind::Scalar)
    }

    fn visit_unit<E: Error>(self) -> Result<NodeKind, E> {
        Ok(NodeKind::Null)
    }

    fn visit_none<E: Error>(self) -> Result<NodeKind, E> {
        Ok(NodeKind::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NodeKind, A::Error> {
        let mut kind = NodeKind::MappingList;
        while let Some(item) = items.next_element_seed(self.child())? {
            if item != NodeKind::Mapping {
                kind = NodeKind::List;
            }
        }
        Ok(kind)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<NodeKind, A::Error> {
        while let Some(key) = entries.next_key_seed(Key)? {
            let value = entries.next_value_seed(self.child())?;
            if key == KeyKind::Merge && !matches!(value, NodeKind::Mapping | NodeKind::MappingList) {
                return Err(A::Error::custom("<< needs mappings"));
            }
        }
        Ok(NodeKind::Mapping)
    }

    /// A value with a tag.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<NodeKind, A::Error> {
        let (_, value) = data.variant::<IgnoredAny>()?;
        value.newtype_variant_seed(self.child())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Other,
    /// `<<`, which adds the entries of other mappings.
    Merge,
}

/// Reads a key. Fails if it is null, a list or a mapping.
#[derive(Clone, Copy)]
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = KeyKind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<KeyKind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = KeyKind;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text, a number or a boolean")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<KeyKind, E> {
        Ok(KeyKind::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<KeyKind, E> {
        Ok(KeyKind::Other)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<KeyKind, E> {
        Ok(KeyKind::Other)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<KeyKind, E> {
        Ok(KeyKind::Other)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<KeyKind, E> {
        Ok(KeyKind::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<KeyKind, E> {
        Ok(KeyKind::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<KeyKind, E> {
        Ok(if text == "<<" { KeyKind::Merge } else { KeyKind::Other })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<KeyKind, A::Error> {
        let (_, key) = data.variant::<IgnoredAny>()?;
        key.newtype_variant_seed(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 05 §14.3: the answers of Karpenter 1.14.1
    #[test]
    fn spec_05_137_a_mapping_is_found_as_karpenter_finds_it() {
        let deep = |count: usize, inner: &str| format!("a: {}{inner}{}", "[".repeat(count), "]".repeat(count));
        let mappings = [
            "a: b",
            "{}",
            "# c\n\n",
            "---\n...\na: b\n",
            "a: b\n---\n[",
            "{a: b, a: c}",
            "a:\n  b: 1\n  b: 2\n",
            "1: a\n1.0: b",
            ".inf: a",
            "a: 9999999999999999999999",
            "a: -9999999999999999999999",
            "!Foo {a: b}",
            "a: !Foo b",
            "? !Foo a\n: b",
            "<<: {a: b}\na: c",
            "<<: [{a: b}, {c: d}]",
            "<<: []",
            "x: &x {a: b}\ny:\n  <<: [*x]\n",
            "%YAML 1.1\n---\na: b\n",
            "a: b\n...\n%YAML 1.2\n---\nc: d",
            &deep(200, ""),
            &deep(9_990, ""),
        ];
        for text in mappings {
            assert!(is_mapping_or_empty(text), "{text:.60}");
        }
        let scripts = [
            "#!/bin/bash\na: b\necho hi\n",
            "- a",
            "a",
            "~: a",
            "null: a",
            ": b",
            "a: {~: b}",
            "? [a, b]\n: c",
            "[a]: b",
            "? {a: b}\n: c",
            "a: !Foo [~: b]",
            "<<: 5",
            "<<: ~",
            "<<: [1]",
            "a: {<<: 1}",
            "a: .inf",
            "a: [.nan]",
            "a: &a [*a]",
            "a: *a",
            "%YAML 1.2\n---\na: b\n",
            "# c\n%YAML 1.0\n---\na: b",
            &deep(12_000, ""),
        ];
        for text in scripts {
            assert!(!is_mapping_or_empty(text), "{text:.60}");
        }
    }
}
