//! The wire: every API object that Kerf speaks, and everything that can be said about one without looking at a cluster.
//!
//! A Karpenter user's manifests must mean here exactly what they meant there, so this crate holds the objects
//! (`karpenter.sh`, `karpenter.k8s.aws`, `karpenter.kwok.sh`, `autoscaling.x-k8s.io`), their schemas and admission
//! rules, the names that travel on the wire, exact quantities, durations, budget schedules and the drift hashes.
//!
//! It never does IO, never reads a clock, and never decides anything about a cluster.

pub mod admission;
pub mod annotations;
pub mod capacitybuffer;
pub mod conditions;
pub mod crds;
pub mod duration;
pub mod ec2nodeclass;
pub mod finalizers;
pub mod hash;
pub mod kind;
pub mod kwoknodeclass;
pub mod labels;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
mod open_enum;
pub mod pause;
pub mod quantity;
pub mod registration;
pub mod requirement;
pub mod schedule;
pub mod scheduler_config;
mod schema;
pub mod slim;
pub mod taints;
pub mod unparsed;
pub mod validation;
pub mod yaml;
