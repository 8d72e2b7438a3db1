//! Constraints between pods: how evenly they are spread, near and away from which others they run (spec 02 §8).
//!
//! A group tracks pods per domain of one node label. Pods share a group when their constraint is the same in every respect that
//! matters. The hostname is a key like no other, since every node is a domain of its own, and is counted per node and claim.

mod counts;
mod group;
mod keys;

pub(crate) use counts::{DomainNodeCounts, GroupCounts};
pub(crate) use group::{FilterIx, Group, GroupIdentity, GroupIx, GroupKey, GroupKind, NodeFilter};
pub(crate) use keys::{TopologyKeyIx, TopologyKeys};
