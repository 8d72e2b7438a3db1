//! The simulated provider (`karpenter.kwok.sh`): instance types from a JSON file or built in, and nodes without machines.
//! It is what `kerf plan` prices files with, and what the sandbox and scale tests launch.

mod availability;
mod catalogue;
mod money;
mod node;
mod provider;

pub use availability::{AvailabilityError, InstanceAvailability, UnlimitedAvailability};
pub use catalogue::{Catalogue, CatalogueProblem, built_in_catalogue, parse_catalogue};
pub use provider::Kwok;
