//! The cluster as we know it: a synchronous, pure index, fed by events, that the engine's input is made from.
//!
//! `kerf plan`, `kerf top`, `kerf replay` and the controllers all see the cluster through this crate, so that they all
//! decide on the same picture. It never does IO, never awaits and never reads a clock: instants come in as values.
//!
//! [`Cluster`] is told what the API server says ([`Cluster::reset`], [`Cluster::apply`], [`Cluster::delete`]) and what we did that the
//! API server does not show yet ([`Cluster::seed`], marks, nominations); [`Cluster::synced`] says whether it may be decided upon, and
//! [`Cluster::solve`] is the decision; [`Cluster::input`] is what it is about, for whoever asks the engine something else.

mod claims;
mod cluster;
mod input;
mod intents;
mod kinds;
mod nodes;
mod object_table;
mod pool_claims;
mod pools;
mod replica_owners;
mod solver_cache;
mod sync_status;

pub use claims::{TrackedClaim, to_engine_claim};
pub use cluster::{Cluster, NodeRequests};
pub use input::InputContext;
pub use kerf_api::slim;
pub use kinds::{NodeClass, Tracked};
pub use nodes::{StateNode, is_tracked};
pub use object_table::{ObjectChange, ObjectTable};
pub use pool_claims::PoolClaims;
pub use pools::{NodeClassState, disruption_pause, node_class_state, to_engine_pool};
pub use replica_owners::{ReplicaSet, ReplicationController, StatefulSet};
pub use sync_status::{RequiredKind, SyncStatus, UnsyncedReason};
