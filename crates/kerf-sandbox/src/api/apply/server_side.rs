//! Server-side apply. The applier states all fields that it wants, and they are merged into the
//! live object. Fields that it applied before and no longer applies are removed unless another
//! manager owns them. A different value in a field of another manager is a conflict.

use serde_json::{Map, Value};

use super::field_set::{FieldSet, display_path};
use super::managed::{FieldManager, ManagedFields, ManagedFieldsEntry, Operation};
use super::typed;
use crate::api::object;
use crate::api::schema::Schema;
use crate::api::status::{Cause, StatusError};

/// Applies `wanted` to `live` (`None` if the object does not exist). Returns the new object with
/// its managed fields. The caller sets defaults afterwards, because no manager owns defaults.
pub(crate) fn apply(
    schema: &Schema,
    live: Option<&Value>,
    wanted: &Value,
    writer: &FieldManager<'_>,
    force: bool,
) -> Result<Value, StatusError> {
    let at = schema.root();
    if object::at(wanted, &["metadata", "managedFields"]).is_some() {
        return Err(StatusError::bad_request("metadata.managedFields must be nil"));
    }
    let mut bare = live.cloned().unwrap_or_else(|| identity(wanted));
    let mut entries = ManagedFields::take(&mut bare).into_entries();
    let applied_at =
        entries.iter().find(|entry| entry.belongs_to(writer, Operation::Apply)).map(|entry| entry.time.clone());

    let set = typed::fields(at, wanted).map_err(|problem| {
        let (namespace, name) = (object::namespace(wanted), object::name(wanted));
        let (version, kind) = (object::text(wanted, &["apiVersion"]), object::text(wanted, &["kind"]));
        StatusError::server_error(&format!(
            "failed to create typed patch object ({namespace}/{name}; {version}, Kind={kind}): {problem}"
        ))
    })?;
    let set = writer.only_ownable(set);
    let mut merged = typed::merge(at, &bare, wanted);

    let place = entries.iter().position(|entry| entry.belongs_to(writer, Operation::Apply));
    let before = place.map(|place| std::mem::take(&mut entries[place].fields));
    let ours = ManagedFieldsEntry::of(writer, Operation::Apply, set);
    match place {
        Some(place) => entries[place] = ours,
        None => entries.push(ours),
    }
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        merged = prune(schema, &merged, &before, &entries);
    }

    let mut comparison = typed::compare(at, &bare, &merged, writer.implicit_fields);
    let is_same = comparison.is_same();
    let changed = writer.only_ownable(comparison.take_changed());
    let mut conflicts: Vec<(String, Vec<String>)> = Vec::new();
    for entry in entries.iter_mut().filter(|entry| !entry.belongs_to(writer, Operation::Apply)) {
        let contested = entry.fields.intersection(&changed);
        if !contested.is_empty() {
            if !force {
                conflicts.push((entry.describe(), contested.leaves().iter().map(|path| display_path(path)).collect()));
            }
            entry.fields = entry.fields.difference(&contested);
        }
        entry.fields = entry.fields.difference(&comparison.removed);
    }
    if !conflicts.is_empty() {
        return Err(apply_conflict_error(conflicts));
    }
    if live.is_some() && is_same {
        // Applying an unchanged configuration changes nothing, not even the time.
        let entry = entries.iter_mut().find(|entry| entry.belongs_to(writer, Operation::Apply));
        if let (Some(time), Some(entry)) = (applied_at, entry) {
            entry.time = time;
        }
    }
    ManagedFields::of(entries).put(&mut merged);
    Ok(merged)
}

/// Returns an object with only the type of `wanted`.
fn identity(wanted: &Value) -> Value {
    let mut identity = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = wanted.get(key) {
            identity.insert(key.into(), value.clone());
        }
    }
    identity.insert("metadata".into(), Map::new().into());
    identity.into()
}

/// Removes from `merged` the fields that the applier owned before and no manager owns now.
fn prune(schema: &Schema, merged: &Value, before: &FieldSet, entries: &[ManagedFieldsEntry]) -> Value {
    let at = schema.root();
    let named = |set: &FieldSet| typed::with_named_fields(at, set);
    let fields = |value: &Value| named(&typed::fields(at, value).unwrap_or_default());
    let remove = |gone: &FieldSet| typed::without(at, merged, gone).unwrap_or_else(|| Map::new().into());

    let last = named(before);
    let pruned = remove(&last);
    let owned = entries.iter().fold(FieldSet::default(), |owned, entry| owned.union(&entry.fields));
    let everything = fields(merged);
    // Restores fields that other managers own.
    let pruned = remove(&everything.difference(&fields(&pruned).union(&named(&owned))));
    // Restores fields that were removed with a parent and that the applier never owned.
    remove(&everything.difference(&fields(&pruned)).intersection(&last))
}

fn apply_conflict_error(mut conflicts: Vec<(String, Vec<String>)>) -> StatusError {
    conflicts.sort();
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match conflicts.as_slice() {
        [(owner, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {owner}: {}", paths[0])
        }
        several => {
            let told: Vec<String> = several
                .iter()
                .map(|(owner, paths)| {
                    let paths: Vec<String> = paths.iter().map(|path| format!("\n- {path}")).collect();
                    format!("conflicts with {owner}:{}", paths.concat())
                })
                .collect();
            format!("Apply failed with {count} conflicts: {}", told.join("\n"))
        }
    };
    let causes = conflicts.iter().flat_map(|(owner, paths)| {
        paths.iter().map(move |path| Cause {
            reason: "FieldManagerConflict",
            message: format!("conflict with {owner}"),
            field: path.clone(),
        })
    });
    StatusError::apply_conflict(message, causes.collect())
}
