//! Instance types for a node class (spec 05 §4): from EC2's descriptions, the zones in which EC2
//! offers them and the settings of an `EC2NodeClass` to the types on which the engine decides.
//!
//! Nothing here calls AWS, except [`InstanceTypeCatalogue::refresh`]. A type is described as it
//! will be once its node has registered; the kubelet's defaults that Kerf assumes here are never
//! written to a node.

pub mod ami_family;
mod bytes;
mod capacity;
mod catalogue;
mod class_facts;
mod class_states;
mod compatibility;
mod discovered_memory;
pub mod kubelet;
mod labels;
mod overhead;
mod sharing;

pub use catalogue::{InstanceTypeCatalogue, InstanceTypeError, InstanceTypeSettings};
pub use kubelet::{KubeletError, KubeletSettings};

#[cfg(test)]
mod tests;
