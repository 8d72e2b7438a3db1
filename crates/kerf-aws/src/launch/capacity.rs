//! Capacity type and tenancy of a launch (spec 05 §15.4).

use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::slim::Str;
use kerf_engine::catalogue::{InstanceTypeRef, InstanceTypes};
use kerf_engine::requirement::{Requirement, Requirements};
use tracing::error;

use super::candidate::{allows_capacity_type, capacity_type_of, meets};

/// Number of types below which a launch that could have used spot counts as inflexible.
const ON_DEMAND_FALLBACK_TYPES_MIN: usize = 5;

/// Returns the capacity type of a launch: reserved before spot before on-demand.
pub(super) fn choose_capacity_type(
    types: &InstanceTypes,
    requirements: &Requirements,
    rules: &LabelRules,
) -> &'static str {
    let is_offered = |capacity_type: &str| {
        types.iter().flat_map(InstanceTypeRef::offerings).any(|offering| {
            capacity_type_of(offering) == capacity_type
                && offering.is_launchable()
                && meets(requirements, &offering.requirements, rules)
        })
    };
    [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT]
        .into_iter()
        .find(|capacity_type| allows_capacity_type(requirements, capacity_type) && is_offered(capacity_type))
        .unwrap_or(labels::CAPACITY_TYPE_ON_DEMAND)
}

/// Returns the tenancy of a launch.
pub(super) fn choose_tenancy(requirements: &Requirements) -> &'static str {
    let tenancy = requirements.get(aws::INSTANCE_TENANCY);
    let allows = |value: &str| tenancy.is_none_or(|requirement| requirement.has(value));
    if !allows(aws::TENANCY_DEFAULT) && allows(aws::TENANCY_DEDICATED) {
        aws::TENANCY_DEDICATED
    } else {
        aws::TENANCY_DEFAULT
    }
}

/// Returns the requirements with the capacity type of the launch.
pub(super) fn narrowed(requirements: &Requirements, capacity_type: &'static str) -> Requirements {
    let mut narrowed = requirements.clone();
    narrowed.replace(Requirement::one_of(labels::CAPACITY_TYPE, [Str::new_static(capacity_type)]));
    narrowed
}

/// Logs a launch that falls back to on-demand with few types. The launch goes on.
pub(super) fn log_on_demand_fallback(types: &InstanceTypes, requirements: &Requirements, capacity_type: &str) {
    let is_fallback = capacity_type == labels::CAPACITY_TYPE_ON_DEMAND
        && allows_capacity_type(requirements, labels::CAPACITY_TYPE_SPOT);
    if is_fallback && types.len() < ON_DEMAND_FALLBACK_TYPES_MIN {
        let cause = format!(
            "at least {ON_DEMAND_FALLBACK_TYPES_MIN} instance types are recommended when flexible to spot but \
             requesting on-demand, the current provisioning request only has {} instance type options",
            types.len()
        );
        error!(error = cause, "failed while checking on-demand fallback");
    }
}

/// Returns true if a launch uses reserved capacity.
pub(super) fn is_reserved(capacity_type: &str) -> bool {
    capacity_type == labels::CAPACITY_TYPE_RESERVED
}
