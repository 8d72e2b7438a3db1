//! Sharing of equal parts between instance types, so that a further node class costs little memory
//! (see `kerf_engine::catalogue::InstanceType`).

use std::collections::HashSet;
use std::sync::Arc;

use kerf_api::slim::ResourceList;
use kerf_engine::catalogue::{InstanceType, Offering};
use kerf_engine::requirement::{Requirement, Requirements};

/// Largest number of requirements that are kept for sharing. One class of 1,400 types has about
/// 4,000 different ones.
const REQUIREMENTS_MAX: usize = 65_536;

/// Requirements that types and classes share.
#[derive(Debug, Default)]
pub(super) struct RequirementPool(HashSet<Requirement>);

impl RequirementPool {
    /// Returns a set of requirements that shares those that are known already.
    pub(super) fn share(&mut self, requirements: impl Iterator<Item = Requirement>) -> Requirements {
        if self.0.len() >= REQUIREMENTS_MAX {
            self.0.clear();
        }
        requirements
            .map(|requirement| match self.0.get(&requirement) {
                Some(known) => known.clone(),
                None => {
                    self.0.insert(requirement.clone());
                    requirement
                }
            })
            .collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Replaces each part of a type that equals that of another type by the other's.
pub(super) fn share_parts(instance_type: &mut InstanceType, known: &InstanceType) {
    if instance_type.requirements == known.requirements {
        instance_type.requirements = Arc::clone(&known.requirements);
    }
    if are_equal_offerings(&instance_type.offerings, &known.offerings) {
        instance_type.offerings = Arc::clone(&known.offerings);
    }
    share_resources(&mut instance_type.capacity, &known.capacity);
    share_resources(&mut instance_type.overhead.kube_reserved, &known.overhead.kube_reserved);
    share_resources(&mut instance_type.overhead.system_reserved, &known.overhead.system_reserved);
    share_resources(&mut instance_type.overhead.eviction_threshold, &known.overhead.eviction_threshold);
}

/// Returns true if two types have equal parts.
pub(super) fn are_equal(a: &InstanceType, b: &InstanceType) -> bool {
    a.name == b.name
        && a.requirements == b.requirements
        && a.capacity == b.capacity
        && a.overhead == b.overhead
        && are_equal_offerings(&a.offerings, &b.offerings)
}

fn share_resources(list: &mut ResourceList, known: &ResourceList) {
    if list == known {
        *list = known.clone();
    }
}

fn are_equal_offerings(a: &Arc<[Offering]>, b: &Arc<[Offering]>) -> bool {
    let are_equal = |(a, b): (&Offering, &Offering)| {
        a.price == b.price
            && a.requirements == b.requirements
            && a.capacity_override == b.capacity_override
            && a.overhead_override == b.overhead_override
    };
    Arc::ptr_eq(a, b) || (a.len() == b.len() && a.iter().zip(b.iter()).all(are_equal))
}
