//! The entries of `metadata.managedFields`: who set which fields, how, when, and through which door.

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Value, json};
use smol_str::SmolStr;

use super::field_set::FieldSet;
use crate::api::object;

/// How many writers that are not appliers an object remembers; older ones are lumped together.
const MAX_UPDATE_MANAGERS: usize = 10;
/// The name under which they are lumped together.
const ANCIENT_CHANGES_MANAGER: &str = "ancient-changes";

/// Fields that belong to nobody.
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

/// Who writes, and through which door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldManager<'a> {
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The version in which the object is written.
    pub(crate) api_version: &'a str,
    /// The subresource, or nothing.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
    /// Whether the status can only be written through its subresource: then other doors own nothing of it.
    pub(crate) status_is_subresource: bool,
    /// Fields of structs that exist even when nobody has set them.
    pub(crate) implicit_fields: &'a [&'a str],
}

impl FieldManager<'_> {
    /// Takes out of `set` what cannot be owned through this door.
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

/// One entry.
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

/// A text; none is an empty one.
fn text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SmolStr, D::Error> {
    Option::<SmolStr>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// All entries of an object, apart from it: who writes an object has the entries at hand and not as a part of the tree, where they would
/// be as much again.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct ManagedFields {
    entries: Vec<ManagedFieldsEntry>,
}

impl ManagedFields {
    /// Takes the entries out of an object. What is none is left out.
    pub(crate) fn take(object: &mut Value) -> Self {
        let Some(Value::Array(entries)) = object::remove(object, &["metadata", "managedFields"]) else {
            return Self::default();
        };
        Self { entries: entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect() }
    }

    /// Puts the entries back into the object that they are about.
    pub(crate) fn put(&self, object: &mut Value) {
        if !self.is_empty() {
            let mut text = Vec::new();
            self.write_to(&mut text);
            // What was just written can be read.
            object::set_meta(object, "managedFields", serde_json::from_slice::<Value>(&text).unwrap_or_default());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the JSON form, in the order in which a tree is written.
    pub(crate) fn write_to(&self, text: &mut Vec<u8>) {
        text.push(b'[');
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                text.push(b',');
            }
            entry.write_to(text);
        }
        text.push(b']');
    }

    pub(super) fn into_entries(self) -> Vec<ManagedFieldsEntry> {
        self.entries
    }

    /// Of entries that were changed: what belongs to nobody is taken out, empty ones are dropped, too many updaters are lumped together, and
    /// the order is appliers first, then by time.
    pub(super) fn of(mut entries: Vec<ManagedFieldsEntry>) -> Self {
        for entry in &mut entries {
            entry.fields.remove_paths(UNOWNED_FIELDS);
        }
        entries.retain(|entry| !entry.fields.is_empty());
        cap(&mut entries);
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
    /// Whether this is where `writer` keeps what it owns. An applier is the same in every version.
    pub(super) fn belongs_to(&self, writer: &FieldManager<'_>, operation: Operation) -> bool {
        self.manager == writer.manager
            && self.operation == operation
            && self.subresource == writer.subresource
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    pub(super) fn of(writer: &FieldManager<'_>, operation: Operation, fields: FieldSet) -> Self {
        Self {
            manager: writer.manager.into(),
            operation,
            api_version: writer.api_version.into(),
            subresource: writer.subresource.into(),
            time: object::rfc3339_seconds(writer.now).into(),
            fields,
        }
    }

    /// The owner as conflict messages name it.
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
            // Writing a text to memory cannot fail.
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

fn cap(entries: &mut Vec<ManagedFieldsEntry>) {
    let mut updaters = entries.iter().filter(|entry| entry.operation == Operation::Update).count();
    while updaters > MAX_UPDATE_MANAGERS {
        // The two oldest of one version become one.
        let mut oldest: Vec<usize> =
            (0..entries.len()).filter(|place| entries[*place].operation == Operation::Update).collect();
        oldest.sort_by(|one, two| {
            (&entries[*one].time, &entries[*one].manager).cmp(&(&entries[*two].time, &entries[*two].manager))
        });
        let pair = oldest.iter().enumerate().find_map(|(rank, one)| {
            let same = |two: &&usize| entries[**two].api_version == entries[*one].api_version;
            oldest[rank + 1..].iter().find(same).map(|two| (*one, *two))
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

/// What clients may say about managed fields in a write: an empty entry resets them all.
pub(super) fn is_reset(object: &Value) -> bool {
    match object::at(object, &["metadata", "managedFields"]) {
        Some(Value::Array(entries)) => entries.is_empty() || (entries.len() == 1 && entries[0] == json!({})),
        _ => false,
    }
}
