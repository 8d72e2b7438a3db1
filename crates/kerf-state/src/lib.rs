//! The cluster as we know it: a synchronous, pure index, fed by events, that keeps the engine's world up to date.
//!
//! `kerf plan`, `kerf top`, `kerf replay` and the controllers all see the cluster through this crate, so that they all
//! decide on the same picture. It never does IO, never awaits and never reads a clock.
//!
//! Today it holds the translation from API objects to the engine's terms; the index comes with the controllers.

mod claims;
mod pools;

pub use claims::node_claim;
pub use kerf_api::slim;
pub use pools::{NodeClassState, class_state, pool};
