//! The wire: every API object that Kerf speaks, and everything that can be said about one without looking at a cluster.
//!
//! A Karpenter user's manifests must mean here exactly what they meant there, so this crate holds the objects
//! (`karpenter.sh`, `karpenter.k8s.aws`, `karpenter.kwok.sh`, `autoscaling.x-k8s.io`), their schemas and admission
//! rules, the names that travel on the wire, exact quantities, durations, budget schedules and the drift hashes.
//!
//! It never does IO, never reads a clock, and never decides anything about a cluster.

mod open_enum;
mod schema;
pub mod annotations;
pub mod finalizers;
pub mod labels;
pub mod quantity;
pub mod slim;
pub mod taints;
pub mod written;
