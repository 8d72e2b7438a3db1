//! Rules between pods: topology spread, pod affinity and pod anti-affinity (spec 02 §8).
//!
//! A topology group counts pods per domain, that is, per value of one node label such as the zone.
//! Pods whose rules are equal share a group. The hostname is treated separately: each node and each
//! claim is a domain of its own, so counts are kept per node and per claim.

mod counts;
mod group;
mod keys;

pub(crate) use counts::{DomainNodeCounts, GroupCounts};
pub(crate) use group::{FilterIx, Group, GroupIdentity, GroupIx, GroupKey, GroupKind, NodeFilter};
pub(crate) use keys::{TopologyKeyIx, TopologyKeys};
