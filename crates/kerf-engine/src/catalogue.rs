//! The instance types on offer: as providers describe them, and as columns and bitsets that the solver asks.

mod compiled;
mod fit;
mod instance_type;

pub(crate) use compiled::{CompiledCatalogue, RowIx, RowView};
pub(crate) use fit::FitIndex;
pub use instance_type::{InstanceType, Offering, Overhead};
