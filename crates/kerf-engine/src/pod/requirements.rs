//! What a pod demands of its node's labels (spec 02 §3.8), with the hostname apart because it is a node's identity.

use kerf_api::labels::{self, LabelRules};
use kerf_api::slim::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Str};

use crate::requirement::{EffectiveOperator, Requirement, Requirements};

/// A pod's demands on labels: everything but the hostname, and what it says of the hostname.
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

/// Whether preferred node affinity takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preferences {
    Included,
    Excluded,
}

/// Node selector ∩ heaviest preferred term (if preferences count) ∩ first required term.
pub(crate) fn pod_requirements(spec: &PodSpec, preferences: Preferences, rules: &LabelRules) -> NodeRequirements {
    NodeRequirements::from_requirements(parts(spec, preferences, rules).into_iter().collect())
}

/// What the algebra of spec 02 §3 loses of a pod's demands and kube-scheduler does not: that a label must be there. `In [a]` with
/// `NotIn [a]` becomes `DoesNotExist`, which a node without the label satisfies, and `Exists` with `NotIn [a]` becomes `NotIn [a]`.
/// A contradiction becomes a demand that nothing satisfies; the keys of the second kind are returned.
pub(crate) fn require_label_presence(
    demands: &mut NodeRequirements,
    spec: &PodSpec,
    preferences: Preferences,
    rules: &LabelRules,
) -> Vec<Str> {
    let mut must_exist = Vec::new();
    for one in parts(spec, preferences, rules) {
        let needs_label = matches!(one.operator(), EffectiveOperator::In | EffectiveOperator::Exists);
        let Some(all) = demands.labels.get(one.key()).filter(|_| needs_label) else { continue };
        match all.operator() {
            EffectiveOperator::DoesNotExist => demands.labels.replace(Requirement::impossible(one.key().clone())),
            EffectiveOperator::NotIn => must_exist.push(one.key().clone()),
            EffectiveOperator::In | EffectiveOperator::Exists => {}
        }
    }
    must_exist.sort_unstable();
    must_exist.dedup();
    must_exist
}

/// Each demand by itself: node selector, heaviest preferred term (if preferences count), first required term.
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

/// Every alternative that required node affinity leaves: the node selector with each term, or alone without terms.
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

/// Requirements of a term on its own, as for volumes.
pub(crate) fn term_requirements(term: &NodeSelectorTerm, skip: Option<&str>, rules: &LabelRules) -> Requirements {
    let kept = term.match_expressions.iter().filter(|e| skip.is_none_or(|key| e.key != key));
    kept.map(|e| expression_requirement(e, rules)).collect()
}

/// Labels as the requirements that they satisfy.
pub(crate) fn label_requirements<'a>(
    pairs: impl Iterator<Item = (&'a Str, &'a Str)>,
    rules: &LabelRules,
) -> Requirements {
    pairs
        .filter(|(key, _)| *key != labels::HOSTNAME)
        .map(|(key, value)| Requirement::from_label(rules, key, value))
        .collect()
}

/// What an expression demands. One that has no meaning demands what nothing satisfies: it is a wish that nobody checked, or a pool's
/// requirement that slipped past admission, and neither may be satisfied by accident.
pub(crate) fn expression_requirement(expression: &NodeSelectorRequirement, rules: &LabelRules) -> Requirement {
    Requirement::from_expression(rules, expression)
        .unwrap_or_else(|_| Requirement::impossible(rules.normalise(&expression.key)))
}
