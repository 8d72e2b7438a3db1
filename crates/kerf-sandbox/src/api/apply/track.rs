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
    let reset = managed::is_reset(new);
    let told = ManagedFields::take(new);
    if reset {
        return ManagedFields::default();
    }
    let empty = Value::Object(serde_json::Map::new());
    let (old, known) = match old {
        Some((old, _)) if !told.is_empty() => (old, told),
        Some((old, known)) => (old, known),
        None => (&empty, ManagedFields::default()),
    };
    let mut comparison = typed::compare(schema.root(), old, new, writer.implicit_fields);
    let mut entries = known.into_entries();
    if comparison.is_same() {
        return ManagedFields::of(entries);
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
                let kept = std::mem::take(&mut entry.fields).union(&gained);
                *entry = ManagedFieldsEntry::of(writer, Operation::Update, kept);
            }
        }
        None => entries.push(ManagedFieldsEntry::of(writer, Operation::Update, gained)),
    }
    ManagedFields::of(entries)
}
