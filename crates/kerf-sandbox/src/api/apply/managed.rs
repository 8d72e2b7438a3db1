//! The entries of `metadata.managedFields`: the fields of each manager, its operation and
//! subresource, and the time.

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::field_set::FieldSet;
use crate::api::object;

/// The number of managers with operation `Update` that an object records. Older ones are merged
/// into one entry.
const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager of the merged entry.
const ANCIENT_CHANGES_MANAGER: &str = "ancient-changes";

/// Fields that no manager owns.
const UNOWNED_FIELDS: &[&[&str]] = &[
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
    &["f:metadata", "f:resourceVersion"],
];

/// The writer of an object as `managedFields` records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldManager<'a> {
    /// The name of the field manager.
    pub(crate) manager: &'a str,
    /// The API version in which the object is written.
    pub(crate) api_version: &'a str,
    /// The subresource, or an empty string.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
    /// True if `status` can only be written through its subresource. Other writes then own nothing
    /// of it.
    pub(crate) status_is_subresource: bool,
    /// Fields of Go structs that exist even if no client has set them.
    pub(crate) implicit_fields: &'a [&'a str],
}

impl FieldManager<'_> {
    /// Removes the fields that a write through this subresource cannot own.
    pub(super) fn only_ownable(&self, mut set: FieldSet) -> FieldSet {
        if self.subresource == "status" {
            set.remove_subtree("f:spec");
        } else if self.status_is_subresource {
            set.remove_subtree("f:status");
        }
        set
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One entry of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedFieldsEntry {
    #[serde(default, deserialize_with = "text")]
    pub(super) manager: SmolStr,
    pub(super) operation: Operation,
    #[serde(default, deserialize_with = "text")]
    pub(super) api_version: SmolStr,
    #[serde(default, deserialize_with = "text")]
    pub(super) subresource: SmolStr,
    #[serde(default, deserialize_with = "text")]
    pub(super) time: SmolStr,
    #[serde(rename = "fieldsV1")]
    pub(super) fields: FieldSet,
}

/// Decodes a string. Null is an empty string.
fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SmolStr, D::Error> {
    Option::<SmolStr>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// All entries of one object. While an object is written, its entries are not part of its
/// `serde_json::Value`, because they are about as large as the rest of it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct ManagedFields {
    entries: Vec<ManagedFieldsEntry>,
}

impl ManagedFields {
    /// Removes the entries from an object and returns them. Invalid entries are dropped.
    pub(crate) fn take(object: &mut Value) -> Self {
        let Some(Value::Array(entries)) = object::remove(object, &["metadata", "managedFields"]) else {
            return Self::default();
        };
        Self { entries: entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect() }
    }

    /// Inserts the entries into their object.
    pub(crate) fn put(&self, object: &mut Value) {
        if !self.is_empty() {
            let mut text = Vec::new();
            self.write_to(&mut text);
            // JSON that was just written can be parsed.
            object::set_meta(object, "managedFields", serde_json::from_slice::<Value>(&text).unwrap_or_default());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the JSON form, with keys in the order in which `serde_json` writes a `Value`.
    pub(crate) fn write_to(&self, text: &mut Vec<u8>) {
        text.push(b'[');
        for (index, entry) in self.entries.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            entry.write_to(text);
        }
        text.push(b']');
    }

    pub(super) fn into_entries(self) -> Vec<ManagedFieldsEntry> {
        self.entries
    }

    /// Normalizes changed entries: removes unowned fields and empty entries, merges the oldest
    /// updaters if there are too many, and sorts by operation (Apply first), then time.
    pub(super) fn normalized(mut entries: Vec<ManagedFieldsEntry>) -> Self {
        for entry in &mut entries {
            entry.fields.remove_paths(UNOWNED_FIELDS);
        }
        entries.retain(|entry| !entry.fields.is_empty());
        merge_oldest_updaters(&mut entries);
        entries.sort_by(|one, two| {
            (one.operation, &one.time, &one.manager, &one.api_version, &one.subresource).cmp(&(
                two.operation,
                &two.time,
                &two.manager,
                &two.api_version,
                &two.subresource,
            ))
        });
        Self { entries }
    }
}

impl ManagedFieldsEntry {
    /// Returns true if this entry holds the fields of `writer`. An applier has one entry for all
    /// API versions.
    pub(super) fn belongs_to(&self, writer: &FieldManager<'_>, operation: Operation) -> bool {
        self.manager == writer.manager
            && self.operation == operation
            && self.subresource == writer.subresource
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    pub(super) fn new(writer: &FieldManager<'_>, operation: Operation, fields: FieldSet) -> Self {
        Self {
            manager: writer.manager.into(),
            operation,
            api_version: writer.api_version.into(),
            subresource: writer.subresource.into(),
            time: object::rfc3339_seconds(writer.now).into(),
            fields,
        }
    }

    /// Returns the owner as conflict messages name it.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.extend([" with subresource \"", &self.subresource, "\""]);
        }
        if self.operation == Operation::Update {
            text.extend([" using ", &self.api_version]);
        }
        text
    }

    fn write_to(&self, text: &mut Vec<u8>) {
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let field = |text: &mut Vec<u8>, name: &str, value: &str| {
            text.extend_from_slice(name.as_bytes());
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(text, value);
        };
        field(text, "{\"apiVersion\":", &self.api_version);
        text.extend_from_slice(b",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        self.fields.write_to(text);
        field(text, ",\"manager\":", &self.manager);
        field(text, ",\"operation\":", operation);
        if !self.subresource.is_empty() {
            field(text, ",\"subresource\":", &self.subresource);
        }
        field(text, ",\"time\":", &self.time);
        text.push(b'}');
    }
}

fn merge_oldest_updaters(entries: &mut Vec<ManagedFieldsEntry>) {
    let mut updaters = entries.iter().filter(|entry| entry.operation == Operation::Update).count();
    while updaters > MAX_UPDATE_MANAGERS {
        // Merge the two oldest entries that have one API version.
        let mut oldest: Vec<usize> =
            (0..entries.len()).filter(|index| entries[*index].operation == Operation::Update).collect();
        oldest.sort_by(|one, two| {
            (&entries[*one].time, &entries[*one].manager).cmp(&(&entries[*two].time, &entries[*two].manager))
        });
        let pair = oldest.iter().enumerate().find_map(|(rank, one)| {
            let has_same_version = |two: &&usize| entries[**two].api_version == entries[*one].api_version;
            oldest[rank + 1..].iter().find(has_same_version).map(|two| (*one, *two))
        });
        let Some((one, two)) = pair else { return };
        let merged = entries[two].fields.clone().union(&entries[one].fields);
        entries[two] = ManagedFieldsEntry {
            manager: ANCIENT_CHANGES_MANAGER.into(),
            subresource: SmolStr::default(),
            fields: merged,
            ..entries[two].clone()
        };
        entries.remove(one);
        updaters -= 1;
    }
}

/// Returns true if the written object resets `managedFields`, by an empty list or one empty entry.
pub(super) fn is_reset(object: &Value) -> bool {
    match object::at(object, &["metadata", "managedFields"]) {
        Some(Value::Array(entries)) => entries.is_empty() || (entries.len() == 1 && entries[0] == json!({})),
        _ => false,
    }
}
