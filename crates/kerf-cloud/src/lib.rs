//! The contract between Kerf and a cloud provider: the trait, its error types, and the tests that
//! every provider must pass. A provider describes its instances with the types of the engine's
//! catalogue and never takes a scheduling decision itself.

pub mod conformance;
mod error;
mod hook;
mod instance;
mod instance_gc;
mod provider;

pub use error::{
    BoxError, CallTimedOut, CreateError, DriftError, InstanceError, InstanceTypesError, ListError, StartError,
    UNCLASSIFIED_LABEL,
};
pub use hook::{HookResult, RegistrationHook};
pub use instance::{Instance, NodeClassKind, NodeClassStatusReport, RepairPolicy};
pub use instance_gc::{GarbageCollectionError, GarbageCollectionSchedule, InstanceGarbageCollection};
pub use provider::{CloudProvider, ProviderSetup};
