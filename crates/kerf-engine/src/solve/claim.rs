//! A machine to be launched, while it is being put together.

use kerf_api::slim::HostPort;

use super::problem::PodIx;
use crate::bits::Bits;
use crate::price::Price;
use crate::requirement_table::RequirementSetIx;
use crate::resources::Amounts;
use crate::topology::{GroupIx, TopologyKeyIx};

/// An open claim: the pods on it so far and what they leave of the pool's choices.
#[derive(Debug, Clone)]
pub(crate) struct OpenClaim {
    pub(crate) template: usize,
    /// What the machine must be by now.
    pub(crate) requirements: RequirementSetIx,
    /// The rows that still fit everything.
    pub(crate) rows: Bits,
    /// The rows at which it is counted against its pool's limits.
    pub(crate) rows_counted_in_limits: Bits,
    /// Requests of the pods; daemons come on top.
    pub(crate) requests: Amounts,
    pub(crate) pods: Vec<PodIx>,
    /// Where its pods are counted although the machine will be in one of several domains.
    pub(crate) uncertain_counts: Vec<UncertainCount>,
    pub(crate) ports: Vec<HostPort>,
    /// Reservations that it holds, by index.
    pub(crate) reserved: Vec<usize>,
    /// The cheapest machine that it could be.
    pub(crate) price: Price,
    pub(crate) min_values_relaxed: bool,
}

/// A pod that a group counts in a domain where it may turn out not to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UncertainCount {
    pub(crate) group: GroupIx,
    pub(crate) key: TopologyKeyIx,
    pub(crate) domain: usize,
}
