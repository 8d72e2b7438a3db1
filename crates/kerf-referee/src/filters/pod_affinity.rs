//! Pod affinity and anti-affinity, including the anti-affinity terms of existing pods.
//!
//! A node is in a term's domain if it has the term's topology key with the domain's value. Affinity
//! requires a pod in the node's domain that *all* affinity terms select. If no domain has such a
//! pod, a pod that selects itself may be placed in any domain.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::{ClusterView, FilterReason, NodeView};
use crate::placement::{affinity_terms, anti_affinity_terms, term_selects};
use crate::selectors::{Labels, node_labels};

/// A topology key and one of its values.
type TopologyDomain = (String, String);

/// Affinity and anti-affinity domains of the cluster for one pod.
#[derive(Debug)]
pub(super) struct PodAffinityFilter<'a> {
    /// Topology keys of the affinity terms.
    affinity_keys: Vec<&'a str>,
    /// Domains with a pod that all affinity terms select.
    affinity_domains: BTreeSet<TopologyDomain>,
    /// Domains with a pod that one of the anti-affinity terms selects.
    anti_affinity_domains: BTreeSet<TopologyDomain>,
    /// Domains with a pod that has an anti-affinity term which selects this pod.
    existing_anti_affinity_domains: BTreeSet<TopologyDomain>,
    /// True if all affinity terms select the pod itself.
    selects_itself: bool,
}

impl<'a> PodAffinityFilter<'a> {
    pub(super) fn new(pod: &'a Pod, cluster: &ClusterView<'_>) -> Self {
        let required_affinity = affinity_terms(pod);
        let required_anti_affinity = anti_affinity_terms(pod);
        let all_select =
            |other: &Pod| required_affinity.iter().all(|term| term_selects(term, pod, other, &cluster.namespaces));
        let mut state = Self {
            affinity_keys: required_affinity.iter().map(|term| term.topology_key.as_str()).collect(),
            affinity_domains: BTreeSet::new(),
            anti_affinity_domains: BTreeSet::new(),
            existing_anti_affinity_domains: BTreeSet::new(),
            selects_itself: all_select(pod),
        };
        for node in &cluster.nodes {
            let labels = node_labels(node.node);
            for other in node.live_pods() {
                if !required_affinity.is_empty() && all_select(other) {
                    state
                        .affinity_domains
                        .extend(required_affinity.iter().filter_map(|term| domain(&term.topology_key, labels)));
                }
                let selecting_terms =
                    required_anti_affinity.iter().filter(|term| term_selects(term, pod, other, &cluster.namespaces));
                state
                    .anti_affinity_domains
                    .extend(selecting_terms.filter_map(|term| domain(&term.topology_key, labels)));
                let other_terms = anti_affinity_terms(other).iter();
                let other_selecting_terms =
                    other_terms.filter(|term| term_selects(term, other, pod, &cluster.namespaces));
                state
                    .existing_anti_affinity_domains
                    .extend(other_selecting_terms.filter_map(|term| domain(&term.topology_key, labels)));
            }
        }
        state
    }

    pub(super) fn reason(&self, node: &NodeView<'_>) -> Option<FilterReason> {
        let labels = node_labels(node.node);
        let in_domain =
            |domains: &BTreeSet<TopologyDomain>| domains.iter().any(|(key, value)| labels.get(key) == Some(value));
        if !self.satisfies_affinity(labels) {
            Some(FilterReason::PodAffinity)
        } else if in_domain(&self.anti_affinity_domains) {
            Some(FilterReason::PodAntiAffinity)
        } else if in_domain(&self.existing_anti_affinity_domains) {
            Some(FilterReason::ExistingAntiAffinity)
        } else {
            None
        }
    }

    fn satisfies_affinity(&self, labels: &Labels) -> bool {
        let domains: Option<Vec<TopologyDomain>> = self.affinity_keys.iter().map(|key| domain(key, labels)).collect();
        // A node without one of the keys is in no domain, so no affinity term can match.
        let Some(domains) = domains else { return false };
        domains.iter().all(|domain| self.affinity_domains.contains(domain))
            || (self.affinity_domains.is_empty() && self.selects_itself)
    }
}

fn domain(key: &str, labels: &Labels) -> Option<TopologyDomain> {
    Some((key.to_owned(), labels.get(key)?.clone()))
}
