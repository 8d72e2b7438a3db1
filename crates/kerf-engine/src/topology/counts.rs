//! How many pods of a group are where. Cloned at the start of a pass and counted up as pods are placed.

use rustc_hash::FxHashMap;

use super::group::GroupKind;
use crate::bits::Bits;

/// Pods per domain of one group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Per domain of the key.
    domains: Vec<i32>,
    /// Domains that exist for this group.
    pub(crate) known: Bits,
    /// Domains with at least one pod.
    pub(crate) occupied: Bits,
    /// For the hostname: per node and per claim.
    pub(crate) nodes: Hosts,
    pub(crate) claims: Hosts,
}

/// Pods per host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    counts: FxHashMap<u32, i32>,
    pub(crate) occupied: Bits,
    /// Hosts with at least `max_skew` pods, and with more.
    pub(crate) at_limit: Bits,
    pub(crate) over_limit: Bits,
}

impl Hosts {
    /// Hosts that have had a pod, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, i32)> + '_ {
        self.counts.iter().map(|(host, count)| (*host as usize, *count))
    }

    fn add(&mut self, host: usize, pods: i32, kind: GroupKind) {
        let count = self.counts.entry(host as u32).or_default();
        *count += pods;
        self.occupied.insert(host);
        if let GroupKind::Spread { max_skew, .. } = kind {
            if *count >= max_skew {
                self.at_limit.insert(host);
            }
            if *count > max_skew {
                self.over_limit.insert(host);
            }
        }
    }
}

impl Counts {
    pub(crate) fn know(&mut self, domain: usize) {
        self.known.insert(domain);
        if self.domains.len() <= domain {
            self.domains.resize(domain + 1, 0);
        }
    }

    pub(crate) fn add(&mut self, domain: usize, pods: i32) {
        self.know(domain);
        self.domains[domain] += pods;
        self.occupied.insert(domain);
    }

    pub(crate) fn add_node(&mut self, node: usize, pods: i32, kind: GroupKind) {
        self.nodes.add(node, pods, kind);
    }

    pub(crate) fn add_claim(&mut self, claim: usize, kind: GroupKind) {
        self.claims.add(claim, 1, kind);
    }

    pub(crate) fn get(&self, domain: usize) -> i32 {
        self.domains.get(domain).copied().unwrap_or(0)
    }

    pub(crate) fn no_host_is_occupied(&self) -> bool {
        self.nodes.counts.is_empty() && self.claims.counts.is_empty()
    }

    /// The domains into which one more pod may go without tilting the spread (spec 02 §8.5). `own` is 1 if the group counts
    /// the pod itself.
    pub(crate) fn spread_valid(&self, max_skew: i32, min_domains: Option<i32>, own: i32, by_pod: &Bits) -> Bits {
        let mut least = i32::MAX;
        let mut eligible = 0;
        for domain in self.known.iter().filter(|d| by_pod.contains(*d)) {
            least = least.min(self.get(domain));
            eligible += 1;
        }
        if eligible == 0 || min_domains.is_some_and(|min| eligible < min) {
            least = 0;
        }
        self.known
            .iter()
            .filter(|d| i64::from(self.get(*d)) + i64::from(own) - i64::from(least) <= i64::from(max_skew))
            .collect()
    }
}
