//! Rules between pods: spread, affinity and anti-affinity, over existing and planned pods.
//!
//! [`Topology`] holds for one cluster which rule of which pod selects which other pods. It then
//! checks placements. Pods are counted anew for every check, so there are no counts that could
//! become stale.

mod bind_order;
mod combinations;
mod placement_target;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod};

use super::pool_domains::TaintPolicy;
use super::{PlanRule, PoolDomains};
use crate::check::launch::with_label_aliases;
use crate::manifests::ClusterManifests;
use crate::placement::{
    affinity_terms, anti_affinity_terms, is_terminating, pod_key, spread_constraints, spread_includes_node,
    spread_selects, term_selects,
};
use crate::selectors::{Labels, expression_matches, node_selector, required_node_affinity_terms, term_matches};
use crate::storage::HOSTNAME;

pub use self::combinations::MAX_COMBINATIONS;
pub(super) use self::combinations::{can_be_bound_last, check};
pub(crate) use self::combinations::{cartesian_product, combinations};
pub(crate) use self::placement_target::PlacementTarget;
use self::spread::SpreadRule;

/// All rules between the pods of a cluster.
#[derive(Debug)]
pub(crate) struct Topology<'w> {
    /// The pods to place.
    pub(crate) pods_to_place: Vec<&'w Pod>,
    /// The staying pods, each with the index of its target.
    staying_pods: Vec<(&'w Pod, usize)>,
    /// The existing nodes. They are the first targets of every placement.
    pub(crate) existing_targets: Vec<PlacementTarget>,
    rules: Vec<PodRule<'w>>,
}

#[derive(Debug)]
struct PodRule<'w> {
    owner: RuleOwner,
    kind: PodRuleKind<'w>,
    key: &'w str,
    /// For each pod to place, whether the rule selects it.
    selects_to_place: Vec<bool>,
    /// For each staying pod, whether the rule selects it.
    selects_staying: Vec<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleOwner {
    PodToPlace(usize),
    StayingPod(usize),
}

#[derive(Debug)]
enum PodRuleKind<'w> {
    Spread(SpreadRule<'w>),
    Affinity,
    AntiAffinity,
}

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

/// A rule between pods that a placement breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokenRule {
    pub(crate) rule: PlanRule,
    pub(crate) detail: String,
}

/// The target of each pod to place, by index; `None` if the pod is not bound.
pub(crate) type PodTargets = Vec<Option<usize>>;

impl<'w> Topology<'w> {
    /// Collects the rules of a cluster for these pods to place.
    pub(crate) fn new(cluster: &'w ClusterManifests, pool_domains: &PoolDomains, pods_to_place: Vec<&'w Pod>) -> Self {
        let keys_to_place: BTreeSet<String> = pods_to_place.iter().map(|pod| pod_key(pod)).collect();
        let mut existing_targets = Vec::new();
        let mut staying_pods = Vec::new();
        for node in cluster.existing_nodes() {
            let staying = node.pods.iter().filter(|pod| !keys_to_place.contains(&pod_key(pod)));
            staying_pods.extend(staying.map(|pod| (*pod, existing_targets.len())));
            let own_taints = node.node.and_then(|n| n.spec.as_ref()?.taints.clone());
            existing_targets.push(PlacementTarget {
                name: node.name,
                labels: with_label_aliases(node.labels),
                taints: own_taints.unwrap_or_else(|| node.taints.clone()),
                lasting_taints: node.taints,
                is_deleting: node.is_deleting,
            });
        }
        let mut topology = Self { pods_to_place, staying_pods, existing_targets, rules: Vec::new() };
        let rules: Vec<_> = (0..topology.pods_to_place.len())
            .flat_map(|i| topology.rules_of_pod_to_place(i, cluster, pool_domains))
            .collect();
        let staying_rules: Vec<_> =
            (0..topology.staying_pods.len()).flat_map(|i| topology.rules_of_staying_pod(i, cluster)).collect();
        topology.rules = rules;
        topology.rules.extend(staying_rules);
        topology
    }

    fn rules_of_pod_to_place(
        &self,
        pod_index: usize,
        cluster: &'w ClusterManifests,
        pool_domains: &PoolDomains,
    ) -> Vec<PodRule<'w>> {
        let pod = self.pods_to_place[pod_index];
        let owner = RuleOwner::PodToPlace(pod_index);
        let spread = spread_constraints(pod).map(|constraint| {
            let kind = PodRuleKind::Spread(SpreadRule::new(pool_domains, constraint, pod));
            self.new_rule(owner, kind, &constraint.topology_key, |other| spread_selects(constraint, pod, other))
        });
        let affinity_rules = affinity_terms(pod).iter().map(|term| {
            let selects = |other: &Pod| term_selects(term, pod, other, &cluster.namespaces);
            self.new_rule(owner, PodRuleKind::Affinity, &term.topology_key, selects)
        });
        let anti_affinity_rules = anti_affinity_terms(pod).iter().map(|term| {
            let selects = |other: &Pod| term_selects(term, pod, other, &cluster.namespaces);
            self.new_rule(owner, PodRuleKind::AntiAffinity, &term.topology_key, selects)
        });
        spread.chain(affinity_rules).chain(anti_affinity_rules).collect()
    }

    /// Returns the anti-affinity rules of a staying pod, which can exclude pods to place.
    fn rules_of_staying_pod(&self, staying_index: usize, cluster: &'w ClusterManifests) -> Vec<PodRule<'w>> {
        let (pod, _) = self.staying_pods[staying_index];
        let anti_affinity_rules = anti_affinity_terms(pod).iter().map(|term| {
            let selects = |other: &Pod| term_selects(term, pod, other, &cluster.namespaces);
            self.new_rule(RuleOwner::StayingPod(staying_index), PodRuleKind::AntiAffinity, &term.topology_key, selects)
        });
        anti_affinity_rules.collect()
    }

    fn new_rule(
        &self,
        owner: RuleOwner,
        kind: PodRuleKind<'w>,
        key: &'w str,
        selects: impl Fn(&Pod) -> bool,
    ) -> PodRule<'w> {
        // A pod that is being deleted will no longer exist when the new pod runs.
        let selects_staying = self.staying_pods.iter().map(|(pod, _)| !is_terminating(pod) && selects(pod)).collect();
        PodRule {
            owner,
            kind,
            key,
            selects_to_place: self.pods_to_place.iter().map(|pod| selects(pod)).collect(),
            selects_staying,
        }
    }

    /// Returns the rule that forbids binding the pod to the target now, or `None` if it may be
    /// bound.
    pub(crate) fn binding_violation(
        &self,
        pod_index: usize,
        target: usize,
        bound: &PodTargets,
        targets: &[PlacementTarget],
    ) -> Option<BrokenRule> {
        let concerns = self.rules.iter().filter(|rule| match rule.owner {
            RuleOwner::PodToPlace(owner) => {
                owner == pod_index
                    || (matches!(rule.kind, PodRuleKind::AntiAffinity)
                        && bound[owner].is_some()
                        && rule.selects_to_place[pod_index])
            }
            RuleOwner::StayingPod(_) => rule.selects_to_place[pod_index],
        });
        concerns.into_iter().find_map(|rule| {
            let broken = if rule.owner == RuleOwner::PodToPlace(pod_index) {
                match &rule.kind {
                    PodRuleKind::Spread(spread) => {
                        self.spread_violation(rule, spread, pod_index, target, bound, targets)
                    }
                    PodRuleKind::Affinity => self.affinity_violation(rule, pod_index, target, bound, targets),
                    PodRuleKind::AntiAffinity => self.anti_affinity_violation(rule, pod_index, target, bound, targets),
                }
            } else {
                self.inverse_anti_affinity_violation(rule, target, bound, targets)
            };
            let kind = match rule.kind {
                PodRuleKind::Spread(_) => PlanRule::TopologySpread,
                PodRuleKind::Affinity => PlanRule::PodAffinity,
                PodRuleKind::AntiAffinity => PlanRule::PodAntiAffinity,
            };
            broken.map(|detail| BrokenRule { rule: kind, detail })
        })
    }

    /// Returns the targets of the pods that a rule selects: staying pods and bound pods.
    fn targets_of_selected_pods<'a>(
        &'a self,
        rule: &'a PodRule<'w>,
        bound: &'a PodTargets,
    ) -> impl Iterator<Item = usize> + 'a {
        self.targets_of_staying_pods(rule).chain(targets_of_bound_pods(rule, bound))
    }

    fn targets_of_staying_pods<'a>(&'a self, rule: &'a PodRule<'w>) -> impl Iterator<Item = usize> + 'a {
        self.staying_pods
            .iter()
            .zip(&rule.selects_staying)
            .filter(|(_, is_selected)| **is_selected)
            .map(|((_, target), _)| *target)
    }

    fn spread_violation(
        &self,
        rule: &PodRule<'w>,
        spread: &SpreadRule<'w>,
        pod_index: usize,
        target: usize,
        bound: &PodTargets,
        targets: &[PlacementTarget],
    ) -> Option<String> {
        let pod = self.pods_to_place[pod_index];
        let Some(domain) = targets[target].labels.get(rule.key) else {
            return Some(format!("{} has no label {}", targets[target].name, rule.key));
        };
        let constraint = spread.constraint;
        let counts =
            self.spread_counts(rule, spread, spread.taint_policy_at(pod, &targets[target]), pod, bound, targets);
        let count = counts.get(domain.as_str()).copied().unwrap_or(0) + i64::from(rule.selects_to_place[pod_index]);
        let max_skew = i64::from(constraint.max_skew);
        let min_domains = usize::try_from(constraint.min_domains.unwrap_or(0)).unwrap_or(0);
        let violations = matching_affinity_terms(pod, &targets[target]).into_iter().map(|term| {
            let comparable_counts: Vec<i64> = counts
                .iter()
                .filter(|(domain, _)| accepts_domain(pod, term, rule.key, domain))
                .map(|(_, n)| *n)
                .collect();
            // A new host can always be added, so the minimum over hosts is zero.
            let has_empty_domain = rule.key == HOSTNAME || comparable_counts.len() < min_domains;
            let minimum = if has_empty_domain { 0 } else { comparable_counts.into_iter().min().unwrap_or(0) };
            (count - minimum > max_skew).then(|| {
                format!(
                    "{}={domain} would have {count} pods, the emptiest has {minimum}, maxSkew is {max_skew}",
                    rule.key
                )
            })
        });
        violations.into_iter().min().flatten()
    }

    /// Returns the number of pods that a spread counts, for each known domain: those that pools
    /// could offer, those of existing nodes, and those with counted pods (spec 02 §8.2, §8.3,
    /// §8.6). A planned node without counted pods adds no domain: if a pod excludes values of a
    /// label that nothing else restricts, the value on its node is arbitrary (§12.1), and no
    /// planner can know it.
    fn spread_counts<'p>(
        &self,
        rule: &PodRule<'w>,
        spread: &'p SpreadRule<'w>,
        taint_policy: TaintPolicy,
        pod: &Pod,
        bound: &PodTargets,
        targets: &'p [PlacementTarget],
    ) -> BTreeMap<&'p str, i64> {
        let honours = |taint: &_| taint_policy.honours(taint);
        let includes_node = |p: &PlacementTarget, taints| {
            spread_includes_node(spread.constraint, pod, &p.name, &p.labels, taints, honours)
        };
        let mut counts: BTreeMap<&str, i64> =
            spread.offered_domains(taint_policy).iter().map(|domain| (domain.as_str(), 0)).collect();
        let included: Vec<bool> = targets.iter().map(|p| includes_node(p, &p.taints)).collect();
        let existing = targets.iter().zip(&included).take(self.existing_targets.len());
        for (p, _) in existing.filter(|(p, included)| **included && !p.is_deleting) {
            if let Some(domain) = p.labels.get(rule.key) {
                counts.entry(domain).or_insert(0);
            }
        }
        let staying = self.targets_of_staying_pods(rule).filter(|target| included[*target]);
        let bound_targets = targets_of_bound_pods(rule, bound)
            .filter(|target| includes_node(&targets[*target], &targets[*target].lasting_taints));
        for target in staying.chain(bound_targets) {
            if let Some(domain) = targets[target].labels.get(rule.key) {
                *counts.entry(domain).or_insert(0) += 1;
            }
        }
        counts
    }

    fn affinity_violation(
        &self,
        rule: &PodRule<'w>,
        pod_index: usize,
        target: usize,
        bound: &PodTargets,
        targets: &[PlacementTarget],
    ) -> Option<String> {
        let pod = self.pods_to_place[pod_index];
        let Some(domain) = targets[target].labels.get(rule.key) else {
            return Some(format!("{} has no label {}", targets[target].name, rule.key));
        };
        let matching_domains: BTreeSet<&String> =
            self.targets_of_selected_pods(rule, bound).filter_map(|at| targets[at].labels.get(rule.key)).collect();
        if matching_domains.contains(domain) {
            return None;
        }
        let may_be_first = matching_affinity_terms(pod, &targets[target])
            .into_iter()
            .any(|term| !matching_domains.iter().any(|domain| accepts_domain(pod, term, rule.key, domain)));
        if rule.selects_to_place[pod_index] && may_be_first {
            return None;
        }
        Some(format!("no companion in {}={domain}, but in {matching_domains:?}", rule.key))
    }

    fn anti_affinity_violation(
        &self,
        rule: &PodRule<'w>,
        pod_index: usize,
        target: usize,
        bound: &PodTargets,
        targets: &[PlacementTarget],
    ) -> Option<String> {
        let domain = targets[target].labels.get(rule.key)?;
        let selected_pods =
            bound.iter().enumerate().filter(|(other, _)| *other != pod_index && rule.selects_to_place[*other]);
        let mut bound_targets = selected_pods.filter_map(|(_, at)| *at);
        let mut staying_targets = self
            .staying_pods
            .iter()
            .zip(&rule.selects_staying)
            .filter(|(_, is_selected)| **is_selected)
            .map(|((_, at), _)| *at);
        let is_in_domain = |at: usize| targets[at].labels.get(rule.key) == Some(domain);
        let is_occupied = bound_targets.any(is_in_domain) || staying_targets.any(is_in_domain);
        is_occupied.then(|| format!("a pod that it must be away from is in {}={domain}", rule.key))
    }

    /// Checks the anti-affinity term of a bound or staying pod that selects the pod to bind.
    fn inverse_anti_affinity_violation(
        &self,
        rule: &PodRule<'w>,
        target: usize,
        bound: &PodTargets,
        targets: &[PlacementTarget],
    ) -> Option<String> {
        let at = match rule.owner {
            RuleOwner::PodToPlace(owner) => bound[owner]?,
            RuleOwner::StayingPod(staying_index) => self.staying_pods[staying_index].1,
        };
        let domain = targets[target].labels.get(rule.key)?;
        let is_in_domain = targets[at].labels.get(rule.key) == Some(domain);
        let owner = match rule.owner {
            RuleOwner::PodToPlace(owner) => self.pods_to_place[owner],
            RuleOwner::StayingPod(staying_index) => self.staying_pods[staying_index].0,
        };
        is_in_domain.then(|| format!("{} in {}={domain} must be away from it", pod_key(owner), rule.key))
    }

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
    fn spread_inclusions(&self, target: &PlacementTarget, on: impl Fn(usize) -> bool) -> Vec<bool> {
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
    fn order_sensitivity(&self, pod_index: usize) -> (bool, i64) {
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
    fn is_counted_by_spread(&self, pod_index: usize) -> bool {
        self.rules.iter().any(|rule| matches!(rule.kind, PodRuleKind::Spread(_)) && rule.selects_to_place[pod_index])
    }

    /// Returns true if an affinity rule selects the pod.
    fn is_affinity_match(&self, pod_index: usize) -> bool {
        self.rules.iter().any(|rule| matches!(rule.kind, PodRuleKind::Affinity) && rule.selects_to_place[pod_index])
    }
}

/// Returns the targets of the bound pods that a rule selects.
fn targets_of_bound_pods<'a>(rule: &'a PodRule<'_>, bound: &'a PodTargets) -> impl Iterator<Item = usize> + 'a {
    bound.iter().zip(&rule.selects_to_place).filter(|(_, is_selected)| **is_selected).filter_map(|(target, _)| *target)
}

/// Returns the required node affinity terms that match the target; the first term if none matches,
/// and one `None` if the pod has no terms.
fn matching_affinity_terms<'a>(pod: &'a Pod, target: &PlacementTarget) -> Vec<Option<&'a NodeSelectorTerm>> {
    let terms = required_node_affinity_terms(pod).unwrap_or_default();
    let matching = terms.iter().filter(|term| term_matches(term, &target.name, &target.labels));
    let matching_terms: Vec<_> = matching.map(Some).collect();
    if matching_terms.is_empty() { vec![terms.first()] } else { matching_terms }
}

/// Returns true if node selector and node affinity term allow the domain.
fn accepts_domain(pod: &Pod, term: Option<&NodeSelectorTerm>, key: &str, domain: &str) -> bool {
    let labels = Labels::from([(key.to_owned(), domain.to_owned())]);
    let mut expressions = term.into_iter().flat_map(|term| term.match_expressions.iter().flatten());
    node_selector(pod).all(|(selected, value)| selected != key || value == domain)
        && expressions.all(|expression| expression.key != key || expression_matches(expression, &labels))
}
