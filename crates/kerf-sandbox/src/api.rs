//! The API server: a Kubernetes API in memory, compatible with real clients.
//!
//! ```text
//! serve    HTTPS, loopback ──┐
//! client   in this process ──┴─ server ─ faults ─ route ─┬─ read, watch ────────────────┐
//!                                                        ├─ write, delete, subresources ┼─ storage
//!                                                        └─ discovery, openapi, table ──┘
//! ```
//! `kinds` holds what is particular to the built-in kinds, `custom` compiles CRDs into resources.
//! `schema` describes the fields and lists of both, for `patch` and `apply`.
//!
//! Invariants: objects are stored as bytes, and each write gives its object a version that no other
//! write has. A watcher has no queue. No request makes the server panic. Nothing depends on the
//! iteration order of a random hasher.

mod admission;
mod after_write;
mod apply;
mod bootstrap;
mod call;
mod cloud_account;
mod custom;
mod delete;
mod discovery;
mod dry_create;
mod encode;
mod field;
mod json;
mod kinds;
mod names;
pub(crate) mod object;
mod openapi;
mod patch;
mod protobuf;
mod read;
pub(crate) mod registry;
mod request;
mod respond;
mod route;
mod schema;
pub(crate) mod selector;
mod serve;
mod server;
pub(crate) mod status;
pub(crate) mod storage;
mod subresources;
mod table;
mod watch;
mod write;

// For components that run in this process and use the store without HTTP.
pub(crate) use selector::Selection;
pub(crate) use server::ServerState;
pub(crate) use storage::{ObjectKey, PageQuery, TableChanges, TableIx};

pub use dry_create::{DryCreateReport, built_in_field_names, dry_create_built_in};
pub use request::Verb;
pub use respond::Body;
pub use serve::{ServeError, ServerHandle};
pub use server::{ApiServer, ApiServerConfig, ConnectionLost};
