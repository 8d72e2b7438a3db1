//! Requirements on labels (spec 02 §3): which values a label may have, the intersection of two
//! requirements, and whether a node or pool can satisfy what a pod requires.
//!
//! This module works on strings and is exact. It is used for API objects and messages. The solver
//! works on bit sets that are compiled from requirements and must give the same results.

mod min_values;
mod render;
mod set;
mod single;
#[cfg(test)]
mod tests;

pub use min_values::{MinValues, UnmetMinValues, check_min_values};
pub use render::SelectorEntry;
pub use set::{Conflict, Incompatible, Requirements, UndefinedLabels};
pub use single::{EffectiveOperator, Requirement, RequirementError};
