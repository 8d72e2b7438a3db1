//! Sharing of equal parts between instance types, so that a further node class costs little memory
//! (see `kerf_engine::catalogue::InstanceType`).

use std::collections::HashSet;
use std::sync::Arc;

use kerf_engine::catalogue::{InstanceType, Offering};
use kerf_engine::requirement::Requirement;

/// Largest number of requirements that are kept for sharing. One class of 1,400 types has about
/// 4,000 different ones.
const REQUIREMENTS_MAX: usize = 65_536;

/// Requirements that types and classes share.
#[derive(Debug, Default)]
pub(super) struct RequirementPool(HashSet<Requirement>);

impl RequirementPool {
    /// Returns the requirements, those that are known already as the known ones.
    pub(super) fn share(
        &mut self,
        requirements: impl Iterator<Item = Requirement>,
    ) -> impl Iterator<Item = Requirement> {
        if self.0.len() >= REQUIREMENTS_MAX {
            self.0.clear();
        }
        requirements.map(|requirement| match self.0.get(&requirement) {
            Some(known) => known.clone(),
            None => {
                self.0.insert(requirement.clone());
                requirement
            }
        })
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Replaces a part of a type by that of another type if both are equal. Returns true if they are.
type SharePart = fn(&mut InstanceType, &InstanceType) -> bool;

/// The parts of a type, each of which is shared on its own.
const PARTS: [SharePart; 6] = [
    |new, known| share(&mut new.requirements, &known.requirements, |a, b| a == b),
    |new, known| share(&mut new.offerings, &known.offerings, are_equal_offerings),
    |new, known| share(&mut new.capacity, &known.capacity, |a, b| a == b),
    |new, known| share(&mut new.overhead.kube_reserved, &known.overhead.kube_reserved, |a, b| a == b),
    |new, known| share(&mut new.overhead.system_reserved, &known.overhead.system_reserved, |a, b| a == b),
    |new, known| share(&mut new.overhead.eviction_threshold, &known.overhead.eviction_threshold, |a, b| a == b),
];

/// Number of types whose parts are compared with those of all lists. Of the others a part is
/// compared only with lists that had an equal one before: otherwise the time for a further class
/// would grow with the number of classes.
const COMPARED_WITH_ALL: usize = 64;

/// Replaces each part of a type that equals that of the same type in another list by the other's.
/// The lists have the types in the same order.
pub(super) fn share_parts<'a>(types: impl Iterator<Item = &'a mut InstanceType>, lists: &[&[InstanceType]]) {
    // By part: the lists that had an equal one, the last of them first.
    let mut matching: [Vec<usize>; PARTS.len()] = Default::default();
    for (ix, instance_type) in types.enumerate() {
        for (share_part, matching) in PARTS.iter().zip(&mut matching) {
            let mut has_equal = |list: usize| lists[list].get(ix).is_some_and(|known| share_part(instance_type, known));
            if let Some(position) = matching.iter().position(|list| has_equal(*list)) {
                matching[..=position].rotate_right(1);
            } else if ix < COMPARED_WITH_ALL
                && let Some(list) = (0..lists.len()).find(|list| !matching.contains(list) && has_equal(*list))
            {
                matching.insert(0, list);
            }
        }
    }
}

fn share<T: Clone>(new: &mut T, known: &T, are_equal: impl FnOnce(&T, &T) -> bool) -> bool {
    let is_equal = are_equal(new, known);
    if is_equal {
        *new = known.clone();
    }
    is_equal
}

/// Returns true if two types have equal parts.
pub(super) fn are_equal(a: &InstanceType, b: &InstanceType) -> bool {
    a.name == b.name
        && a.requirements == b.requirements
        && a.capacity == b.capacity
        && a.overhead == b.overhead
        && are_equal_offerings(&a.offerings, &b.offerings)
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
