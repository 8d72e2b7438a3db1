//! Writing: create, update, patch and apply, and the steps that every object takes before it is
//! stored.
//!
//! ```text
//! body ─ decode ─ default ─┬─ managed fields ─ admission ─ prepare ─ validate ─┬─ store
//!                          │                                  (built-in kinds) │    │
//!                          └─ admit (prune, default, validate)─ managed fields ┘    └─ after_write
//!                                                           (custom resources)
//! ```
//! Invariant: a write is validated against the version that it replaces. If the stored version has
//! changed since, the write starts again or fails. It is never merged into an unknown version.

mod create;
mod metadata;
mod patch;
mod prepare;
mod update;

pub(crate) use create::create;
pub(crate) use metadata::validate_metadata;
pub(crate) use patch::{patch, read_patch};
pub(crate) use prepare::{WriteOperation, check_field_strictness};
pub(crate) use update::{ManagedFieldsView, ProposedObject, check_identity, modify, replace};
