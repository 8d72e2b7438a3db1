//! The bookkeeping of every write that is not an apply: whoever adds or changes a field owns it from then on, and nobody owns
//! what is gone.

use serde_json::Value;

use super::managed::{self, Entry, Operation, Writer};
use super::typed;
use crate::api::object;
use crate::api::schema::Schema;

/// Brings the managed fields of `new` up to date, knowing what stood there before (nothing, for a creation). What the client
/// itself says about managed fields counts only if it resets them, or if nothing was known.
pub(crate) fn track(schema: &Schema, old: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let reset = managed::is_reset(new);
    let told = managed::read(new);
    object::remove(new, &["metadata", "managedFields"]);
    let mut entries = match old {
        _ if reset => Vec::new(),
        None => Vec::new(),
        Some(_) if !told.is_empty() => told,
        Some(old) => managed::read(old),
    };
    if reset {
        return;
    }
    let empty = Value::Object(serde_json::Map::new());
    let bare;
    let old = match old {
        Some(old) => {
            bare = without_bookkeeping(old);
            &bare
        }
        None => &empty,
    };
    let comparison = typed::compare(schema.root(), old, new, writer.standing);
    if comparison.is_same() {
        managed::write(new, entries);
        return;
    }
    let changed = comparison.changed();
    for entry in entries.iter_mut().filter(|entry| !entry.is_of(writer, Operation::Update)) {
        entry.fields = entry.fields.difference(&writer.ownable(changed.clone())).difference(&comparison.removed);
    }
    let ours = entries.iter_mut().find(|entry| entry.is_of(writer, Operation::Update));
    let gained = writer.ownable(changed);
    match ours {
        Some(entry) => {
            let kept = entry.fields.difference(&comparison.removed).union(&gained);
            if kept != entry.fields || !gained.is_empty() {
                *entry = Entry::of(writer, Operation::Update, kept);
            }
        }
        None => entries.push(Entry::of(writer, Operation::Update, gained)),
    }
    managed::write(new, entries);
}

/// The object as ownership sees it.
fn without_bookkeeping(object: &Value) -> Value {
    let mut bare = object.clone();
    object::remove(&mut bare, &["metadata", "managedFields"]);
    bare
}
