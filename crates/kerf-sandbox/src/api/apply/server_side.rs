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

/// Merges the configuration `applied` into `live` (`None` if the object does not exist). Returns
/// the new object with its managed fields. The caller sets defaults afterwards, because no manager
/// owns defaults.
pub(crate) fn apply(
    schema: &Schema,
    live: Option<&Value>,
    applied: &Value,
    writer: &FieldManager<'_>,
    force: bool,
) -> Result<Value, StatusError> {
    let at = schema.root();
    if object::at(applied, &["metadata", "managedFields"]).is_some() {
        return Err(StatusError::bad_request("metadata.managedFields must be nil"));
    }
    let mut live_object = live.cloned().unwrap_or_else(|| identity(applied));
    let mut entries = ManagedFields::take(&mut live_object).into_entries();
    let applied_at =
        entries.iter().find(|entry| entry.belongs_to(writer, Operation::Apply)).map(|entry| entry.time.clone());

    let set = typed::fields(at, applied).map_err(|problem| {
        let (namespace, name) = (object::namespace(applied), object::name(applied));
        let (version, kind) = (object::text(applied, &["apiVersion"]), object::text(applied, &["kind"]));
        StatusError::server_error(&format!(
            "failed to create typed patch object ({namespace}/{name}; {version}, Kind={kind}): {problem}"
        ))
    })?;
    let set = writer.only_ownable(set);
    let mut merged = typed::merge(at, &live_object, applied);

    let index = entries.iter().position(|entry| entry.belongs_to(writer, Operation::Apply));
    let old_fields = index.map(|index| std::mem::take(&mut entries[index].fields));
    let new_entry = ManagedFieldsEntry::new(writer, Operation::Apply, set);
    match index {
        Some(index) => entries[index] = new_entry,
        None => entries.push(new_entry),
    }
    if let Some(old_fields) = old_fields.filter(|old_fields| !old_fields.is_empty()) {
        merged = prune(schema, &merged, &old_fields, &entries);
    }

    let mut comparison = typed::compare(at, &live_object, &merged, writer.implicit_fields);
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
    ManagedFields::normalized(entries).put(&mut merged);
    Ok(merged)
}

/// Returns an object with only the type of `applied`.
fn identity(applied: &Value) -> Value {
    let mut identity = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = applied.get(key) {
            identity.insert(key.into(), value.clone());
        }
    }
    identity.insert("metadata".into(), Map::new().into());
    identity.into()
}

/// Removes from `merged` the fields that the applier owned before and no manager owns now.
fn prune(schema: &Schema, merged: &Value, old: &FieldSet, entries: &[ManagedFieldsEntry]) -> Value {
    let at = schema.root();
    let with_named_fields = |set: &FieldSet| typed::with_named_fields(at, set);
    let fields = |value: &Value| with_named_fields(&typed::fields(at, value).unwrap_or_default());
    let remove = |removed: &FieldSet| typed::without(at, merged, removed).unwrap_or_else(|| Map::new().into());

    let old_fields = with_named_fields(old);
    let pruned = remove(&old_fields);
    let owned = entries.iter().fold(FieldSet::default(), |owned, entry| owned.union(&entry.fields));
    let all_fields = fields(merged);
    // Restores fields that other managers own.
    let pruned = remove(&all_fields.difference(&fields(&pruned).union(&with_named_fields(&owned))));
    // Restores fields that were removed with a parent and that the applier never owned.
    remove(&all_fields.difference(&fields(&pruned)).intersection(&old_fields))
}

fn apply_conflict_error(mut conflicts: Vec<(String, Vec<String>)>) -> StatusError {
    conflicts.sort();
    let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
    let message = match conflicts.as_slice() {
        [(owner, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {owner}: {}", paths[0])
        }
        several => {
            let parts: Vec<String> = several
                .iter()
                .map(|(owner, paths)| {
                    let paths: Vec<String> = paths.iter().map(|path| format!("\n- {path}")).collect();
                    format!("conflicts with {owner}:{}", paths.concat())
                })
                .collect();
            format!("Apply failed with {count} conflicts: {}", parts.join("\n"))
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
