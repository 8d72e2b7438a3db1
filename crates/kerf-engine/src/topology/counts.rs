//! Counts of pods per domain and of nodes per domain. All counts can go down as well as up, so that
//! a what-if can remove pods, place them elsewhere and be undone.

use rustc_hash::FxHashMap;

use super::group::GroupKind;
use crate::bits::Bits;

/// Number of pods of one group, per domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    /// Pods per domain of the label key.
    domains: Vec<i32>,
    /// Domains that pools can launch for this group.
    offered: Bits,
    /// Domains with at least one pod.
    pub(crate) occupied_domains: Bits,
    /// For the hostname key: pods per node, and pods per open claim.
    pub(crate) nodes: HostCounts,
    pub(crate) claims: HostCounts,
}

/// Number of pods per host. A host is a node or an open claim, by index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostCounts {
    counts: FxHashMap<u32, i32>,
    pub(crate) occupied: Bits,
    /// For a spread: hosts with at least `max_skew` pods, and hosts with more.
    pub(crate) at_limit: Bits,
    pub(crate) over_limit: Bits,
}

impl HostCounts {
    pub(crate) fn get(&self, host: usize) -> i32 {
        self.counts.get(&(host as u32)).copied().unwrap_or(0)
    }

    fn renumber(&mut self, new_index: &dyn Fn(usize) -> Option<u32>, kind: GroupKind) {
        for (host, pods) in std::mem::take(self).counts {
            if let Some(host) = new_index(host as usize) {
                self.add(host as usize, pods, kind);
            }
        }
    }

    fn add(&mut self, host: usize, pods: i32, kind: GroupKind) {
        let entry = self.counts.entry(host as u32).or_default();
        *entry += pods;
        let count = *entry;
        if count == 0 {
            self.counts.remove(&(host as u32));
        }
        self.occupied.set(host, count > 0);
        if let GroupKind::Spread { max_skew, .. } = kind {
            self.at_limit.set(host, count > 0 && count >= max_skew);
            self.over_limit.set(host, count > 0 && count > max_skew);
        }
    }
}

impl GroupCounts {
    /// Extends the counts to this number of domains.
    pub(crate) fn resize_domains(&mut self, domains: usize) {
        self.domains.resize(domains.max(self.domains.len()), 0);
    }

    /// Makes a domain known permanently, because a pool can launch it.
    pub(crate) fn add_offered_domain(&mut self, domain: usize) {
        self.offered.insert(domain);
    }

    pub(crate) fn add_pods_in_domain(&mut self, domain: usize, pods: i32) {
        if self.domains.len() <= domain {
            self.domains.resize(domain + 1, 0);
        }
        self.domains[domain] += pods;
        self.occupied_domains.set(domain, self.domains[domain] > 0);
    }

    pub(crate) fn add_pods_on_node(&mut self, node: usize, pods: i32, kind: GroupKind) {
        self.nodes.add(node, pods, kind);
    }

    pub(crate) fn add_pod_on_claim(&mut self, claim: usize, kind: GroupKind) {
        self.claims.add(claim, 1, kind);
    }

    /// Moves the counts of all nodes to their new indices. `new_index` maps an old index to the new
    /// one, or to `None` if the node is gone.
    pub(crate) fn renumber_nodes(&mut self, new_index: &dyn Fn(usize) -> Option<u32>, kind: GroupKind) {
        self.nodes.renumber(new_index, kind);
    }

    pub(crate) fn clear_claims(&mut self) {
        self.claims = HostCounts::default();
    }

    pub(crate) fn get(&self, domain: usize) -> i32 {
        self.domains.get(domain).copied().unwrap_or(0)
    }

    pub(crate) fn no_host_is_occupied(&self) -> bool {
        self.nodes.counts.is_empty() && self.claims.counts.is_empty()
    }

    /// Returns the domains that exist for this group: pools offer them, nodes have them
    /// (`present`), or pods are there.
    pub(crate) fn known_domains(&self, present: &Bits) -> Bits {
        let mut known = self.offered.clone();
        known.or_with(present);
        known.or_with(&self.occupied_domains);
        known
    }

    /// Returns the domains of `known` that may receive one more pod without exceeding `max_skew`
    /// (spec 02 §8.5). `self_count` is 1 if the group counts the pod itself, else 0. `pod_domains`
    /// holds the domains that the pod can use; only they count for the minimum.
    pub(crate) fn domains_within_skew(
        &self,
        known: &Bits,
        max_skew: i32,
        min_domains: Option<i32>,
        self_count: i32,
        pod_domains: &Bits,
    ) -> Bits {
        let mut lowest = i32::MAX;
        let mut eligible = 0;
        for domain in known.iter().filter(|d| pod_domains.contains(*d)) {
            lowest = lowest.min(self.get(domain));
            eligible += 1;
        }
        if eligible == 0 || min_domains.is_some_and(|min| eligible < min) {
            lowest = 0;
        }
        known
            .iter()
            .filter(|d| i64::from(self.get(*d)) + i64::from(self_count) - i64::from(lowest) <= i64::from(max_skew))
            .collect()
    }
}

/// Number of nodes per domain of a key, counting only nodes that a filter accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DomainNodeCounts {
    nodes: Vec<i32>,
    /// Domains with at least one node.
    pub(crate) present_domains: Bits,
}

impl DomainNodeCounts {
    /// Extends the counts to this number of domains.
    pub(crate) fn resize_domains(&mut self, domains: usize) {
        self.nodes.resize(domains.max(self.nodes.len()), 0);
    }

    pub(crate) fn add_nodes(&mut self, domain: usize, nodes: i32) {
        if self.nodes.len() <= domain {
            self.nodes.resize(domain + 1, 0);
        }
        self.nodes[domain] += nodes;
        self.present_domains.set(domain, self.nodes[domain] > 0);
    }
}
