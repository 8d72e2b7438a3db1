//! Encoding of objects as compact JSON bytes. The store keeps JSON text instead of
//! `serde_json::Value`s: a pod takes three kilobytes as text and more than twenty as a `Value`, and
//! list and watch responses are copies of the stored bytes. Nothing here decodes an object, and
//! bytes that were stored never change: each change makes a copy.
//!
//! Invariant: the position of `metadata.resourceVersion`, called the *version* here, is known in
//! every stored object. Therefore the version can be inserted after encoding, because it is known
//! only under the store's lock, and replaced later: the watch event of a deletion has a newer
//! version than the last write.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::apply::ManagedFields;

/// An encoded object whose `resourceVersion` is empty.
#[derive(Clone, Debug)]
pub(crate) struct EncodedObject {
    text: Vec<u8>,
    /// The index at which the digits of the version are inserted.
    version_index: usize,
}

/// An encoded object with its version, and the range of the version's digits.
#[derive(Clone, Debug)]
pub(crate) struct VersionedObject {
    pub(crate) bytes: Bytes,
    digits: Range<u32>,
}

impl EncodedObject {
    /// Encodes `object`; its `resourceVersion` is left out. A value without a metadata object gets
    /// empty metadata, and a value that is not a JSON object is encoded as an empty one; handlers
    /// never pass such values.
    pub(crate) fn new(object: &Value) -> Self {
        Self::with_managed_fields(object, &ManagedFields::default())
    }

    /// Encodes `object` and adds `managed` as its `managedFields`, unless `managed` is empty.
    /// `object` must not contain that field too.
    pub(crate) fn with_managed_fields(object: &Value, managed: &ManagedFields) -> Self {
        let mut text = Vec::with_capacity(4096);
        let mut version_index = 0;
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        text.push(b'{');
        let mut first = true;
        let mut metadata_written = false;
        for (key, value) in fields {
            // Keys are sorted. Metadata is written before the first key that does not precede it.
            if !metadata_written && key.as_str() >= "metadata" {
                write_comma_unless_first(&mut text, &mut first);
                version_index = write_metadata(&mut text, fields.get("metadata"), managed);
                metadata_written = true;
            }
            if key != "metadata" {
                write_comma_unless_first(&mut text, &mut first);
                write(&mut text, key);
                text.push(b':');
                write(&mut text, value);
            }
        }
        if !metadata_written {
            write_comma_unless_first(&mut text, &mut first);
            version_index = write_metadata(&mut text, None, managed);
        }
        text.push(b'}');
        Self { text, version_index }
    }

    /// Returns the bytes with `version` inserted.
    pub(crate) fn with_version(&self, version: u64) -> VersionedObject {
        replace_version(&self.text, self.version_index..self.version_index, version)
    }
}

impl VersionedObject {
    /// Returns the object with another version, for example for the watch event of its deletion.
    pub(crate) fn with_version(&self, version: u64) -> VersionedObject {
        replace_version(&self.bytes, self.digits.start as usize..self.digits.end as usize, version)
    }

    /// Returns the object with another version and with edited bytes. `change` edits the bytes
    /// after the new version is set. It gets a slice, so their length stays.
    pub(crate) fn with_bytes_changed(&self, version: u64, change: impl FnOnce(&mut [u8])) -> VersionedObject {
        let (mut bytes, digits) =
            replace_range(&self.bytes, self.digits.start as usize..self.digits.end as usize, version);
        change(&mut bytes);
        VersionedObject { bytes: bytes.into(), digits }
    }
}

fn replace_version(text: &[u8], range: Range<usize>, version: u64) -> VersionedObject {
    let (bytes, digits) = replace_range(text, range, version);
    VersionedObject { bytes: bytes.into(), digits }
}

/// Returns the text with `range` replaced by the digits of `version`, and the range of these
/// digits.
fn replace_range(text: &[u8], range: Range<usize>, version: u64) -> (Vec<u8>, Range<u32>) {
    let digits = version.to_string();
    let mut bytes = Vec::with_capacity(text.len() - range.len() + digits.len());
    bytes.extend_from_slice(&text[..range.start]);
    bytes.extend_from_slice(digits.as_bytes());
    bytes.extend_from_slice(&text[range.end..]);
    let start = range.start as u32;
    (bytes, start..start + digits.len() as u32)
}

/// Writes `"metadata":{...}` with an empty version, and `managed` at its place in the order of the
/// keys. Returns the index at which the digits of the version are inserted.
fn write_metadata(text: &mut Vec<u8>, metadata: Option<&Value>, managed: &ManagedFields) -> usize {
    const MANAGED: &str = "managedFields";
    text.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
    let version_index = text.len();
    text.push(b'"');
    let fields = metadata.and_then(Value::as_object);
    let mut managed_fields_left = !managed.is_empty();
    let write_managed = |text: &mut Vec<u8>, managed_fields_left: &mut bool| {
        if std::mem::take(managed_fields_left) {
            text.extend_from_slice(b",\"managedFields\":");
            managed.write_to(text);
        }
    };
    for (key, value) in fields.into_iter().flatten().filter(|(key, _)| *key != "resourceVersion") {
        if key.as_str() > MANAGED {
            write_managed(text, &mut managed_fields_left);
        }
        text.push(b',');
        write(text, key);
        text.push(b':');
        write(text, value);
    }
    write_managed(text, &mut managed_fields_left);
    text.push(b'}');
    version_index
}

fn write_comma_unless_first(text: &mut Vec<u8>, first: &mut bool) {
    if !std::mem::take(first) {
        text.push(b',');
    }
}

fn write(text: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Writing a JSON value to memory cannot fail: its keys are strings and its numbers are finite.
    let _ = serde_json::to_writer(text, value);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_inserted_and_replaced() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"x": "resourceVersion"}});
        let stored = EncodedObject::new(&object).with_version(99);
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
    fn managed_fields_are_written_in_the_order_of_the_keys() {
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
            let text = |encoded: EncodedObject| String::from_utf8(encoded.with_version(7).bytes.to_vec()).unwrap();
            assert_eq!(text(EncodedObject::with_managed_fields(&object, &managed)), text(EncodedObject::new(&full)));
        }
    }

    #[test]
    fn any_value_is_encoded_as_an_object_with_a_version() {
        for value in
            [json!({}), json!([]), json!({"metadata": 3}), json!({"a": 1}), json!({"z": null}), json!({"metadata": {}})]
        {
            let parsed: Value = serde_json::from_slice(&EncodedObject::new(&value).with_version(5).bytes).unwrap();
            assert_eq!(parsed["metadata"]["resourceVersion"], "5", "{value}");
        }
    }
}
