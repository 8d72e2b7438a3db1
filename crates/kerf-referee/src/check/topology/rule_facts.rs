//! Facts about the rules between pods that hold before any pod is placed: topology keys, domains
//! that a rule forbids, and bounds on spread counts. The exhaustive search prunes with them, and
//! the check of a plan orders pods by them. Nothing here decides about a placement.

use std::collections::{BTreeMap, BTreeSet};

use super::{PlacementTarget, PodRule, PodRuleKind, PodTargets, RuleOwner, Topology, accepts_domain};
use crate::check::pool_domains::TaintPolicy;
use crate::placement::spread_includes_node;
use crate::selectors::required_node_affinity_terms;
use crate::storage::HOSTNAME;

/// A spread constraint of a pod to place that counts the pod itself.
#[derive(Debug, Clone)]
pub(crate) struct SpreadBound<'w> {
    pub(crate) key: &'w str,
    pub(crate) max_skew: i64,
    /// For each pod to place, whether the constraint counts it.
    pub(crate) counted_pods: Vec<bool>,
    /// Number of staying pods that the constraint counts, by domain.
    pub(crate) staying_pod_counts: BTreeMap<String, i64>,
    /// Domains that the constraint certainly compares with. Empty for hostnames: a new host makes
    /// the minimum zero.
    pub(crate) compared_domains: Vec<String>,
}

impl<'w> Topology<'w> {
    /// Returns the topology keys of all rules that concern the pods for which `on` returns true.
    /// The labels with these keys decide how rules apply to a target with these pods.
    pub(crate) fn topology_keys_for(&self, on: impl Fn(usize) -> bool) -> BTreeSet<&'w str> {
        let concerns = |rule: &&PodRule<'w>| {
            matches!(rule.owner, RuleOwner::PodToPlace(owner) if on(owner))
                || rule
                    .selects_to_place
                    .iter()
                    .enumerate()
                    .any(|(pod_index, is_selected)| *is_selected && on(pod_index))
        };
        self.rules.iter().filter(concerns).map(|rule| rule.key).collect()
    }

    /// Returns, for each spread that selects one of these pods, whether it includes the target.
    pub(super) fn spread_inclusions(&self, target: &PlacementTarget, on: impl Fn(usize) -> bool) -> Vec<bool> {
        let spreads = self.rules.iter().filter(|rule| {
            rule.selects_to_place.iter().enumerate().any(|(pod_index, is_selected)| *is_selected && on(pod_index))
        });
        spreads
            .filter_map(|rule| match (&rule.kind, rule.owner) {
                (PodRuleKind::Spread(spread), RuleOwner::PodToPlace(owner)) => {
                    let pod = self.pods_to_place[owner];
                    Some(spread_includes_node(
                        spread.constraint,
                        pod,
                        &target.name,
                        &target.labels,
                        &target.taints,
                        |_| true,
                    ))
                }
                (PodRuleKind::Spread(_), RuleOwner::StayingPod(_))
                | (PodRuleKind::Affinity | PodRuleKind::AntiAffinity, _) => None,
            })
            .collect()
    }

    /// Returns true if the pod's own rules depend on the order of binding, and its smallest
    /// `maxSkew`.
    pub(super) fn order_sensitivity(&self, pod_index: usize) -> (bool, i64) {
        let own = self.rules.iter().filter(|rule| rule.owner == RuleOwner::PodToPlace(pod_index));
        let mut matters = false;
        let mut tightest = i64::MAX;
        for rule in own {
            match &rule.kind {
                PodRuleKind::Spread(spread) => {
                    matters = true;
                    tightest = tightest.min(i64::from(spread.constraint.max_skew));
                }
                PodRuleKind::Affinity => matters = true,
                PodRuleKind::AntiAffinity => {}
            }
        }
        (matters, tightest)
    }

    /// Returns, for each pair of pods to place, the topology keys in whose domains they must be
    /// apart, whichever of them has the rule.
    pub(crate) fn pairwise_anti_affinity_keys(&self) -> Vec<Vec<BTreeSet<&'w str>>> {
        let count = self.pods_to_place.len();
        let mut keys = vec![vec![BTreeSet::new(); count]; count];
        for rule in self.rules.iter().filter(|rule| matches!(rule.kind, PodRuleKind::AntiAffinity)) {
            let RuleOwner::PodToPlace(owner) = rule.owner else { continue };
            for other in (0..count).filter(|other| *other != owner && rule.selects_to_place[*other]) {
                keys[owner][other].insert(rule.key);
                keys[other][owner].insert(rule.key);
            }
        }
        keys
    }

    /// Returns, for each pod to place, the domains from which staying pods exclude it.
    pub(crate) fn forbidden_domains(&self) -> Vec<BTreeSet<(&'w str, String)>> {
        let mut forbidden = vec![BTreeSet::new(); self.pods_to_place.len()];
        let domain = |target: usize, key| self.existing_targets[target].labels.get(key).cloned();
        for rule in self.rules.iter().filter(|rule| matches!(rule.kind, PodRuleKind::AntiAffinity)) {
            match rule.owner {
                RuleOwner::PodToPlace(owner) => {
                    let selected =
                        self.staying_pods.iter().zip(&rule.selects_staying).filter(|(_, is_selected)| **is_selected);
                    let domains = selected.filter_map(|((_, target), _)| domain(*target, rule.key));
                    forbidden[owner].extend(domains.map(|domain| (rule.key, domain)));
                }
                RuleOwner::StayingPod(staying_index) => {
                    let Some(domain) = domain(self.staying_pods[staying_index].1, rule.key) else { continue };
                    for (pod_index, _) in
                        rule.selects_to_place.iter().enumerate().filter(|(_, is_selected)| **is_selected)
                    {
                        forbidden[pod_index].insert((rule.key, domain.clone()));
                    }
                }
            }
        }
        forbidden
    }

    /// Returns the spread constraints of a pod that count the pod itself, with the part of the
    /// counts that is known before all pods have targets.
    pub(crate) fn spread_bounds(&self, pod_index: usize) -> Vec<SpreadBound<'w>> {
        let pod = self.pods_to_place[pod_index];
        let own_rules = self
            .rules
            .iter()
            .filter(|rule| rule.owner == RuleOwner::PodToPlace(pod_index) && rule.selects_to_place[pod_index]);
        own_rules
            .filter_map(|rule| {
                let PodRuleKind::Spread(spread) = &rule.kind else { return None };
                let includes_node = |p: &PlacementTarget| {
                    spread_includes_node(spread.constraint, pod, &p.name, &p.labels, &p.taints, |_| true)
                };
                let mut staying_pod_counts: BTreeMap<String, i64> =
                    spread.offered_domains(TaintPolicy::HonourAll).iter().map(|domain| (domain.clone(), 0)).collect();
                for (_, target) in self
                    .staying_pods
                    .iter()
                    .zip(&rule.selects_staying)
                    .filter(|(_, is_selected)| **is_selected)
                    .map(|(r, _)| r)
                {
                    let target = &self.existing_targets[*target];
                    if let Some(domain) = target.labels.get(rule.key).filter(|_| includes_node(target)) {
                        *staying_pod_counts.entry(domain.clone()).or_insert(0) += 1;
                    }
                }
                let terms = required_node_affinity_terms(pod).unwrap_or_default();
                let all_accept = |domain: &String| {
                    accepts_domain(pod, None, rule.key, domain)
                        && terms.iter().all(|term| accepts_domain(pod, Some(term), rule.key, domain))
                };
                let compared_domains = staying_pod_counts
                    .keys()
                    .filter(|domain| rule.key != HOSTNAME && all_accept(domain))
                    .cloned()
                    .collect();
                Some(SpreadBound {
                    key: rule.key,
                    max_skew: i64::from(spread.constraint.max_skew),
                    counted_pods: rule.selects_to_place.clone(),
                    staying_pod_counts,
                    compared_domains,
                })
            })
            .collect()
    }

    /// Returns the labels that a target must have for the pod: the keys of its spread and affinity
    /// rules.
    pub(crate) fn required_topology_keys(&self, pod_index: usize) -> BTreeSet<&'w str> {
        let own = self.rules.iter().filter(|rule| rule.owner == RuleOwner::PodToPlace(pod_index));
        own.filter(|rule| !matches!(rule.kind, PodRuleKind::AntiAffinity)).map(|rule| rule.key).collect()
    }

    /// Returns the keys of all anti-affinity rules between the pod and others. Spec 02 §8.5
    /// requires a domain for them; kube-scheduler does not.
    pub(crate) fn anti_affinity_keys(&self, pod_index: usize) -> BTreeSet<&'w str> {
        let anti_affinity_rules = self.rules.iter().filter(|rule| matches!(rule.kind, PodRuleKind::AntiAffinity));
        anti_affinity_rules
            .filter(|rule| rule.owner == RuleOwner::PodToPlace(pod_index) || rule.selects_to_place[pod_index])
            .map(|rule| rule.key)
            .collect()
    }

    /// Returns true if an affinity rule of the pod selects no pod at all, not even the pod itself.
    pub(crate) fn lacks_affinity_match(&self, pod_index: usize) -> bool {
        let own = self.rules.iter().filter(|rule| {
            rule.owner == RuleOwner::PodToPlace(pod_index) && matches!(rule.kind, PodRuleKind::Affinity)
        });
        own.into_iter().any(|rule| !rule.selects_to_place.contains(&true) && !rule.selects_staying.contains(&true))
    }

    /// Returns true if each affinity rule of the pod selects the pod itself, a staying pod in its
    /// domain, or a bound pod in its domain for which `certain` returns true. Rules on hostnames do
    /// not count.
    pub(crate) fn has_certain_affinity_matches(
        &self,
        pod_index: usize,
        bound: &PodTargets,
        targets: &[&PlacementTarget],
        certain: &dyn Fn(usize, &str) -> bool,
    ) -> bool {
        let Some(target) = bound[pod_index] else { return true };
        let is_affinity_rule = |rule: &&PodRule<'w>| {
            rule.owner == RuleOwner::PodToPlace(pod_index)
                && matches!(rule.kind, PodRuleKind::Affinity)
                && rule.key != HOSTNAME
        };
        self.rules.iter().filter(is_affinity_rule).all(|rule| {
            let is_in_domain = |at: usize| targets[at].labels.get(rule.key) == targets[target].labels.get(rule.key);
            let staying_targets = self
                .staying_pods
                .iter()
                .zip(&rule.selects_staying)
                .filter(|(_, is_selected)| **is_selected)
                .map(|((_, at), _)| *at);
            let mut other_pods =
                bound.iter().enumerate().filter(|(other, _)| *other != pod_index && rule.selects_to_place[*other]);
            rule.selects_to_place[pod_index]
                || staying_targets.into_iter().any(is_in_domain)
                || other_pods.any(|(other, at)| at.is_some_and(is_in_domain) && certain(other, rule.key))
        })
    }

    /// Returns true if the spread of a pod to place counts this pod, so that the time of its
    /// binding affects others.
    pub(super) fn is_counted_by_spread(&self, pod_index: usize) -> bool {
        self.rules.iter().any(|rule| matches!(rule.kind, PodRuleKind::Spread(_)) && rule.selects_to_place[pod_index])
    }

    /// Returns true if an affinity rule selects the pod.
    pub(super) fn is_affinity_match(&self, pod_index: usize) -> bool {
        self.rules.iter().any(|rule| matches!(rule.kind, PodRuleKind::Affinity) && rule.selects_to_place[pod_index])
    }
}
