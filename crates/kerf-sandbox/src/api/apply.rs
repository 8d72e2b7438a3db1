//! Who owns which field: server-side apply, and the bookkeeping that every other write leaves behind in `metadata.managedFields`.
//!
//! ```text
//! field_set    sets of fields as tries, and their JSON form (FieldsV1)
//! typed        what a schema says about two objects: which fields are there, which differ, how they merge
//! managed      the entries of metadata.managedFields
//! track        an update or a patch: whoever changes a field owns it
//! server_side  an apply: whoever applies a field owns it, others' fields are conflicts, what is no longer applied goes
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
