//! An open claim is a NodeClaim under construction during one pass.
//!
//! A claim only narrows: each pod that joins can remove instance types and values, never add any.

use kerf_api::slim::HostPort;

use super::limits::LimitAmounts;
use super::problem::PodIx;
use crate::bits::Bits;
use crate::price::Price;
use crate::requirement_table::RequirementSetIx;
use crate::resources::Amounts;
use crate::topology::{GroupIx, TopologyKeyIx};

/// The pods of a claim so far and the choices that they leave of the pool's.
#[derive(Debug, Clone)]
pub(crate) struct OpenClaim {
    pub(crate) template: usize,
    /// The pool's requirements narrowed by those of all pods.
    pub(crate) requirements: RequirementSetIx,
    /// Catalogue rows that still fit all pods.
    pub(crate) rows: Bits,
    /// Amounts that the claim takes from its pool's limits. Empty if the pool has none.
    pub(crate) counted_in_limits: LimitAmounts,
    /// Requests of the pods, without daemon overhead.
    pub(crate) requests: Amounts,
    pub(crate) pods: Vec<PodIx>,
    /// Counts of its pods in domains where it may turn out not to be launched.
    pub(crate) uncertain_counts: Vec<UncertainCount>,
    pub(crate) ports: Vec<HostPort>,
    /// Indices of the reservations that it holds a slot of.
    pub(crate) reserved: Vec<usize>,
    /// Hourly price of the cheapest row. Current only after the pass, or under
    /// `ClaimOrder::SmallestPriceIncrease`.
    pub(crate) price: Price,
    /// True if a `minValues` of the pool was lowered (policy `BestEffort`).
    pub(crate) min_values_relaxed: bool,
}

/// A pod counted in one of several domains in which its claim may be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UncertainCount {
    pub(crate) group: GroupIx,
    pub(crate) key: TopologyKeyIx,
    pub(crate) domain: usize,
}
