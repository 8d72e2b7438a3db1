//! Rules between pods: spread, affinity and anti-affinity, over existing and planned pods.
//!
//! [`Topology`] holds for one cluster which rule of which pod selects which other pods. It then
//! checks placements. Pods are counted anew for every check, so there are no counts that could
//! become stale.

mod bind_order;
mod combinations;
mod placement_target;
mod rule_facts;
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
pub(crate) use self::rule_facts::SpreadBound;
use self::spread::SpreadRule;

/// All rules between the pods of a cluster.
#[derive(Debug)]
pub(crate) struct Topology<'w> {
    /// Pending pods and pods on nodes that are being deleted.
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
                    "{}={domain} would have {count} pods, the domain with the fewest has {minimum}, maxSkew is {max_skew}",
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
        Some(format!("no pod that its affinity selects is in {}={domain}, only in {matching_domains:?}", rule.key))
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
        is_occupied.then(|| format!("a pod that its anti-affinity selects is in {}={domain}", rule.key))
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
        is_in_domain.then(|| format!("the anti-affinity of {} in {}={domain} selects it", pod_key(owner), rule.key))
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
