//! Writing: create, update, patch and apply, and the one way that every object takes before it is stored.
//!
//! ```text
//! body ── decode ── default ──┬── managed fields ── admission ── prepare ── judge ──┬── store ── consequences
//!         (strict, warnings)  │   (built-in kinds)                                  │
//!                             └── admit (prune, default, judge) ── managed fields ──┘   (custom resources)
//! ```
//! Invariant: a write is judged against the very version that it replaces; if that has moved on, the write begins anew or is
//! refused, never merged blindly.

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
