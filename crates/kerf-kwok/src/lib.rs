//! The simulated provider (`karpenter.kwok.sh`): instance types from a JSON file or built in, and
//! Nodes without instances behind them. `kerf plan` takes its prices from this crate; the sandbox
//! and the scale tests launch its nodes.

mod availability;
mod catalogue;
mod node;
mod provider;
mod registration;

pub use availability::{AvailabilityError, InstanceAvailability, UnlimitedAvailability};
pub use catalogue::{Catalogue, CatalogueProblem, built_in_catalogue, parse_catalogue};
pub use provider::Kwok;
