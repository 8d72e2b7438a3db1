//! Places a pod on an existing node (spec 02 §6.6). Nodes are tried in order and the first that
//! accepts the pod wins.
//!
//! Nodes are filtered 64 at a time, one machine word: by free capacity, eligibility for the class,
//! and constraints on hosts. Only the remaining nodes are checked one by one.

use super::class::{ClassIx, PodClass};
use super::pass::{KeyDomains, PlacementPass, PlacementTarget};
use super::problem::PodIx;
use crate::bits::{Bits, WordBits};
use crate::cluster::ports;
use crate::pod::tolerations::tolerates_all;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, UndefinedKeys};
use crate::topology::GroupKind;

impl PlacementPass<'_> {
    /// Places the pod on the first node that accepts it. Returns false if none does. A node that
    /// was launched for the pod is tried first.
    pub(super) fn place_on_node(&mut self, pod: PodIx, class: ClassIx, key_domains: &[KeyDomains]) -> bool {
        if self.problem.cluster.nodes.is_empty() {
            return false;
        }
        if self.state.eligible_nodes[class.0 as usize].is_none() {
            self.state.eligible_nodes[class.0 as usize] = Some(self.eligible_nodes(class));
        }
        let skips_avoided = self.skips_avoided_nodes(pod);
        let allowed_nodes =
            |pass: &Self, word: usize| if skips_avoided { !pass.state.avoided_nodes.word(word) } else { u64::MAX };
        let words = self.state.eligible_nodes[class.0 as usize].as_ref().map_or(0, Bits::words);
        let launched_node = self.launched_nodes.get(&pod).copied().filter(|node| node / 64 < words);
        if let Some(node) = launched_node {
            let launched_bit = allowed_nodes(self, node / 64) & (1 << (node % 64));
            if self.place_in_word(pod, class, node / 64, launched_bit, key_domains) {
                return true;
            }
        }
        (0..words).any(|word| self.place_in_word(pod, class, word, allowed_nodes(self, word), key_domains))
    }

    /// Places the pod on the first node that accepts it, of the 64 nodes of a word whose bit is set
    /// in `allowed`.
    fn place_in_word(
        &mut self,
        pod: PodIx,
        class: ClassIx,
        word: usize,
        allowed: u64,
        key_domains: &[KeyDomains],
    ) -> bool {
        let pod_class = &self.problem.classes[class.0 as usize];
        if !self.state.free_capacity.word_may_fit(word, &pod_class.coarse_requests) {
            return false;
        }
        for bit in WordBits(self.node_candidates(class, pod_class, word) & allowed) {
            let node = word * 64 + bit;
            if self.state.free_capacity.may_fit(node, &pod_class.coarse_requests)
                && self.node_accepts(pod, class, node, key_domains)
            {
                self.commit_to_node(pod, class, node);
                return true;
            }
        }
        false
    }

    /// Returns the nodes whose labels satisfy the class's requirements and whose taints it
    /// tolerates.
    fn eligible_nodes(&mut self, class: ClassIx) -> Bits {
        let pod_class = &self.problem.classes[class.0 as usize];
        let mut eligible = Bits::new();
        for profile in &self.problem.node_profiles {
            let taints = &self.problem.cluster.nodes[profile.example_node].taints;
            let volumes_agree = pod_class.volume_alternatives.is_empty()
                || pod_class.volume_alternatives.iter().any(|(required, _)| {
                    self.state.table.intersect_sets(profile.labels, *required, UndefinedKeys::Reject).is_some()
                });
            let has_key = |key: &KeyIx| self.state.table.get(profile.labels, *key).is_some();
            if tolerates_all(&pod_class.tolerations, taints)
                && volumes_agree
                && pod_class.must_exist.iter().all(has_key)
                && self
                    .state
                    .table
                    .intersect_sets(profile.labels, pod_class.requirements, UndefinedKeys::Reject)
                    .is_some()
            {
                eligible.or_with(&profile.nodes);
            }
        }
        let depends_on_hostname =
            pod_class.hostname.is_some() || pod_class.volume_alternatives.iter().any(|v| v.1.is_some());
        if depends_on_hostname {
            let nodes = &self.problem.cluster.nodes;
            let mut fits = |node: usize| {
                let hostname = &nodes[node].hostname;
                let accepts = |host: &Option<Requirement>| host.as_ref().is_none_or(|h| h.has(hostname));
                // Hostname and labels of an alternative must hold together.
                let mut alternatives = pod_class.volume_alternatives.iter().filter(|(_, host)| accepts(host));
                accepts(&pod_class.hostname)
                    && (pod_class.volume_alternatives.is_empty()
                        || alternatives.any(|(required, _)| {
                            self.state
                                .table
                                .intersect_sets(nodes[node].label_requirements, *required, UndefinedKeys::Reject)
                                .is_some()
                        }))
            };
            eligible = eligible.iter().filter(|n| fits(*n)).collect();
        }
        eligible
    }

    /// Returns the eligible nodes of a word that are not removed and that no constraint on hosts
    /// excludes.
    fn node_candidates(&self, class: ClassIx, pod_class: &PodClass, word: usize) -> u64 {
        let mut candidates = self.state.eligible_nodes[class.0 as usize].as_ref().map_or(0, |e| e.word(word));
        candidates &= !self.state.removed_nodes.word(word);
        for constraint in &pod_class.host_constraints {
            let counts = &self.state.group_counts[constraint.group.0];
            match self.problem.groups[constraint.group.0].identity.kind {
                GroupKind::Spread { .. } => {
                    let excluded =
                        if constraint.counts_self { &counts.nodes.at_limit } else { &counts.nodes.over_limit };
                    candidates &= !excluded.word(word);
                }
                GroupKind::Affinity => {
                    if !(constraint.counts_self && counts.no_host_is_occupied()) {
                        candidates &= counts.nodes.occupied.word(word);
                    }
                }
                GroupKind::AntiAffinity | GroupKind::InverseAntiAffinity => {
                    candidates &= !counts.nodes.occupied.word(word);
                }
            }
        }
        candidates
    }

    fn node_accepts(&mut self, pod: PodIx, class: ClassIx, node: usize, key_domains: &[KeyDomains]) -> bool {
        let pod_class = &self.problem.classes[class.0 as usize];
        let node_state = &self.problem.cluster.nodes[node];
        let remaining = &self.state.remaining[node];
        let fits = match &self.colocated_requests {
            Some(colocated) => pod_class.requests.plus(colocated).fits_in(remaining),
            None => pod_class.requests.fits_in(remaining),
        };
        if !fits {
            return false;
        }
        if !pod_class.ports.is_empty() {
            let added_ports = self.state.node_ports.get(&node).map_or(&[][..], Vec::as_slice);
            if ports::first_conflict(&pod_class.ports, &node_state.ports).is_some()
                || ports::first_conflict(&pod_class.ports, added_ports).is_some()
            {
                return false;
            }
        }
        let in_domain = |k: &KeyDomains| {
            self.problem.node_domains[k.key.0][node].is_some_and(|domain| k.allowed.contains(domain as usize))
        };
        key_domains.iter().all(in_domain) && self.volumes_fit(pod, node)
    }

    /// Returns true if the node can attach the pod's volumes (spec 02 §9.2). A volume claim that is
    /// already attached counts once.
    fn volumes_fit(&self, pod: PodIx, node: usize) -> bool {
        let attachments = &self.problem.pods[pod.0 as usize].attachments;
        let node_state = &self.problem.cluster.nodes[node];
        if attachments.is_empty() || node_state.attach_limits.is_empty() {
            return true;
        }
        let added_attachments = self.state.node_attached.get(&node).map_or(&[][..], Vec::as_slice);
        node_state.attach_limits.iter().all(|(driver, limit)| {
            let mut claims: Vec<&str> = node_state
                .attached
                .iter()
                .chain(added_attachments)
                .chain(attachments)
                .filter(|a| a.driver == *driver)
                .map(|a| a.claim.as_str())
                .collect();
            claims.sort_unstable();
            claims.dedup();
            claims.len() <= *limit || !attachments.iter().any(|a| a.driver == *driver)
        })
    }

    fn commit_to_node(&mut self, pod: PodIx, class: ClassIx, node: usize) {
        let pod_class = &self.problem.classes[class.0 as usize];
        self.state.subtract_remaining(node, &pod_class.requests);
        if !pod_class.ports.is_empty() {
            self.state.node_ports.entry(node).or_default().extend(pod_class.ports.iter().cloned());
        }
        let attachments = &self.problem.pods[pod.0 as usize].attachments;
        if !attachments.is_empty() {
            self.state.node_attached.entry(node).or_default().extend(attachments.iter().cloned());
        }
        for group in pod_class.counted_by.iter().chain(&pod_class.inverse_groups) {
            if self.state.filter_node(self.problem, self.problem.groups[group.0].filter, node).counts_placed {
                self.state.count_on_node(self.problem, *group, node, 1);
            }
        }
        self.state.placements[pod.0 as usize] = Some(PlacementTarget::Node(node));
    }
}
