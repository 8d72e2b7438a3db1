//! Field ownership: server-side apply, and the tracking of `metadata.managedFields` on other
//! writes.
//!
//! ```text
//! field_set    sets of fields as tries, and their JSON form (FieldsV1)
//! typed        schema-driven operations: fields of an object, comparison, merge, removal
//! managed      the entries of metadata.managedFields
//! track        update or patch: the manager that changes a field owns it
//! server_side  apply: the manager owns the fields that it applies, fields of other managers
//!              conflict, fields that it no longer applies are removed
//! ```

mod field_set;
mod managed;
mod server_side;
mod track;
mod typed;

#[cfg(test)]
mod tests;

pub(crate) use managed::{FieldManager, ManagedFields};
pub(crate) use server_side::apply;
pub(crate) use track::track_ownership;
