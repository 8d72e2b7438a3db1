//! API objects of Kerf, and all rules about them that need no cluster.
//!
//! A manifest written for Karpenter must have the same meaning in Kerf. Therefore this crate holds
//! the objects (`karpenter.sh`, `karpenter.k8s.aws`, `karpenter.kwok.sh`, `autoscaling.x-k8s.io`),
//! their schemas and admission rules, the names of labels, taints and annotations, exact
//! quantities, durations, budget schedules and the drift hashes.
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
