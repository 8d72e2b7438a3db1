//! Pool limits within one pass (spec 02 §4.6). A claim counts as the largest instance type that it
//! could become.
//!
//! Limits are pairs of a resource and its remaining amount in nano-units; only limited resources
//! are listed.

use crate::bits::Bits;
use crate::catalogue::CompiledCatalogue;
use crate::resources::{Amounts, NANOS_PER_UNIT, ResourceIx};

/// Returns true if the pool's limit of `nodes` allows no further node.
pub(crate) fn is_node_limit_reached(limits: &[(ResourceIx, i128)]) -> bool {
    limits.iter().any(|(resource, remaining)| *resource == ResourceIx::NODES && *remaining < NANOS_PER_UNIT)
}

/// Drops the rows whose capacity exceeds the remaining limits.
pub(crate) fn retain_within_limits(rows: &mut Bits, catalogue: &CompiledCatalogue, limits: &[(ResourceIx, i128)]) {
    if limits.is_empty() {
        return;
    }
    let exceeding: Bits = rows
        .iter()
        .filter(|row| {
            let capacity = &catalogue.types[catalogue.rows[*row].type_ix].capacity;
            limits
                .iter()
                .any(|(resource, remaining)| *resource != ResourceIx::NODES && capacity.get(*resource) > *remaining)
        })
        .collect();
    rows.and_not_with(&exceeding);
}

/// Adds a node's capacity to the remaining limits `times` times. A negative number subtracts.
pub(crate) fn add_capacity(limits: &mut [(ResourceIx, i128)], capacity: &Amounts, times: i128) {
    for (resource, remaining) in limits {
        *remaining += times * if *resource == ResourceIx::NODES { NANOS_PER_UNIT } else { capacity.get(*resource) };
    }
}

/// Subtracts a new claim with these rows from the remaining limits.
pub(crate) fn deduct(limits: &mut [(ResourceIx, i128)], rows: &Bits, catalogue: &CompiledCatalogue) {
    for (resource, remaining) in limits {
        *remaining -= max_capacity(*resource, rows, catalogue);
    }
}

/// Returns the largest amount of a resource over the rows. For `nodes` this is 1.
pub(crate) fn max_capacity(resource: ResourceIx, rows: &Bits, catalogue: &CompiledCatalogue) -> i128 {
    if resource == ResourceIx::NODES {
        return NANOS_PER_UNIT;
    }
    let capacities = rows.iter().map(|row| catalogue.types[catalogue.rows[row].type_ix].capacity.get(resource));
    capacities.max().unwrap_or(0)
}
