//! Ownership on writes other than apply. The manager that adds or changes a field becomes its
//! owner; removed fields lose their owners.

use serde_json::Value;

use super::managed::{self, FieldManager, ManagedFields, ManagedFieldsEntry, Operation};
use super::typed;
use crate::api::schema::Schema;

/// Returns the owners of the fields of `new`. `old` is the stored object with its managed fields,
/// or `None` on create. The client's own `managedFields` are taken out of `new`. An empty list or
/// entry resets all; other entries replace the stored ones.
pub(crate) fn track_ownership(
    schema: &Schema,
    old: Option<(&Value, ManagedFields)>,
    new: &mut Value,
    writer: &FieldManager<'_>,
) -> ManagedFields {
    let is_reset = managed::is_reset(new);
    let sent = ManagedFields::take(new);
    if is_reset {
        return ManagedFields::default();
    }
    let empty = Value::Object(serde_json::Map::new());
    let (old, managed) = match old {
        Some((old, _)) if !sent.is_empty() => (old, sent),
        Some((old, managed)) => (old, managed),
        None => (&empty, ManagedFields::default()),
    };
    let mut comparison = typed::compare(schema.root(), old, new, writer.implicit_fields);
    let mut entries = managed.into_entries();
    if comparison.is_same() {
        return ManagedFields::normalized(entries);
    }
    let gained = writer.only_ownable(comparison.take_changed());
    let removed = comparison.removed;
    for entry in entries.iter_mut().filter(|entry| !entry.belongs_to(writer, Operation::Update)) {
        entry.fields.subtract(&gained);
        entry.fields.subtract(&removed);
    }
    match entries.iter_mut().find(|entry| entry.belongs_to(writer, Operation::Update)) {
        Some(entry) => {
            let lost = entry.fields.subtract(&removed);
            if lost || !gained.is_empty() {
                let fields = std::mem::take(&mut entry.fields).union(&gained);
                *entry = ManagedFieldsEntry::new(writer, Operation::Update, fields);
            }
        }
        None => entries.push(ManagedFieldsEntry::new(writer, Operation::Update, gained)),
    }
    ManagedFields::normalized(entries)
}
