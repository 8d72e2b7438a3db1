//! The algebra of requirements (spec 02 §3): which values a label may have, what two sides have in common, and whether what is
//! asked can be had from what is offered.
//!
//! Everything here works on texts and is exact; it speaks with users and with the API. The solver's inner loops work on the bit
//! sets that the catalogue makes of these, and must give the same answers.

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
