//! The instance types on offer: as providers describe them, and as columns and bitsets that the solver asks.

mod columns;
mod describe;
mod fit;

pub(crate) use columns::{Columns, RowIx, RowView};
pub use describe::{InstanceType, Offering, Overhead};
pub(crate) use fit::FitIndex;
