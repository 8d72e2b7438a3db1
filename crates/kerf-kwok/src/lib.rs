//! The simulated provider (`karpenter.kwok.sh`): instance types from a JSON file or built in, and nodes without machines.
//! It is what `kerf plan` prices files with, and what the sandbox and scale tests launch.

mod catalogue;
mod money;
mod node;
mod provider;
mod stock;

pub use catalogue::{Catalogue, CatalogueProblem, built_in, parse};
pub use provider::Kwok;
pub use stock::{Plenty, Refusal, Stock};
