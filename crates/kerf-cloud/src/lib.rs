//! What a cloud provider must do for Kerf: the trait, its error classes, and the tests that every provider must pass. A provider
//! describes its machines in the words of the engine's catalogue and never takes a scheduling decision itself.

pub mod conformance;
mod error;
mod hook;
mod machine;
mod provider;

pub use error::{BoxError, CreateError, DriftError, InstanceTypesError, ListError, MachineError};
pub use hook::{Progress, RegistrationHook};
pub use machine::{Machine, NodeClassKind, RepairPolicy};
pub use provider::CloudProvider;
