//! What a cloud provider must do for Kerf: the trait, its error classes, and the tests that every provider must pass. A provider
//! describes its machines in the words of the engine's catalogue and never takes a scheduling decision itself.

pub mod conformance;
mod error;
mod hook;
mod instance;
mod provider;

pub use error::{BoxError, CreateError, DriftError, InstanceError, InstanceTypesError, ListError};
pub use hook::{HookResult, RegistrationHook};
pub use instance::{Instance, NodeClassKind, RepairPolicy};
pub use provider::CloudProvider;
