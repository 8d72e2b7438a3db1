//! Cluster state: a synchronous index of API objects, fed by watch events, from which the
//! controllers build the engine's input.
//!
//! The controllers decide only on what [`Cluster`] holds. `kerf plan` does not use [`Cluster`]: it
//! builds its own `kerf_engine::Input` from files and shares only the conversion functions
//! ([`to_engine_claim`], [`to_engine_pool`], [`node_class_state`]).
//!
//! This crate never does IO, never awaits and never reads a clock: callers pass the time in.
//!
//! - [`Cluster::reset`], [`Cluster::apply`] and [`Cluster::delete`] record what the API server
//!   reports.
//! - [`Cluster::insert_created`], deletion marks and nominations record what Kerf has done and the
//!   API server does not show yet.
//! - [`Cluster::check_synced`] reports whether decisions may be made.
//! - [`Cluster::solve`] places the pending pods. [`Cluster::input`] returns the engine's input for
//!   any other decision.

mod claims;
mod cluster;
mod input;
mod instance_ids;
mod intents;
mod kinds;
mod launch_attempts;
mod launches;
mod node_classes;
mod nodes;
mod object_table;
mod own_evictions;
mod pool_claims;
mod pools;
mod replica_owners;
mod solver_cache;
mod sync_status;

pub use claims::{TrackedClaim, is_under_disruption, to_engine_claim};
pub use cluster::{Cluster, NodeRequests};
pub use input::InputContext;
pub use instance_ids::instance_id;
pub use intents::NeverReadyClaim;
pub use kerf_api::slim;
pub use kinds::Tracked;
pub use node_classes::NodeClass;
pub use nodes::{StateNode, is_complete_node};
pub use object_table::{ObjectChange, ObjectTable};
pub use pool_claims::PoolClaims;
pub use pools::{NodeClassState, disruption_pause, node_class_state, pool_of_other_provider, to_engine_pool};
pub use replica_owners::{ReplicaSet, ReplicationController, StatefulSet};
pub use sync_status::{RequiredKind, SyncStatus, UnsyncedReason};
