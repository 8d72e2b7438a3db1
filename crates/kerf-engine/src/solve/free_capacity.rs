//! A coarse index of free capacity, so that first fit skips full nodes 64 at a time.
//!
//! It stores four rounded amounts per node, and the maximum of each over every 64 nodes. Requests
//! and free capacity are both rounded down, so a node that fits is never skipped. A node that
//! passes must still be checked exactly.

use crate::resources::Amounts;

/// CPU, memory, pods and ephemeral storage, in units of 2^`ROUNDING_SHIFT_BITS` nano-units.
pub(crate) type CoarseAmounts = [i32; 4];

/// Number of low bits dropped from each amount in nano-units. The units become about 1 millicore,
/// 18 kB, half a pod and 18 kB.
const ROUNDING_SHIFT_BITS: [u32; 4] = [20, 44, 29, 44];
/// Capacity that fits no pod, because requests are never below zero.
const NO_CAPACITY: CoarseAmounts = [-1; 4];

/// Returns a pod's requests, rounded down.
pub(crate) fn coarse_requests(requests: &Amounts) -> CoarseAmounts {
    round_down(requests).map(|n| n.max(0))
}

fn round_down(amounts: &Amounts) -> CoarseAmounts {
    let mut rounded = [0; 4];
    for ((rounded, amount), shift) in rounded.iter_mut().zip(amounts.as_slice()).zip(ROUNDING_SHIFT_BITS) {
        *rounded = i32::try_from(amount >> shift).unwrap_or(i32::MAX);
    }
    rounded
}

/// Rounded free capacity of all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FreeCapacity {
    nodes: Vec<CoarseAmounts>,
    /// Maximum of each resource over every 64 nodes.
    max_per_word: Vec<CoarseAmounts>,
}

impl FreeCapacity {
    pub(crate) fn new(remaining: &[Amounts]) -> Self {
        let nodes: Vec<CoarseAmounts> = remaining.iter().map(coarse_remaining).collect();
        let max_per_word = nodes.chunks(64).map(max_per_resource).collect();
        Self { nodes, max_per_word }
    }

    /// Updates the free capacity of a node.
    pub(crate) fn set(&mut self, node: usize, remaining: &Amounts) {
        let word = node / 64;
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, NO_CAPACITY);
            self.max_per_word.resize(word + 1, NO_CAPACITY);
        }
        let before = std::mem::replace(&mut self.nodes[node], coarse_remaining(remaining));
        let after = self.nodes[node];
        let max = &mut self.max_per_word[word];
        if (0..4).any(|r| before[r] == max[r] && after[r] < before[r]) {
            *max = max_per_resource(&self.nodes[word * 64..self.nodes.len().min(word * 64 + 64)]);
        } else {
            (0..4).for_each(|r| max[r] = max[r].max(after[r]));
        }
    }

    /// Returns false if none of the 64 nodes of this word can fit the requests.
    pub(crate) fn word_may_fit(&self, word: usize, requests: &CoarseAmounts) -> bool {
        self.max_per_word.get(word).is_some_and(|max| fits(requests, max))
    }

    /// Returns false if the node cannot fit the requests. If true, the exact check decides.
    pub(crate) fn may_fit(&self, node: usize, requests: &CoarseAmounts) -> bool {
        self.nodes.get(node).is_some_and(|capacity| fits(requests, capacity))
    }
}

fn fits(requests: &CoarseAmounts, capacity: &CoarseAmounts) -> bool {
    (0..4).all(|r| requests[r] <= capacity[r])
}

/// Rounds the free capacity of a node. A node that is over-committed in any resource accepts no pod
/// (spec 02 §4.3).
fn coarse_remaining(remaining: &Amounts) -> CoarseAmounts {
    if remaining.any_negative() { NO_CAPACITY } else { round_down(remaining) }
}

fn max_per_resource(nodes: &[CoarseAmounts]) -> CoarseAmounts {
    nodes.iter().fold(NO_CAPACITY, |mut max, node| {
        (0..4).for_each(|r| max[r] = max[r].max(node[r]));
        max
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{NANOS_PER_UNIT, ResourceIx};

    fn amounts(cpu_millis: i128, pods: i128) -> Amounts {
        let mut amounts = Amounts::default();
        amounts.set(ResourceIx::CPU, cpu_millis * NANOS_PER_UNIT / 1000);
        amounts.set(ResourceIx::PODS, pods * NANOS_PER_UNIT);
        amounts
    }

    #[test]
    fn a_node_that_fits_is_never_skipped_and_changes_update_the_maximum() {
        let mut remaining: Vec<Amounts> = (0..200).map(|i| amounts((i * 37) % 101, i % 5)).collect();
        let mut free_capacity = FreeCapacity::new(&remaining);
        for step in 0..400_usize {
            let node = (step * 53) % 200;
            remaining[node] = amounts((step as i128 * 71) % 103 - 3, (step as i128) % 4);
            free_capacity.set(node, &remaining[node]);
            assert_eq!(free_capacity, FreeCapacity::new(&remaining), "after {step} changes");
            let requests = amounts((step as i128 * 13) % 90, 1);
            for (node, capacity) in remaining.iter().enumerate().filter(|(_, capacity)| requests.fits_in(capacity)) {
                assert!(free_capacity.may_fit(node, &coarse_requests(&requests)), "{capacity:?}");
                assert!(free_capacity.word_may_fit(node / 64, &coarse_requests(&requests)));
            }
        }
    }
}
