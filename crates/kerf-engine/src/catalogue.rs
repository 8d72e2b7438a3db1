//! Instance types: as providers describe them, and compiled to bit sets for the solver.

mod compiled;
mod fit;
mod instance_type;
mod list;
mod view_cache;

pub(crate) use compiled::{CatalogueRow, CompiledCatalogue, PricedRow, RowIx, RowView};
pub(crate) use fit::FitIndex;
pub use instance_type::{InstanceType, Offering, Overhead};
pub use list::{InstanceTypeRef, InstanceTypes, OfferingIx, OfferingRef, OfferingState};
pub(crate) use view_cache::ViewCache;
