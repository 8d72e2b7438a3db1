//! Instance types: as providers describe them, and compiled to bit sets for the solver.

mod compiled;
mod fit;
mod instance_type;
mod list;

pub(crate) use compiled::{CompiledCatalogue, RowIx, RowView};
pub(crate) use fit::FitIndex;
pub use instance_type::{InstanceType, Offering, Overhead};
pub use list::{InstanceTypeRef, InstanceTypes, OfferingIx, OfferingRef, OfferingState};
