//! Filters that choose among capacity reservations (spec 05 §15.3, filters 2 to 4).

use std::collections::BTreeMap;

use kerf_api::labels::{self, aws};
use kerf_engine::catalogue::OfferingRef;

use super::candidate::{Candidate, CandidateOffering, single_value, with_offerings};

/// Kind of a capacity reservation, in the order in which equal prices prefer them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReservationKind {
    Default,
    CapacityBlock,
    Interruptible,
}

impl ReservationKind {
    fn of(offering: OfferingRef<'_>) -> Self {
        let requirements = &offering.offering().requirements;
        if single_value(requirements, aws::CAPACITY_RESERVATION_TYPE) == "capacity-block" {
            Self::CapacityBlock
        } else if single_value(requirements, aws::CAPACITY_RESERVATION_INTERRUPTIBLE) == "true" {
            Self::Interruptible
        } else {
            Self::Default
        }
    }
}

fn reserved<'t>(candidate: &Candidate<'t>) -> impl Iterator<Item = OfferingRef<'t>> {
    candidate.usable().filter(|offering| offering.is_reserved())
}

fn is_usable_of_kind(offering: &CandidateOffering<'_>, kind: ReservationKind) -> bool {
    offering.is_usable && offering.offering.is_reserved() && ReservationKind::of(offering.offering) == kind
}

/// Keeps the reserved offerings of one kind: a fleet can use only one. Without a reserved offering
/// everything is kept.
pub(super) fn reservation_type<'t>(candidates: &[Candidate<'t>]) -> Vec<Candidate<'t>> {
    let all = candidates.iter().flat_map(reserved);
    match all.map(|offering| (offering.price, ReservationKind::of(offering))).min() {
        Some((_, kind)) => with_offerings(candidates, |offering| is_usable_of_kind(offering, kind)),
        None => candidates.to_vec(),
    }
}

/// Keeps the cheapest offering if the launch uses a capacity block: a fleet can use only one.
pub(super) fn capacity_block<'t>(candidates: &[Candidate<'t>]) -> Vec<Candidate<'t>> {
    let blocks = candidates.iter().flat_map(reserved);
    let blocks = blocks.filter(|offering| ReservationKind::of(*offering) == ReservationKind::CapacityBlock);
    match blocks.min_by_key(|offering| (offering.price, offering.ix())) {
        Some(cheapest) => with_offerings(candidates, |offering| offering.offering.ix() == cheapest.ix()),
        None => candidates.to_vec(),
    }
}

/// Keeps, for each type and zone, the reserved offering with the most free slots. Without a
/// reserved offering everything is kept.
pub(super) fn reserved_offering<'t>(candidates: &[Candidate<'t>]) -> Vec<Candidate<'t>> {
    if candidates.iter().all(|candidate| reserved(candidate).next().is_none()) {
        return candidates.to_vec();
    }
    let mut kept = Vec::new();
    for candidate in candidates {
        let mut by_zone: BTreeMap<&str, OfferingRef<'t>> = BTreeMap::new();
        for offering in reserved(candidate) {
            let zone = single_value(&offering.offering().requirements, labels::ZONE);
            let best = by_zone.entry(zone).or_insert(offering);
            if offering.reservation_capacity() > best.reservation_capacity() {
                *best = offering;
            }
        }
        if !by_zone.is_empty() {
            let offerings = by_zone.into_values().map(|offering| CandidateOffering { offering, is_usable: true });
            kept.push(Candidate { instance_type: candidate.instance_type, offerings: offerings.collect() });
        }
    }
    kept
}
