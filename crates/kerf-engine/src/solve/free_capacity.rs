//! Which nodes might have room? A coarse picture of what is left on every node, four numbers each, with the most of every
//! sixty-four nodes beside it, so that first fit passes full nodes by the word.
//!
//! The picture rounds down on both sides, so it never denies a node that has room; whoever it lets through is asked exactly.

use crate::resources::Amounts;

/// CPU, memory, pods and ephemeral storage, each in a unit of its own.
pub(crate) type CoarseAmounts = [i32; 4];

/// By how many bits the nano-units of each are shortened.
const ROUNDING_SHIFT_BITS: [u32; 4] = [20, 44, 29, 44];
/// Takes nothing: what a pod needs is never below zero.
const NO_CAPACITY: CoarseAmounts = [-1; 4];

/// What a pod needs, coarsely.
pub(crate) fn coarse_requests(need: &Amounts) -> CoarseAmounts {
    round_down(need).map(|n| n.max(0))
}

fn round_down(amounts: &Amounts) -> CoarseAmounts {
    let mut short = [0; 4];
    for ((short, amount), shift) in short.iter_mut().zip(amounts.as_slice()).zip(ROUNDING_SHIFT_BITS) {
        *short = i32::try_from(amount >> shift).unwrap_or(i32::MAX);
    }
    short
}

/// What is left, node by node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FreeCapacity {
    nodes: Vec<CoarseAmounts>,
    /// The most of each in every sixty-four nodes.
    max_per_word: Vec<CoarseAmounts>,
}

impl FreeCapacity {
    pub(crate) fn new(remaining: &[Amounts]) -> Self {
        let nodes: Vec<CoarseAmounts> = remaining.iter().map(coarse_remaining).collect();
        let most = nodes.chunks(64).map(max_per_resource).collect();
        Self { nodes, max_per_word: most }
    }

    /// Notes what is left of a node.
    pub(crate) fn set(&mut self, node: usize, remaining: &Amounts) {
        let word = node / 64;
        if self.nodes.len() <= node {
            self.nodes.resize(node + 1, NO_CAPACITY);
            self.max_per_word.resize(word + 1, NO_CAPACITY);
        }
        let before = std::mem::replace(&mut self.nodes[node], coarse_remaining(remaining));
        let now = self.nodes[node];
        let top = &mut self.max_per_word[word];
        if (0..4).any(|r| before[r] == top[r] && now[r] < before[r]) {
            *top = max_per_resource(&self.nodes[word * 64..self.nodes.len().min(word * 64 + 64)]);
        } else {
            (0..4).for_each(|r| top[r] = top[r].max(now[r]));
        }
    }

    /// Whether any of these sixty-four nodes might do.
    pub(crate) fn word_may_fit(&self, word: usize, need: &CoarseAmounts) -> bool {
        self.max_per_word.get(word).is_some_and(|most| fits(need, most))
    }

    pub(crate) fn may_fit(&self, node: usize, need: &CoarseAmounts) -> bool {
        self.nodes.get(node).is_some_and(|room| fits(need, room))
    }
}

fn fits(need: &CoarseAmounts, room: &CoarseAmounts) -> bool {
    (0..4).all(|r| need[r] <= room[r])
}

/// A node that is over-committed in anything takes nothing (spec 02 §4.3).
fn coarse_remaining(remaining: &Amounts) -> CoarseAmounts {
    if remaining.any_negative() { NO_CAPACITY } else { round_down(remaining) }
}

fn max_per_resource(nodes: &[CoarseAmounts]) -> CoarseAmounts {
    nodes.iter().fold(NO_CAPACITY, |mut most, node| {
        (0..4).for_each(|r| most[r] = most[r].max(node[r]));
        most
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
    fn never_denies_a_node_with_room_and_follows_changes() {
        let mut remaining: Vec<Amounts> = (0..200).map(|i| amounts((i * 37) % 101, i % 5)).collect();
        let mut room = FreeCapacity::new(&remaining);
        for step in 0..400_usize {
            let node = (step * 53) % 200;
            remaining[node] = amounts((step as i128 * 71) % 103 - 3, (step as i128) % 4);
            room.set(node, &remaining[node]);
            assert_eq!(room, FreeCapacity::new(&remaining), "after {step} changes");
            let need = amounts((step as i128 * 13) % 90, 1);
            for (node, left) in remaining.iter().enumerate().filter(|(_, left)| need.fits_in(left)) {
                assert!(room.may_fit(node, &coarse_requests(&need)), "{left:?}");
                assert!(room.word_may_fit(node / 64, &coarse_requests(&need)));
            }
        }
    }
}
