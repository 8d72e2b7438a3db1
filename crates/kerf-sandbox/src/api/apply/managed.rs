//! The entries of `metadata.managedFields`: who set which fields, how, when, and through which door.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::field_set::FieldSet;
use crate::api::object;

/// How many writers that are not appliers an object remembers; older ones are lumped together.
const UPDATERS: usize = 10;
/// The name under which they are lumped together.
const ANCIENT: &str = "ancient-changes";

/// Fields that belong to nobody.
const NOBODYS: &[&[&str]] = &[
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
pub(crate) struct Writer<'a> {
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The version in which the object is written.
    pub(crate) api_version: &'a str,
    /// The subresource, or nothing.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
    /// Whether the status can only be written through its subresource: then other doors own nothing of it.
    pub(crate) status_apart: bool,
    /// Fields of structs that exist even when nobody has set them.
    pub(crate) standing: &'a [&'a str],
}

impl Writer<'_> {
    /// Takes out of `set` what cannot be owned through this door.
    pub(super) fn ownable(&self, mut set: FieldSet) -> FieldSet {
        if self.subresource == "status" {
            set.remove_below("f:spec");
        } else if self.status_apart {
            set.remove_below("f:status");
        }
        set
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

impl Entry {
    /// Whether this is where `writer` keeps what it owns. An applier is the same in every version.
    pub(super) fn is_of(&self, writer: &Writer<'_>, operation: Operation) -> bool {
        self.manager == writer.manager
            && self.operation == operation
            && self.subresource == writer.subresource
            && (operation == Operation::Apply || self.api_version == writer.api_version)
    }

    pub(super) fn of(writer: &Writer<'_>, operation: Operation, fields: FieldSet) -> Self {
        Self {
            manager: writer.manager.into(),
            operation,
            api_version: writer.api_version.into(),
            subresource: writer.subresource.into(),
            time: object::seconds(writer.now),
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

    fn from_json(entry: &Value) -> Option<Self> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let fields = FieldSet::from_json(entry.get("fieldsV1")?);
        let (manager, api_version, subresource, time) =
            (text("manager"), text("apiVersion"), text("subresource"), text("time"));
        Some(Self { manager, operation, api_version, subresource, time, fields })
    }

    fn to_json(&self) -> Value {
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut entry = Map::new();
        entry.insert("manager".into(), self.manager.as_str().into());
        entry.insert("operation".into(), operation.into());
        entry.insert("apiVersion".into(), self.api_version.as_str().into());
        entry.insert("time".into(), self.time.as_str().into());
        entry.insert("fieldsType".into(), "FieldsV1".into());
        entry.insert("fieldsV1".into(), self.fields.to_json());
        if !self.subresource.is_empty() {
            entry.insert("subresource".into(), self.subresource.as_str().into());
        }
        entry.into()
    }
}

/// The entries of an object.
pub(super) fn read(object: &Value) -> Vec<Entry> {
    object::list(object, &["metadata", "managedFields"]).iter().filter_map(Entry::from_json).collect()
}

/// Writes entries into an object: what belongs to nobody is taken out, empty ones are dropped, too many updaters are lumped
/// together, and the order is appliers first, then by time.
pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    for entry in &mut entries {
        entry.fields.remove_paths(NOBODYS);
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
    if entries.is_empty() {
        object::remove(object, &["metadata", "managedFields"]);
    } else {
        object::set_meta(object, "managedFields", entries.iter().map(Entry::to_json).collect::<Vec<_>>());
    }
}

fn cap(entries: &mut Vec<Entry>) {
    let mut updaters = entries.iter().filter(|entry| entry.operation == Operation::Update).count();
    while updaters > UPDATERS {
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
        entries[two] =
            Entry { manager: ANCIENT.into(), subresource: String::new(), fields: merged, ..entries[two].clone() };
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
