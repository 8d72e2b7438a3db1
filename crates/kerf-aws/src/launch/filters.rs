//! Filters of instance types before a launch (spec 05 §15.3). Each filter gets the survivors of the
//! previous one. A filter changes only the copy of this launch.

use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::quantity::Quantity;
use kerf_api::slim::ResourceList;
use kerf_engine::catalogue::{InstanceType, InstanceTypes};
use kerf_engine::requirement::{MinValues, Requirements, UnmetMinValues, check_min_values};
use tracing::debug;

use super::candidate::{Candidate, CandidateOffering, allows_capacity_type, capacity_type_of, meets, with_offerings};
use super::claim::LaunchClaim;
use super::reserved_filters;

/// Number of instance types in one request.
const TYPES_MAX: usize = 60;
/// Number of rejected types that a log line names.
const REJECTED_NAMED: usize = 5;
/// Resources of accelerators. Types with any of them are used only if nothing else is left.
const EXOTIC_RESOURCES: [&str; 5] =
    ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "amd.com/gpu", "nvidia.com/gpu", "habana.ai/gaudi"];

/// Reason why no instance type is left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoTypesError {
    #[error("all requested instance types were unavailable during launch")]
    AllUnavailable,
    #[error("truncating instance types based on the passed-in requirements, validating minValues, {0}")]
    MinValues(#[source] UnmetMinValues),
}

/// Decides if the types of a request must have enough values (`minValues`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinValuesCheck {
    /// Too few values end the launch.
    Required,
    /// Too few values are accepted.
    Skipped,
}

/// Returns the types of a launch, cheapest first, with the offerings that the filters left.
pub(super) fn filter_types(
    types: &InstanceTypes,
    claim: &LaunchClaim<'_>,
    rules: &LabelRules,
    policy: MinValuesCheck,
) -> Result<InstanceTypes, NoTypesError> {
    let requirements = &claim.requirements;
    let has_min_values = requirements.iter().any(|requirement| requirement.min_values().is_some());
    let mut candidates = compatible_available(types, claim, rules);
    if allows_capacity_type(requirements, labels::CAPACITY_TYPE_RESERVED) {
        candidates = logged("capacity-reservation-type-filter", candidates, reserved_filters::reservation_type);
        candidates = logged("capacity-block-filter", candidates, reserved_filters::capacity_block);
        candidates = logged("reserved-offering-filter", candidates, reserved_filters::reserved_offering);
    }
    if !has_min_values {
        candidates = logged("exotic-instance-filter", candidates, without_exotic);
        let allows_both = [labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND]
            .into_iter()
            .all(|capacity_type| allows_capacity_type(requirements, capacity_type));
        if allows_both {
            candidates = logged("spot-offering-filter", candidates, without_expensive_spot);
        }
    }
    if candidates.is_empty() {
        return Err(NoTypesError::AllUnavailable);
    }
    truncate(candidates, requirements, has_min_values, policy)
}

fn compatible_available<'t>(
    types: &'t InstanceTypes,
    claim: &LaunchClaim<'_>,
    rules: &LabelRules,
) -> Vec<Candidate<'t>> {
    let mut candidates = Vec::new();
    for instance_type in types.iter() {
        if !meets(&claim.requirements, &instance_type.requirements, rules) {
            continue;
        }
        let offerings: Vec<CandidateOffering<'t>> = instance_type
            .offerings()
            .map(|offering| CandidateOffering {
                is_usable: offering.is_launchable() && meets(&claim.requirements, &offering.requirements, rules),
                offering,
            })
            .collect();
        let candidate = Candidate { instance_type, offerings };
        if fits_in_usable_offering(&candidate, &claim.requests) {
            candidates.push(candidate);
        }
    }
    candidates
}

/// Returns true if the requests fit into an instance of a usable offering.
fn fits_in_usable_offering(candidate: &Candidate<'_>, requests: &ResourceList) -> bool {
    let mut base: Option<bool> = None;
    candidate.usable().any(|offering| {
        if offering.capacity_override.is_some() || offering.overhead_override.is_some() {
            return fits(requests, &candidate.instance_type.allocatable_in(offering.offering()));
        }
        *base.get_or_insert_with(|| fits(requests, &candidate.instance_type.allocatable()))
    })
}

/// Spec 04 §2.6: nothing fits if any total is negative; a missing total is zero.
fn fits(requests: &ResourceList, total: &ResourceList) -> bool {
    total.iter().all(|(_, amount)| amount >= Quantity::ZERO)
        && requests.iter().all(|(name, amount)| amount <= total.get(name).unwrap_or(Quantity::ZERO))
}

/// Rejects bare metal and accelerated types, unless nothing else is left.
fn without_exotic<'t>(candidates: &[Candidate<'t>]) -> Vec<Candidate<'t>> {
    let is_exotic = |instance_type: &InstanceType| {
        let size = instance_type.requirements.get(aws::INSTANCE_SIZE);
        let is_metal = size.is_some_and(|size| size.values().iter().any(|value| value.contains("metal")));
        let has = |name: &&str| instance_type.capacity.get(name).is_some_and(|amount| amount != Quantity::ZERO);
        is_metal || EXOTIC_RESOURCES.iter().any(has)
    };
    let ordinary: Vec<Candidate<'t>> =
        candidates.iter().filter(|candidate| !is_exotic(&candidate.instance_type)).cloned().collect();
    if ordinary.is_empty() { candidates.to_vec() } else { ordinary }
}

/// Drops spot offerings that cost more than the cheapest on-demand offering.
fn without_expensive_spot<'t>(candidates: &[Candidate<'t>]) -> Vec<Candidate<'t>> {
    let cheapest = |capacity_type: &str| {
        let usable = candidates.iter().flat_map(Candidate::usable);
        usable.filter(|offering| capacity_type_of(*offering) == capacity_type).map(|offering| offering.price).min()
    };
    let (Some(_), Some(on_demand)) = (cheapest(labels::CAPACITY_TYPE_SPOT), cheapest(labels::CAPACITY_TYPE_ON_DEMAND))
    else {
        return candidates.to_vec();
    };
    let is_kept = |offering: &CandidateOffering<'_>| {
        capacity_type_of(offering.offering) != labels::CAPACITY_TYPE_SPOT || offering.offering.price <= on_demand
    };
    with_offerings(candidates, is_kept)
}

/// Applies a filter and logs the types that it rejects.
fn logged<'t>(
    name: &'static str,
    candidates: Vec<Candidate<'t>>,
    filter: impl FnOnce(&[Candidate<'t>]) -> Vec<Candidate<'t>>,
) -> Vec<Candidate<'t>> {
    if candidates.is_empty() {
        return candidates;
    }
    let kept = filter(&candidates);
    if kept.len() < candidates.len() {
        let is_kept = |candidate: &&Candidate<'_>| {
            kept.binary_search_by(|other| other.instance_type.name.cmp(&candidate.instance_type.name)).is_ok()
        };
        let rejected: Vec<&str> = candidates
            .iter()
            .filter(|candidate| !is_kept(candidate))
            .map(|candidate| candidate.instance_type.instance_type().name.as_str())
            .take(REJECTED_NAMED)
            .collect();
        let count = candidates.len() - kept.len();
        debug!(filter = name, count, "instance-types" = rejected.join(", "), "filtered out instance types from launch");
    }
    kept
}

fn truncate(
    mut candidates: Vec<Candidate<'_>>,
    requirements: &Requirements,
    has_min_values: bool,
    policy: MinValuesCheck,
) -> Result<InstanceTypes, NoTypesError> {
    // Types without a usable offering are last. Equal prices are in the order of the names.
    candidates.sort_by_cached_key(|candidate| {
        let cheapest = candidate.cheapest();
        (cheapest.is_none(), cheapest, candidate.instance_type.name.clone())
    });
    candidates.truncate(TYPES_MAX);
    if has_min_values && policy == MinValuesCheck::Required {
        let declared = candidates.iter().map(|candidate| &*candidate.instance_type.instance_type().requirements);
        if let MinValues::Unmet(unmet) = check_min_values(declared, requirements) {
            return Err(NoTypesError::MinValues(unmet));
        }
    }
    let kept = candidates.into_iter().map(|candidate| {
        let offerings = candidate.offerings.iter();
        let instance_type = InstanceType {
            offerings: offerings.clone().map(|offering| offering.offering.offering().clone()).collect(),
            ..candidate.instance_type.instance_type().clone()
        };
        (instance_type, offerings.map(|offering| offering.offering.state()).collect::<Vec<_>>())
    });
    Ok(kept.collect())
}

#[cfg(test)]
mod tests;
