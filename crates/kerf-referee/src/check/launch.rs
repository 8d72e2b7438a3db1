//! The possible launches of a claim: every listed type in every offering that can be launched and
//! that the requirements allow, with the labels of the resulting node.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{Catalogue, InstanceType, Offering};
use crate::manifests::Pool;
use crate::plan::NodeRequirement;
use crate::price::Price;
use crate::selectors::Labels;
use crate::storage::HOSTNAME;

/// Deprecated label names that nodes also have, each with its current name.
const LABEL_ALIASES: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Greatest number of values that are tried for a label which only requirements restrict.
const MAX_OPEN_LABEL_VALUES: usize = 4;

/// An instance type and an offering that a claim allows.
#[derive(Debug, Clone)]
pub(crate) struct PossibleLaunch<'c> {
    pub(crate) instance_type: &'c InstanceType,
    pub(crate) offering: &'c Offering,
    /// Labels of the node, without the hostname.
    pub(crate) labels: Labels,
}

impl PossibleLaunch<'_> {
    pub(crate) fn price(&self) -> Price {
        self.offering.price
    }
}

/// Returns all launches of a claim of the pool that has these requirements and lists these types.
pub(crate) fn possible_launches<'c, 't>(
    pool: &Pool,
    requirements: &[NodeRequirement],
    types: impl IntoIterator<Item = &'t String>,
    catalogue: &'c Catalogue,
) -> Vec<PossibleLaunch<'c>> {
    launches_in(pool, requirements, types, catalogue, Offering::is_launchable)
}

/// Returns the launches as if every reservation had a free instance. A claim may list a type for an
/// available offering, also if the offering is full (spec 02 §7.1).
pub(crate) fn launches_with_free_reservations<'c, 't>(
    pool: &Pool,
    requirements: &[NodeRequirement],
    types: impl IntoIterator<Item = &'t String>,
    catalogue: &'c Catalogue,
) -> Vec<PossibleLaunch<'c>> {
    launches_in(pool, requirements, types, catalogue, |offering| offering.is_available)
}

fn launches_in<'c, 't>(
    pool: &Pool,
    requirements: &[NodeRequirement],
    types: impl IntoIterator<Item = &'t String>,
    catalogue: &'c Catalogue,
    is_usable: fn(&Offering) -> bool,
) -> Vec<PossibleLaunch<'c>> {
    let mut requirements_by_key: BTreeMap<&str, Vec<&NodeRequirement>> = BTreeMap::new();
    for requirement in pool.requirements.iter().chain(requirements) {
        requirements_by_key.entry(&requirement.key).or_default().push(requirement);
    }
    let types = types.into_iter().filter_map(|name| catalogue.get(name));
    let offerings = types.flat_map(|t| t.offerings.iter().filter(|o| is_usable(o)).map(move |offering| (t, offering)));
    offerings
        .flat_map(|(instance_type, offering)| {
            let variants = label_variants(pool, &requirements_by_key, instance_type, offering);
            variants.into_iter().map(move |labels| PossibleLaunch { instance_type, offering, labels })
        })
        .collect()
}

/// Returns the label sets that such a node may have; empty if a requirement cannot be satisfied.
fn label_variants(
    pool: &Pool,
    requirements_by_key: &BTreeMap<&str, Vec<&NodeRequirement>>,
    instance_type: &InstanceType,
    offering: &Offering,
) -> Vec<Labels> {
    let mut labels = pool.labels.clone();
    for state in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
        labels.insert(state.to_owned(), "true".to_owned());
    }
    labels.extend(offering.labels.clone());
    let mut open: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, values) in &instance_type.values {
        match values.iter().collect::<Vec<_>>().as_slice() {
            _ if offering.labels.contains_key(key) => {}
            [value] => drop(labels.insert(key.clone(), (*value).clone())),
            several => drop(open.insert(key, several.iter().map(|value| (*value).clone()).collect())),
        }
    }
    for (&key, requirements) in requirements_by_key {
        if !labels.contains_key(key) && !open.contains_key(key) && key != HOSTNAME {
            match open_label_values(requirements) {
                OpenLabel::NoLabel => {}
                OpenLabel::Values(values) => drop(open.insert(key, values)),
            }
        }
    }
    let mut variants = vec![labels];
    for (key, values) in open {
        let allowed = |value: &&String| {
            requirements_by_key
                .get(key)
                .is_none_or(|requirements| requirements.iter().all(|requirement| requirement.allows(Some(value))))
        };
        let values: Vec<&String> = values.iter().filter(allowed).take(MAX_OPEN_LABEL_VALUES).collect();
        variants = variants
            .iter()
            .flat_map(|labels| {
                values.iter().map(|value| {
                    let mut labels = labels.clone();
                    labels.insert(key.to_owned(), (*value).clone());
                    labels
                })
            })
            .collect();
    }
    variants.retain(|labels| {
        requirements_by_key.iter().filter(|(key, _)| **key != HOSTNAME).all(|(key, requirements)| {
            requirements.iter().all(|requirement| requirement.allows(labels.get(*key).map(String::as_str)))
        })
    });
    variants.into_iter().map(with_label_aliases).collect()
}

enum OpenLabel {
    NoLabel,
    Values(Vec<String>),
}

/// Returns the values of a label that only requirements mention: the listed values, or one other
/// allowed value. `NoLabel` if a requirement forbids the label.
fn open_label_values(requirements: &[&NodeRequirement]) -> OpenLabel {
    if requirements.iter().any(|requirement| requirement.operator == "DoesNotExist") {
        return OpenLabel::NoLabel;
    }
    let listed = requirements.iter().any(|requirement| requirement.operator == "In");
    let sample_values = sample_label_values(
        requirements.iter().map(|requirement| (requirement.operator.as_str(), requirement.values.as_slice())),
    );
    let allowed = sample_values
        .into_iter()
        .filter(|value| requirements.iter().all(|requirement| requirement.allows(Some(value))));
    OpenLabel::Values(if listed { allowed.collect() } else { allowed.take(1).collect() })
}

/// Returns values that suffice to decide whether all expressions on one label can be satisfied: the
/// mentioned values, the integers next to them, and one value that no expression mentions.
pub(crate) fn sample_label_values<'a>(
    expressions: impl IntoIterator<Item = (&'a str, &'a [String])>,
) -> BTreeSet<String> {
    let mut sample_values = BTreeSet::from(["987654321".to_owned()]);
    for (_, values) in expressions {
        for value in values {
            sample_values.insert(value.clone());
            if let Ok(number) = value.parse::<i64>() {
                sample_values.insert(number.saturating_add(1).to_string());
                sample_values.insert(number.saturating_sub(1).to_string());
            }
        }
    }
    sample_values
}

/// Adds the deprecated names of the labels.
pub(crate) fn with_label_aliases(mut labels: Labels) -> Labels {
    for (old, new) in LABEL_ALIASES {
        if let Some(value) = labels.get(new).cloned() {
            labels.entry(old.to_owned()).or_insert(value);
        }
    }
    labels
}
