//! Holds back consolidation commands that move settled pods and save little. After each rollout or
//! finished job some other placement is slightly cheaper. Following every such change would move
//! pods all the time although nothing has changed for them.
//!
//! So a consolidation command waits if it moves pods that have run for an hour and saves less than
//! twice the price of the capacity that these pods use. All held commands start once together they
//! save 1/40 of the cluster's hourly cost. Deleting a nearly empty node never waits: it saves much
//! more than its pods' capacity costs. Neither do commands that move only younger pods, because
//! such pods still move for other reasons.
//!
//! After a large wave (at least ten nodes and a tenth of the cluster emptied at once) a cooldown
//! treats all pods as settled: what is left to save is mostly little, and would move pods again
//! that have just moved.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::{Node, Pod, Str};
use kerf_engine::{DisruptionCommand, Input, Price, is_large_wave, pod_requests};

/// Age from which a pod is settled.
const SETTLED_POD_AGE_MIN: SignedDuration = SignedDuration::from_hours(1);
/// Time after a large wave for which all pods count as settled.
const WAVE_COOLDOWN: SignedDuration = SignedDuration::from_mins(10);
/// Held commands start once together they save 1/40 of the cluster's hourly cost.
const HELD_SAVINGS_DIVISOR: i64 = 40;
/// A command that moves settled pods is held if it saves less than this many times the price of
/// their capacity, or of the command's replacements if these cost more.
const SAVINGS_TO_MOVED_PRICE_RATIO_MIN: i64 = 2;

/// Returns the end of the cooldown if `emptied` of `nodes` nodes are emptied by consolidation at
/// `now`. Returns `None` if that is no large wave.
pub(crate) fn cooldown_until(emptied: usize, nodes: usize, now: Timestamp) -> Option<Timestamp> {
    is_large_wave(emptied, nodes).then(|| now.saturating_add(WAVE_COOLDOWN).unwrap_or(Timestamp::MAX))
}

/// Returns the indices of the commands that are held. `price_before` is the price of all nodes. All
/// pods count as settled until `cooldown_end`; `None` means that there is no cooldown.
///
/// Call it when commands are found, and again when they are validated: pods that settled between
/// the two would otherwise be moved.
pub(crate) fn low_value_moves(
    input: &Input,
    commands: &[DisruptionCommand],
    price_before: Price,
    cooldown_end: Option<Timestamp>,
) -> BTreeSet<usize> {
    let commands: Vec<(usize, &DisruptionCommand)> =
        commands.iter().enumerate().filter(|(_, command)| command.method.is_for_savings()).collect();
    if commands.is_empty() {
        return BTreeSet::new();
    }
    let settled_pods = SettledPods::new(
        input,
        cooldown_end,
        commands.iter().flat_map(|(_, command)| &command.nodes).map(|node| &node.name),
    );
    let is_low_value = |command: &DisruptionCommand| {
        settled_pods.moved_price(command).is_some_and(|moved_price| {
            command.saved() < moved_price.max(command.price_after).times(SAVINGS_TO_MOVED_PRICE_RATIO_MIN)
        })
    };
    let held: Vec<(usize, &DisruptionCommand)> =
        commands.into_iter().filter(|(_, command)| is_low_value(command)).collect();
    let saved: Price = held.iter().map(|(_, command)| command.saved()).sum();
    if saved.times(HELD_SAVINGS_DIVISOR) >= price_before {
        return BTreeSet::new();
    }
    held.into_iter().map(|(index, _)| index).collect()
}

/// The settled pods of some nodes.
struct SettledPods<'a> {
    nodes: BTreeMap<&'a str, &'a Node>,
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
}

impl<'a> SettledPods<'a> {
    fn new(input: &'a Input, cooldown_end: Option<Timestamp>, names: impl Iterator<Item = &'a Str>) -> Self {
        let names: BTreeSet<&str> = names.map(Str::as_str).collect();
        let nodes = input.nodes.iter().filter(|node| names.contains(node.metadata.name.as_str()));
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in &input.pods {
            let is_settled = is_settled_pod(pod, input.at, cooldown_end);
            let node = pod.spec.node_name.as_deref().filter(|node| is_settled && names.contains(node));
            if let Some(node) = node {
                pods.entry(node).or_default().push(pod);
            }
        }
        Self { nodes: nodes.map(|node| (node.metadata.name.as_str(), node.as_ref())).collect(), pods }
    }

    /// Returns the share of the nodes' prices that the settled pods use which a command moves. A
    /// pod's share is its largest share of its node's CPU or memory. Returns `None` if the command
    /// moves no settled pod.
    fn moved_price(&self, command: &DisruptionCommand) -> Option<Price> {
        let mut total: Option<Price> = None;
        for node in &command.nodes {
            let Some(node_object) = self.nodes.get(node.name.as_str()) else { continue };
            for pod in self.pods.get(node.name.as_str()).into_iter().flatten() {
                if command.pods.binary_search(&pod.namespaced_name()).is_ok() {
                    total = Some(total.unwrap_or_default() + price_share(node_object, pod, node.price));
                }
            }
        }
        total
    }
}

/// Returns true if a pod has run for an hour, or if the cooldown after a wave has not ended.
fn is_settled_pod(pod: &Pod, now: Timestamp, cooldown_end: Option<Timestamp>) -> bool {
    let has_run_for_long = pod.status.start_time.is_some_and(|start| now.duration_since(start) >= SETTLED_POD_AGE_MIN);
    has_run_for_long || cooldown_end.is_some_and(|end| now < end)
}

/// Returns the node's price times the pod's largest share of the node's CPU or memory.
fn price_share(node: &Node, pod: &Pod, price: Price) -> Price {
    let requests = pod_requests(pod);
    let share = |resource: &str| {
        let (requested, allocatable) =
            (requests.get(resource)?.milli_value(), node.status.allocatable.get(resource)?.milli_value());
        price.share(i128::from(requested), i128::from(allocatable))
    };
    [share("cpu"), share("memory")].into_iter().flatten().max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap_or_default()
    }

    #[test]
    fn a_large_wave_empties_ten_nodes_and_a_tenth_of_the_cluster() {
        assert_eq!(cooldown_until(10, 100, at(0)), Some(at(10)));
        assert_eq!(cooldown_until(9, 20, at(0)), None, "fewer than 10 nodes");
        assert_eq!(cooldown_until(10, 101, at(0)), None, "less than a tenth of the cluster");
    }

    #[test]
    fn pods_are_settled_after_an_hour_or_during_a_cooldown() {
        let mut pod = Pod::default();
        pod.status.start_time = Some(at(0));
        assert!(!is_settled_pod(&pod, at(59), None));
        assert!(is_settled_pod(&pod, at(60), None));
        assert!(is_settled_pod(&pod, at(5), Some(at(6))));
        assert!(!is_settled_pod(&pod, at(6), Some(at(6))));
    }
}
