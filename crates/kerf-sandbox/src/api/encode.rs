//! Encoding of objects as compact JSON bytes. The store keeps bytes instead of trees: a pod takes
//! three kilobytes as text and more than twenty as a tree, and lists and watches only have to copy.
//!
//! Invariant: the position of `metadata.resourceVersion` is known in every stored object. The
//! version can be set after the object was encoded (it is only known under the store's lock), and a
//! deletion can be reported with a newer one.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::apply::ManagedFields;

/// An encoded object without its version.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    text: Vec<u8>,
    /// The index at which the digits of the version are inserted.
    version_at: usize,
}

/// An encoded object with its version, and the range of the version's digits.
#[derive(Clone, Debug)]
pub(crate) struct Versioned {
    pub(crate) bytes: Bytes,
    digits: Range<u32>,
}

impl Encoded {
    /// Encodes `object` without its version. A value that is not an object with metadata gets empty
    /// metadata; handlers never pass such a value.
    pub(crate) fn new(object: &Value) -> Self {
        Self::with_managed_fields(object, &ManagedFields::default())
    }

    /// Encodes an object whose managed fields are kept separately.
    pub(crate) fn with_managed_fields(object: &Value, managed: &ManagedFields) -> Self {
        let mut text = Vec::with_capacity(4096);
        let mut version_at = 0;
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        text.push(b'{');
        let mut first = true;
        let mut metadata_written = false;
        for (key, value) in fields {
            if !metadata_written && key.as_str() >= "metadata" {
                separate(&mut text, &mut first);
                version_at = write_metadata(&mut text, fields.get("metadata"), managed);
                metadata_written = true;
            }
            if key != "metadata" {
                separate(&mut text, &mut first);
                write(&mut text, key);
                text.push(b':');
                write(&mut text, value);
            }
        }
        if !metadata_written {
            separate(&mut text, &mut first);
            version_at = write_metadata(&mut text, None, managed);
        }
        text.push(b'}');
        Self { text, version_at }
    }

    /// Returns the bytes with `version` inserted.
    pub(crate) fn with_version(&self, version: u64) -> Versioned {
        splice(&self.text, self.version_at..self.version_at, version)
    }
}

impl Versioned {
    /// Returns the object with another version, for example for the watch event of its deletion.
    pub(crate) fn with_version(&self, version: u64) -> Versioned {
        splice(&self.bytes, self.digits.start as usize..self.digits.end as usize, version)
    }

    /// Returns the object with another version and after `change`, which gets the bytes with the
    /// new version and cannot change their length.
    pub(crate) fn with_bytes_changed(&self, version: u64, change: impl FnOnce(&mut [u8])) -> Versioned {
        let (mut bytes, digits) = spliced(&self.bytes, self.digits.start as usize..self.digits.end as usize, version);
        change(&mut bytes);
        Versioned { bytes: bytes.into(), digits }
    }
}

fn splice(text: &[u8], range: Range<usize>, version: u64) -> Versioned {
    let (bytes, digits) = spliced(text, range, version);
    Versioned { bytes: bytes.into(), digits }
}

/// Returns the text with `version` at `range`, and the range of the version's digits.
fn spliced(text: &[u8], range: Range<usize>, version: u64) -> (Vec<u8>, Range<u32>) {
    let digits = version.to_string();
    let mut bytes = Vec::with_capacity(text.len() - range.len() + digits.len());
    bytes.extend_from_slice(&text[..range.start]);
    bytes.extend_from_slice(digits.as_bytes());
    bytes.extend_from_slice(&text[range.end..]);
    let start = range.start as u32;
    (bytes, start..start + digits.len() as u32)
}

/// Writes `"metadata":{...}` with an empty version. Returns the index at which its digits are
/// inserted.
fn write_metadata(text: &mut Vec<u8>, metadata: Option<&Value>, managed: &ManagedFields) -> usize {
    const MANAGED: &str = "managedFields";
    text.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
    let version_at = text.len();
    text.push(b'"');
    let fields = metadata.and_then(Value::as_object);
    let mut is_pending = !managed.is_empty();
    let write_managed = |text: &mut Vec<u8>, is_pending: &mut bool| {
        if std::mem::take(is_pending) {
            text.extend_from_slice(b",\"managedFields\":");
            managed.write_to(text);
        }
    };
    for (key, value) in fields.into_iter().flatten().filter(|(key, _)| *key != "resourceVersion") {
        if key.as_str() > MANAGED {
            write_managed(text, &mut is_pending);
        }
        text.push(b',');
        write(text, key);
        text.push(b':');
        write(text, value);
    }
    write_managed(text, &mut is_pending);
    text.push(b'}');
    version_at
}

fn separate(text: &mut Vec<u8>, first: &mut bool) {
    if !std::mem::take(first) {
        text.push(b',');
    }
}

fn write(text: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Writing a JSON tree to memory cannot fail: its keys are strings and its numbers are finite.
    let _ = serde_json::to_writer(text, value);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_set_and_changed_in_place() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"x": "resourceVersion"}});
        let stored = Encoded::new(&object).with_version(99);
        let parsed: Value = serde_json::from_slice(&stored.bytes).unwrap();
        assert_eq!(
            parsed,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "99"}, "spec": {"x": "resourceVersion"}})
        );
        let later: Value = serde_json::from_slice(&stored.with_version(100).with_version(1234).bytes).unwrap();
        assert_eq!(later["metadata"]["resourceVersion"], "1234");
        assert_eq!(later["spec"], parsed["spec"]);
    }

    #[test]
    fn managed_fields_are_written_where_a_tree_would_have_them() {
        let entry = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a\"b": {}}},
            "manager": "m", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:00Z"});
        for metadata in
            [json!({"name": "a", "labels": {}}), json!({"labels": {"a": "b"}}), json!({"uid": "u"}), json!({})]
        {
            let mut full = json!({"metadata": metadata, "data": {"a\"b": "c"}});
            full["metadata"]["managedFields"] = json!([entry]);
            let mut object = full.clone();
            let managed = ManagedFields::take(&mut object);
            assert_eq!(object["metadata"], metadata);
            let text = |encoded: Encoded| String::from_utf8(encoded.with_version(7).bytes.to_vec()).unwrap();
            assert_eq!(text(Encoded::with_managed_fields(&object, &managed)), text(Encoded::new(&full)));
        }
    }

    #[test]
    fn any_value_is_encoded_as_an_object_with_a_version() {
        for value in
            [json!({}), json!([]), json!({"metadata": 3}), json!({"a": 1}), json!({"z": null}), json!({"metadata": {}})]
        {
            let parsed: Value = serde_json::from_slice(&Encoded::new(&value).with_version(5).bytes).unwrap();
            assert_eq!(parsed["metadata"]["resourceVersion"], "5", "{value}");
        }
    }
}
