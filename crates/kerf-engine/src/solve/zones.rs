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
    let mut known: FxHashMap<ClassIx, EffectiveZone> = FxHashMap::default();
    let (problem, mut counts) = (pass.problem, BTreeMap::new());
    for entry in pods.iter().map(|pod| &problem.pods[pod.0 as usize]).filter(|entry| entry.node.is_none()) {
        let zone = known.entry(entry.class).or_insert_with(|| zone_of_class(pass, entry.class));
        *counts.entry(zone.clone()).or_default() += 1;
    }
    counts
}

fn zone_of_class(pass: &mut PlacementPass<'_>, class: ClassIx) -> EffectiveZone {
    let problem = pass.problem;
    let facts = &problem.classes[class.0 as usize];
    let domains = pass.allowed_domains(class).into_iter().find(|open| pass.state.keys.text(open.key) == ZONE);
    let topology = domains.map(|open| (open.key, open.allowed));
    let Some(key) = pass.state.table.known_key(ZONE) else { return EffectiveZone::Flexible };
    let sources = ZoneConstraints { pass, facts, key, topology };
    let Some(mut zones) = sources.candidates() else { return EffectiveZone::Flexible };
    zones.sort_unstable();
    zones.dedup();
    zones.retain(|zone| sources.accept(zone));
    match zones.as_slice() {
        [] => EffectiveZone::Nowhere,
        [zone] => EffectiveZone::One(zone.clone()),
        [_, _, ..] => EffectiveZone::Flexible,
    }
}

/// All constraints on the zone of one class.
struct ZoneConstraints<'a, 'p> {
    pass: &'a PlacementPass<'p>,
    facts: &'a PodClass,
    key: KeyIx,
    /// The zones that the pod's groups allow. `None` if no group has the zone as its key.
    topology: Option<(TopologyKeyIx, Bits)>,
}

impl ZoneConstraints<'_, '_> {
    fn zone_requirement(&self, set: RequirementSetIx) -> Option<&Requirement> {
        let table = &self.pass.state.table;
        table.get(set, self.key).map(|one| table.requirement(one))
    }

    /// Returns the zones listed by the first of requirements, volumes and topology that lists any.
    /// `None` if none of them does.
    fn candidates(&self) -> Option<Vec<Str>> {
        if let Some(values) =
            self.zone_requirement(self.facts.strict_requirements).and_then(Requirement::allowed_values)
        {
            return Some(values.to_vec());
        }
        let of_volumes: Option<Vec<&[Str]>> = self
            .facts
            .volume_alternatives
            .iter()
            .map(|(set, _)| self.zone_requirement(*set)?.allowed_values())
            .collect();
        if let Some(values) = of_volumes.filter(|values| !values.is_empty()) {
            return Some(values.concat());
        }
        let (key, allowed) = self.topology.as_ref()?;
        Some(allowed.iter().map(|domain| self.pass.state.keys.domain_text(*key, domain).clone()).collect())
    }

    /// Returns true if requirements, volumes and topology all accept the zone.
    fn accept(&self, zone: &Str) -> bool {
        let volumes = &self.facts.volume_alternatives;
        let accepts =
            |set: RequirementSetIx| self.zone_requirement(set).is_none_or(|requirement| requirement.has(zone));
        let is_open = |(key, allowed): &(TopologyKeyIx, Bits)| {
            self.pass.state.keys.domain(*key, zone).is_some_and(|domain| allowed.contains(domain))
        };
        accepts(self.facts.strict_requirements)
            && (volumes.is_empty() || volumes.iter().any(|(set, _)| accepts(*set)))
            && self.topology.as_ref().is_none_or(is_open)
    }
}
