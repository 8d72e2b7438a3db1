//! Pods that have come to rest are not stirred for small change. Whoever rolls out a deployment or runs a job leaves the cluster a little
//! different from before, and after each such ripple there is some arrangement that would be a little cheaper. Following them all
//! would move pods for which nothing has changed, day and night.
//!
//! So a command for money waits if it moves pods that have run for an hour and saves less than twice what their room costs, until all
//! that wait save a fortieth of what the cluster costs together. Nodes that stand nearly empty never wait, and neither do pods that are
//! young: they are moving anyway. Only when a wave has emptied a good part of the cluster all pods are left in peace for a while: what is
//! left to save is mostly small by then, and would move those again that have just moved.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kerf_api::slim::{Node, Pod, Str};
use kerf_engine::{DisruptionCommand, DisruptionPlan, Input, Price, is_large_wave, pod_requests};

/// After this time a pod is at rest.
const SETTLED_POD_AGE_MIN: SignedDuration = SignedDuration::from_hours(1);
/// For so long pods are left in peace after a wave.
const WAVE_COOLDOWN: SignedDuration = SignedDuration::from_mins(10);
/// What waits must save the so-manyth part of what all nodes cost.
const HELD_SAVINGS_DIVISOR: i64 = 40;
/// How many times the price of the room that is given up must be saved.
const SAVINGS_TO_MOVED_PRICE_RATIO_MIN: i64 = 2;

/// Until when all pods are left in peace if so many of all nodes are emptied for money now; none if that is no wave.
pub(crate) fn cooldown_until(emptied: usize, nodes: usize, now: Timestamp) -> Option<Timestamp> {
    is_large_wave(emptied, nodes).then(|| now.saturating_add(WAVE_COOLDOWN).unwrap_or(Timestamp::MAX))
}

/// Which commands of the plan wait, by their places in it; `until` says until when all pods are left in peace.
pub(crate) fn low_value_moves(input: &Input, plan: &DisruptionPlan, until: Option<Timestamp>) -> BTreeSet<usize> {
    let commands: Vec<(usize, &DisruptionCommand)> =
        plan.commands.iter().enumerate().filter(|(_, command)| command.method.is_for_savings()).collect();
    if commands.is_empty() {
        return BTreeSet::new();
    }
    let room =
        SettledPods::new(input, until, commands.iter().flat_map(|(_, command)| &command.nodes).map(|node| &node.name));
    let is_small = |command: &DisruptionCommand| {
        let given_up = room.moved_price(command);
        given_up > Price::ZERO
            && command.saved().nanos()
                < SAVINGS_TO_MOVED_PRICE_RATIO_MIN.saturating_mul(given_up.max(command.price_after).nanos())
    };
    let waiting: Vec<(usize, &DisruptionCommand)> =
        commands.into_iter().filter(|(_, command)| is_small(command)).collect();
    let saved: Price = waiting.iter().map(|(_, command)| command.saved()).sum();
    if saved.nanos().saturating_mul(HELD_SAVINGS_DIVISOR) >= plan.price_before.nanos() {
        return BTreeSet::new();
    }
    waiting.into_iter().map(|(place, _)| place).collect()
}

/// The pods at rest on some nodes.
struct SettledPods<'a> {
    nodes: BTreeMap<&'a str, &'a Node>,
    pods: BTreeMap<&'a str, Vec<&'a Pod>>,
}

impl<'a> SettledPods<'a> {
    fn new(input: &'a Input, until: Option<Timestamp>, names: impl Iterator<Item = &'a Str>) -> Self {
        let names: BTreeSet<&str> = names.map(Str::as_str).collect();
        let nodes = input.nodes.iter().filter(|node| names.contains(node.metadata.name.as_str()));
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in &input.pods {
            let is_at_rest = is_settled_pod(pod, input.at, until);
            let node = pod.spec.node_name.as_deref().filter(|node| is_at_rest && names.contains(node));
            if let Some(node) = node {
                pods.entry(node).or_default().push(pod);
            }
        }
        Self { nodes: nodes.map(|node| (node.metadata.name.as_str(), node.as_ref())).collect(), pods }
    }

    /// What the room of the pods at rest costs that a command moves, each by its greatest part of its node.
    fn moved_price(&self, command: &DisruptionCommand) -> Price {
        let mut total = 0_i128;
        for node in &command.nodes {
            let Some(known) = self.nodes.get(node.name.as_str()) else { continue };
            for pod in self.pods.get(node.name.as_str()).into_iter().flatten() {
                if command.pods.binary_search(&pod.namespaced_name()).is_ok() {
                    total += price_share(known, pod, node.price);
                }
            }
        }
        Price::from_nanos(i64::try_from(total).unwrap_or(i64::MAX))
    }
}

/// Whether a pod is not to be stirred for small change.
fn is_settled_pod(pod: &Pod, now: Timestamp, until: Option<Timestamp>) -> bool {
    let has_run_for_long = pod.status.start_time.is_some_and(|start| now.duration_since(start) >= SETTLED_POD_AGE_MIN);
    has_run_for_long || until.is_some_and(|until| now < until)
}

/// A node's price times the greatest part of the node that a pod asks for; never nothing, since every pod takes some room.
fn price_share(node: &Node, pod: &Pod, price: Price) -> i128 {
    let wanted = pod_requests(pod);
    let part = |resource: &str| {
        let (wanted, all) = (wanted.get(resource)?.milli_value(), node.status.allocatable.get(resource)?.milli_value());
        (all > 0).then(|| i128::from(price.nanos()) * i128::from(wanted) / i128::from(all))
    };
    [part("cpu"), part("memory")].into_iter().flatten().max().unwrap_or_default().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap_or_default()
    }

    #[test]
    fn a_wave_empties_a_good_part_of_the_cluster() {
        assert_eq!(cooldown_until(10, 100, at(0)), Some(at(10)));
        assert_eq!(cooldown_until(9, 20, at(0)), None, "a few nodes");
        assert_eq!(cooldown_until(10, 101, at(0)), None, "a small part");
    }

    #[test]
    fn pods_are_at_rest_when_they_have_run_for_an_hour_or_a_wave_has_just_gone_by() {
        let mut pod = Pod::default();
        pod.status.start_time = Some(at(0));
        assert!(!is_settled_pod(&pod, at(59), None));
        assert!(is_settled_pod(&pod, at(60), None));
        assert!(is_settled_pod(&pod, at(5), Some(at(6))));
        assert!(!is_settled_pod(&pod, at(6), Some(at(6))));
    }
}
