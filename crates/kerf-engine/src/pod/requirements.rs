//! The requirements of a pod on its node's labels (spec 02 §3.8). The hostname is kept separately
//! because it identifies a node.

use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Str};

use crate::requirement::{EffectiveOperator, Requirement, Requirements};

/// The requirements of a pod on labels, and separately on the hostname.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NodeRequirements {
    pub(crate) labels: Requirements,
    pub(crate) hostname: Option<Requirement>,
}

impl NodeRequirements {
    pub(crate) fn from_requirements(all: Requirements) -> Self {
        let hostname = all.get(labels::HOSTNAME).cloned();
        Self { labels: all.iter().filter(|r| r.key() != labels::HOSTNAME).cloned().collect(), hostname }
    }
}

/// Selects whether preferred node affinity is included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preferences {
    Included,
    Excluded,
}

/// Returns the intersection of the node selector, the preferred term with the highest weight (if
/// preferences are included) and the first required term.
pub(crate) fn pod_requirements(spec: &PodSpec, preferences: Preferences, rules: &LabelRules) -> NodeRequirements {
    NodeRequirements::from_requirements(parts(spec, preferences, rules).into_iter().collect())
}

/// Restores a rule of kube-scheduler that the intersections of spec 02 §3 lose: a label must exist.
///
/// - `In [a]` and `NotIn [a]` intersect to `DoesNotExist`, which a node without the label
///   satisfies. Such a requirement is replaced by one that nothing satisfies.
/// - `Exists` and `NotIn [a]` intersect to `NotIn [a]`. The keys of such requirements are returned.
pub(crate) fn require_label_presence(
    requirements: &mut NodeRequirements,
    spec: &PodSpec,
    preferences: Preferences,
    rules: &LabelRules,
) -> Vec<Str> {
    let mut must_exist = Vec::new();
    for requirement in parts(spec, preferences, rules) {
        let needs_label = matches!(requirement.operator(), EffectiveOperator::In | EffectiveOperator::Exists);
        let Some(all) = requirements.labels.get(requirement.key()).filter(|_| needs_label) else { continue };
        match all.operator() {
            EffectiveOperator::DoesNotExist => {
                requirements.labels.replace(Requirement::impossible(requirement.key().clone()));
            }
            EffectiveOperator::NotIn => must_exist.push(requirement.key().clone()),
            EffectiveOperator::In | EffectiveOperator::Exists => {}
        }
    }
    must_exist.sort_unstable();
    must_exist.dedup();
    must_exist
}

/// Returns each requirement by itself: of the node selector, the preferred term with the highest
/// weight (if preferences are included) and the first required term.
fn parts(spec: &PodSpec, preferences: Preferences, rules: &LabelRules) -> Vec<Requirement> {
    let selector = spec.node_selector.iter().map(|(key, value)| Requirement::from_label(rules, key, value));
    let affinity = spec.affinity.as_ref().map(|affinity| &affinity.node_affinity);
    let heaviest = affinity
        .filter(|_| preferences == Preferences::Included)
        .and_then(|a| a.preferred.iter().rev().max_by_key(|p| p.weight))
        .map(|p| &p.preference);
    let first = affinity.and_then(|a| a.required.as_ref()?.first());
    let terms = heaviest.into_iter().chain(first);
    selector.chain(terms.flat_map(|t| &t.match_expressions).map(|e| expression_requirement(e, rules))).collect()
}

/// Returns the alternatives of the required node affinity, each intersected with the node selector.
/// Without required terms the node selector is the only alternative.
pub(crate) fn node_affinity_alternatives(spec: &PodSpec, rules: &LabelRules) -> Vec<NodeRequirements> {
    let base = node_selector(spec, rules);
    let terms = spec.affinity.as_ref().and_then(|a| a.node_affinity.required.as_deref()).unwrap_or_default();
    if terms.is_empty() {
        return vec![NodeRequirements::from_requirements(base)];
    }
    terms
        .iter()
        .map(|term| {
            let mut all = base.clone();
            add_term(&mut all, term, rules);
            NodeRequirements::from_requirements(all)
        })
        .collect()
}

fn node_selector(spec: &PodSpec, rules: &LabelRules) -> Requirements {
    spec.node_selector.iter().map(|(key, value)| Requirement::from_label(rules, key, value)).collect()
}

fn add_term(all: &mut Requirements, term: &NodeSelectorTerm, rules: &LabelRules) {
    for expression in &term.match_expressions {
        all.add(expression_requirement(expression, rules));
    }
}

/// Returns the requirements of one term. `skip` is a key to leave out.
pub(crate) fn term_requirements(term: &NodeSelectorTerm, skip: Option<&str>, rules: &LabelRules) -> Requirements {
    let kept = term.match_expressions.iter().filter(|e| skip.is_none_or(|key| e.key != key));
    kept.map(|e| expression_requirement(e, rules)).collect()
}

/// Returns the requirements that a node with these labels satisfies, without the hostname.
pub(crate) fn label_requirements<'a>(
    pairs: impl Iterator<Item = (&'a Str, &'a Str)>,
    rules: &LabelRules,
) -> Requirements {
    pairs
        .filter(|(key, _)| *key != labels::HOSTNAME)
        .map(|(key, value)| Requirement::from_label(rules, key, value))
        .collect()
}

/// Returns the requirement of an expression. An invalid expression becomes a requirement that
/// nothing satisfies. It comes from a preference, which the API server does not validate, or from a
/// pool that was not validated. Neither may be satisfied by accident.
pub(crate) fn expression_requirement(expression: &NodeSelectorRequirement, rules: &LabelRules) -> Requirement {
    Requirement::from_expression(rules, expression)
        .unwrap_or_else(|_| Requirement::impossible(rules.normalise(&expression.key)))
}
