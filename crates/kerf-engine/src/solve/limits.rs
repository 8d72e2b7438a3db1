//! Pool limits within one pass (spec 02 §4.6): what an open claim takes from them, and which
//! instance types they leave.
//!
//! There are two ways to count an open claim. Under Karpenter's rule a claim counts as the largest
//! type that it could become when it was opened. Otherwise it counts as the smallest types that it
//! needs, and `shrink_claims` removes its largest types at the end of the pass until the limits
//! hold.
//!
//! Limits are pairs of a resource and its remaining amount in nano-units; only limited resources
//! are listed.

use smallvec::SmallVec;

use crate::bits::Bits;
use crate::catalogue::{CompiledCatalogue, RowIx};
use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx};

/// The amounts that one claim takes from the limits of its pool, in the order of these limits, in
/// nano-units. Empty if the pool has no limits.
pub(crate) type LimitAmounts = SmallVec<[i128; 2]>;

/// The rows of a catalogue by what they take from the limits of one pool. Empty if the pool limits
/// no resource of instance types.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitedRows {
    /// For each limit, in order. Empty for `nodes`.
    by_limit: Vec<RankedCapacities>,
    /// All rows, smallest first: by the largest share of any limit that the row takes, then by the
    /// sum of its shares.
    smallest_first: Vec<RowIx>,
}

/// The distinct capacities of one resource in ascending order, with the rows that have no more.
#[derive(Debug, Clone, Default)]
struct RankedCapacities {
    capacities: Vec<i128>,
    rows: Vec<Bits>,
}

impl LimitedRows {
    /// Ranks the rows of a catalogue. `limits` are those of the pool's spec.
    pub(crate) fn new(catalogue: &CompiledCatalogue, limits: &[(ResourceIx, i128)]) -> Self {
        if limits.iter().all(|(resource, _)| *resource == ResourceIx::NODES) {
            return Self::default();
        }
        let capacity = |row: RowIx, resource| catalogue.types[catalogue.rows[row].type_ix].capacity.get(resource);
        let rank = |resource: ResourceIx| {
            if resource == ResourceIx::NODES {
                return RankedCapacities::default();
            }
            let mut order: Vec<(i128, RowIx)> =
                (0..catalogue.rows.len()).map(|row| (capacity(row, resource), row)).collect();
            order.sort_unstable();
            let mut ranked = RankedCapacities::default();
            let mut rows = Bits::new();
            for group in order.chunk_by(|a, b| a.0 == b.0) {
                group.iter().for_each(|(_, row)| rows.insert(*row));
                ranked.capacities.push(group[0].0);
                ranked.rows.push(rows.clone());
            }
            ranked
        };
        let shares = |row: RowIx| {
            let share = |(resource, limit): &(ResourceIx, i128)| {
                (capacity(row, *resource) >> 10).saturating_mul(1 << 20) / (limit >> 10).max(1)
            };
            let of_resources = limits.iter().filter(|(resource, _)| *resource != ResourceIx::NODES).map(share);
            of_resources.fold((0, 0_i128), |(max, sum), share| (share.max(max), sum.saturating_add(share)))
        };
        let mut smallest_first: Vec<RowIx> = (0..catalogue.rows.len()).collect();
        smallest_first.sort_by_cached_key(|row| shares(*row));
        Self { by_limit: limits.iter().map(|(resource, _)| rank(*resource)).collect(), smallest_first }
    }

    /// Returns true if the pool limits no resource of instance types.
    pub(crate) fn is_empty(&self) -> bool {
        self.smallest_first.is_empty()
    }

    /// Keeps the rows whose capacity exceeds none of the amounts, which are in the order of the
    /// pool's limits.
    pub(crate) fn keep_within(&self, rows: &mut Bits, available: impl Iterator<Item = i128>) {
        for (ranked, available) in self.by_limit.iter().zip(available) {
            if ranked.capacities.is_empty() {
                continue;
            }
            match ranked.capacities.partition_point(|capacity| *capacity <= available).checked_sub(1) {
                Some(largest) => rows.and_with(&ranked.rows[largest]),
                None => *rows = Bits::new(),
            }
        }
    }

    /// Returns these rows, smallest first.
    pub(crate) fn smallest_first<'r>(&'r self, rows: &'r Bits) -> impl Iterator<Item = RowIx> + 'r {
        self.smallest_first.iter().copied().filter(|row| rows.contains(*row))
    }

    /// Returns the distinct capacities of the rows for one limit, in ascending order. Empty for
    /// `nodes`.
    pub(crate) fn capacities(&self, limit: usize, rows: &Bits) -> Vec<i128> {
        let ranked = &self.by_limit[limit];
        let mut distinct = Vec::new();
        let mut smaller = Bits::new();
        for (capacity, up_to) in ranked.capacities.iter().zip(&ranked.rows) {
            let mut equal = up_to.clone();
            equal.and_not_with(&smaller);
            if equal.intersects(rows) {
                distinct.push(*capacity);
            }
            smaller.clone_from(up_to);
        }
        distinct
    }
}

/// Returns true if the pool's limit of `nodes` allows no further node.
pub(crate) fn is_node_limit_reached(limits: &[(ResourceIx, i128)]) -> bool {
    limits.iter().any(|(resource, remaining)| *resource == ResourceIx::NODES && *remaining < NANOS_PER_UNIT)
}

/// Adds a node's capacity to the remaining limits `times` times. A negative number subtracts.
pub(crate) fn add_capacity(limits: &mut [(ResourceIx, i128)], capacity: &Amounts, times: i128) {
    for (resource, remaining) in limits {
        *remaining += times * if *resource == ResourceIx::NODES { NANOS_PER_UNIT } else { capacity.get(*resource) };
    }
}

/// Returns the largest amount of each limited resource over the rows. For `nodes` this is 1.
pub(crate) fn largest_amounts(
    limits: &[(ResourceIx, i128)],
    rows: impl Iterator<Item = RowIx>,
    catalogue: &CompiledCatalogue,
) -> LimitAmounts {
    let of_nodes = |resource| if resource == ResourceIx::NODES { NANOS_PER_UNIT } else { 0 };
    let mut largest: LimitAmounts = limits.iter().map(|(resource, _)| of_nodes(*resource)).collect();
    for row in rows {
        let capacity = &catalogue.types[catalogue.rows[row].type_ix].capacity;
        for ((resource, _), amount) in limits.iter().zip(&mut largest) {
            *amount = (*amount).max(capacity.get(*resource));
        }
    }
    largest
}
