//! Reports which zones each pending pod can use, before any pod is placed (spec 02 §17.3): the
//! zones that its own requirements, its volumes and its topology constraints leave.
//!
//! The numbers tell operators which pods the outage of a zone affects. No decision reads them.

use std::collections::BTreeMap;

use kerf_api::labels::ZONE;
use kerf_api::slim::Str;
use rustc_hash::FxHashMap;

use super::class::{ClassIx, PodClass};
use super::pass::PlacementPass;
use super::problem::PodIx;
use crate::bits::Bits;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, RequirementSetIx};
use crate::topology::TopologyKeyIx;

/// The zones that a pod can use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectiveZone {
    /// Only this zone.
    One(Str),
    /// Several zones, or any.
    Flexible,
    /// No zone: the pod's constraints contradict each other, or none of the zones exists.
    Nowhere,
}

/// Returns the number of pods by usable zone. Only pods that run on no node are counted.
pub(super) fn count_by_zone(pass: &mut PlacementPass<'_>, pods: &[PodIx]) -> BTreeMap<EffectiveZone, usize> {
    let mut zone_by_class: FxHashMap<ClassIx, EffectiveZone> = FxHashMap::default();
    let (problem, mut counts) = (pass.problem, BTreeMap::new());
    for entry in pods.iter().map(|pod| &problem.pods[pod.0 as usize]).filter(|entry| entry.node.is_none()) {
        let zone = zone_by_class.entry(entry.class).or_insert_with(|| zone_of_class(pass, entry.class));
        *counts.entry(zone.clone()).or_default() += 1;
    }
    counts
}

fn zone_of_class(pass: &mut PlacementPass<'_>, class: ClassIx) -> EffectiveZone {
    let problem = pass.problem;
    let pod_class = &problem.classes[class.0 as usize];
    let domains =
        pass.allowed_domains(class).into_iter().find(|key_domains| pass.state.keys.text(key_domains.key) == ZONE);
    let topology = domains.map(|key_domains| (key_domains.key, key_domains.allowed));
    let Some(key) = pass.state.table.known_key(ZONE) else { return EffectiveZone::Flexible };
    let constraints = ZoneConstraints { pass, pod_class, key, topology };
    let Some(mut zones) = constraints.candidates() else { return EffectiveZone::Flexible };
    zones.sort_unstable();
    zones.dedup();
    zones.retain(|zone| constraints.accept(zone));
    match zones.as_slice() {
        [] => EffectiveZone::Nowhere,
        [zone] => EffectiveZone::One(zone.clone()),
        [_, _, ..] => EffectiveZone::Flexible,
    }
}

/// All constraints on the zone of one class.
struct ZoneConstraints<'a, 'p> {
    pass: &'a PlacementPass<'p>,
    pod_class: &'a PodClass,
    key: KeyIx,
    /// The zones that the pod's groups allow. `None` if no group has the zone as its key.
    topology: Option<(TopologyKeyIx, Bits)>,
}

impl ZoneConstraints<'_, '_> {
    fn zone_requirement(&self, requirements: RequirementSetIx) -> Option<&Requirement> {
        let table = &self.pass.state.table;
        table.get(requirements, self.key).map(|requirement_ix| table.requirement(requirement_ix))
    }

    /// Returns the zones listed by the first of requirements, volumes and topology that lists any.
    /// `None` if none of them does.
    fn candidates(&self) -> Option<Vec<Str>> {
        if let Some(values) =
            self.zone_requirement(self.pod_class.strict_requirements).and_then(Requirement::allowed_values)
        {
            return Some(values.to_vec());
        }
        let volume_zones: Option<Vec<&[Str]>> = self
            .pod_class
            .volume_alternatives
            .iter()
            .map(|(requirements, _)| self.zone_requirement(*requirements)?.allowed_values())
            .collect();
        if let Some(values) = volume_zones.filter(|values| !values.is_empty()) {
            return Some(values.concat());
        }
        let (key, allowed) = self.topology.as_ref()?;
        Some(allowed.iter().map(|domain| self.pass.state.keys.domain_text(*key, domain).clone()).collect())
    }

    /// Returns true if requirements, volumes and topology all accept the zone.
    fn accept(&self, zone: &Str) -> bool {
        let volumes = &self.pod_class.volume_alternatives;
        let accepts = |requirements: RequirementSetIx| {
            self.zone_requirement(requirements).is_none_or(|requirement| requirement.has(zone))
        };
        let is_allowed = |(key, allowed): &(TopologyKeyIx, Bits)| {
            self.pass.state.keys.domain(*key, zone).is_some_and(|domain| allowed.contains(domain))
        };
        accepts(self.pod_class.strict_requirements)
            && (volumes.is_empty() || volumes.iter().any(|(requirements, _)| accepts(*requirements)))
            && self.topology.as_ref().is_none_or(is_allowed)
    }
}
