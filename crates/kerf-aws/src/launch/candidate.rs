//! Instance types of a launch with the offerings that the filters have left.

use kerf_api::labels::{self, LabelRules};
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceTypeRef, OfferingRef};
use kerf_engine::requirement::{Requirement, Requirements, UndefinedLabels};

/// An instance type with the offerings that are left of it.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'t> {
    pub(super) instance_type: InstanceTypeRef<'t>,
    pub(super) offerings: Vec<CandidateOffering<'t>>,
}

/// An offering that the filters have left of a type, so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct CandidateOffering<'t> {
    pub(super) offering: OfferingRef<'t>,
    /// True if the offering can be launched now and meets the claim's requirements.
    pub(super) is_usable: bool,
}

impl<'t> Candidate<'t> {
    /// Returns the offerings that can be launched now and meet the claim's requirements.
    pub(super) fn usable(&self) -> impl Iterator<Item = OfferingRef<'t>> {
        self.offerings.iter().filter(|offering| offering.is_usable).map(|offering| offering.offering)
    }

    /// Returns the lowest price of a usable offering. Returns `None` if there is none.
    pub(super) fn cheapest(&self) -> Option<Price> {
        self.usable().map(|offering| offering.price).min()
    }
}

/// Returns the candidates with the offerings that are kept, without those that have none left.
pub(super) fn with_offerings<'t>(
    candidates: &[Candidate<'t>],
    is_kept: impl Fn(&CandidateOffering<'t>) -> bool,
) -> Vec<Candidate<'t>> {
    candidates
        .iter()
        .map(|candidate| Candidate {
            instance_type: candidate.instance_type,
            offerings: candidate.offerings.iter().filter(|offering| is_kept(offering)).copied().collect(),
        })
        .filter(|candidate| !candidate.offerings.is_empty())
        .collect()
}

/// Returns true if an offering meets requirements. The requirements need not name the labels that
/// offerings have.
pub(super) fn meets(requirements: &Requirements, offering: &Requirements, rules: &LabelRules) -> bool {
    requirements.compatible(offering, UndefinedLabels::AllowWellKnown(rules)).is_ok()
}

/// Returns the capacity type of an offering; empty if it has none.
pub(super) fn capacity_type_of(offering: OfferingRef<'_>) -> &str {
    single_value(&offering.offering().requirements, labels::CAPACITY_TYPE)
}

/// Returns the only value of a label; empty if there is none.
pub(super) fn single_value<'r>(requirements: &'r Requirements, key: &str) -> &'r str {
    let values = requirements.get(key).and_then(Requirement::allowed_values).unwrap_or_default();
    values.first().map_or("", |value| value.as_str())
}

/// Returns true if the requirements allow a capacity type. Without a requirement all are allowed.
pub(super) fn allows_capacity_type(requirements: &Requirements, capacity_type: &str) -> bool {
    requirements.get(labels::CAPACITY_TYPE).is_none_or(|requirement| requirement.has(capacity_type))
}
