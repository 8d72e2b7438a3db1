//! The API server: a Kubernetes API in memory that real clients believe in.
//!
//! ```text
//! serve    HTTPS on loopback ──┐
//! client   in this process ────┴─ server ── faults ── route ──┬─ read, watch ───────────────┐
//!                                                             ├─ write, delete, subresources ├─ storage
//!                                                             └─ discovery, openapi, table ──┘
//! ```
//! `kinds` is what is particular to the built-in kinds, `custom` what a definition makes of a custom one; `schema` tells both apart
//! from each other's lists and fields, for `patch` and `apply`.
//!
//! What always holds: objects are kept as bytes and every one of them has a version that no other write has; a watcher has no queue; no
//! request makes the server panic; nothing depends on the order of a random hasher.

mod admission;
mod after_write;
mod apply;
mod bootstrap;
mod call;
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

// For what runs in this process and needs no HTTP.
pub(crate) use selector::Selection;
pub(crate) use server::ServerState;
pub(crate) use storage::{ObjectKey, PageQuery, TableChanges, TableIx};

pub use dry_create::{DryCreateReport, dry_create_built_in};
pub use request::Verb;
pub use respond::Body;
pub use serve::{ServeError, ServerHandle};
pub use server::{ApiServer, ApiServerConfig, ConnectionLost};
