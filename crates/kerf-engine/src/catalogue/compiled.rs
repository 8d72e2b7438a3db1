//! A catalogue as bit sets. The rows that satisfy a requirement set and have an available offering
//! are the AND of a few sets, one per requirement.
//!
//! A row is an instance type together with those of its available offerings that have equal
//! allocatable resources. Without overrides a type is exactly one row. Unavailable offerings belong
//! to no row (spec 02 §4.4).

use kerf_api::labels;
use kerf_api::slim::Str;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::instance_type::Offering;
use super::list::{InstanceTypeRef, InstanceTypes};
use crate::bits::Bits;
use crate::price::Price;
use crate::requirement::Requirement;
use crate::requirement_table::{KeyIx, RequirementIx, RequirementSetIx, RequirementTable};
use crate::resources::{Amounts, ResourceIx, ResourceNames};

/// Index of a row of a catalogue.
pub(crate) type RowIx = usize;

/// Instance types, rows and offerings of one catalogue, with their requirements by label key.
#[derive(Debug, Clone)]
pub(crate) struct CompiledCatalogue {
    pub(crate) types: Vec<CompiledType>,
    pub(crate) rows: Vec<CatalogueRow>,
    pub(crate) offerings: Vec<CompiledOffering>,
    /// For each key that some type defines, the requirement of each type.
    type_keys: FxHashMap<KeyIx, Vec<Option<RequirementIx>>>,
    /// For each key that some offering defines, the requirement of each offering.
    offering_labels: Vec<OfferingLabel>,
    /// ID and slots of every reservation, including those that cannot be launched now.
    pub(crate) reservations: Vec<(Str, i32)>,
    /// Label key of the reservation ID. `None` if the catalogue has no reservation.
    pub(crate) reservation_key: Option<Str>,
}

/// A label that some offering defines.
#[derive(Debug, Clone)]
struct OfferingLabel {
    key: KeyIx,
    /// The requirement of each offering.
    column: Vec<Option<RequirementIx>>,
    /// Offerings that satisfy a set without a requirement on this key.
    matching_if_absent: Bits,
}

/// The instance types and offerings that satisfy one requirement or one set of requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Matches {
    types: Bits,
    offerings: Bits,
}

impl Matches {
    pub(crate) fn and_with(&mut self, other: &Self) {
        self.types.and_with(&other.types);
        self.offerings.and_with(&other.offerings);
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.types.heap_bytes() + self.offerings.heap_bytes()
    }
}

/// An instance type as the solver needs it.
#[derive(Debug, Clone)]
pub(crate) struct CompiledType {
    pub(crate) name: Str,
    pub(crate) requirements: RequirementSetIx,
    pub(crate) capacity: Amounts,
}

/// An instance type with one of its allocatable resources.
#[derive(Debug, Clone)]
pub(crate) struct CatalogueRow {
    pub(crate) type_ix: usize,
    pub(crate) allocatable: Amounts,
    /// The floats nearest to the allocatable CPU, memory and pods. Comparisons that only exclude a
    /// row use them, because a division of two `i128` takes ten times as long.
    pub(crate) allocatable_floats: [f64; 3],
}

impl CatalogueRow {
    pub(crate) fn new(type_ix: usize, allocatable: Amounts) -> Self {
        let allocatable_floats =
            [ResourceIx::CPU, ResourceIx::MEMORY, ResourceIx::PODS].map(|resource| allocatable.get(resource) as f64);
        Self { type_ix, allocatable, allocatable_floats }
    }
}

/// An available offering.
#[derive(Debug, Clone)]
pub(crate) struct CompiledOffering {
    pub(crate) row: RowIx,
    pub(crate) price: Price,
    /// False for a full reservation, whose price does not count.
    pub(crate) is_launchable: bool,
    pub(crate) zone: Str,
    pub(crate) capacity_type: Str,
    pub(crate) reservation: Option<Str>,
}

/// The rows and offerings that satisfy one requirement set.
#[derive(Debug, Clone)]
pub(crate) struct RowView {
    /// Rows whose type is compatible and that have a compatible available offering.
    pub(crate) rows: Bits,
    /// Compatible available offerings, also of incompatible types.
    pub(crate) offerings: Bits,
    /// Rows whose type is compatible, with or without an offering.
    pub(crate) compatible: Bits,
    /// `rows` with their prices, sorted by price, ties by type name.
    pub(crate) by_price: Vec<PricedRow>,
}

/// A row with the price of its cheapest compatible offering that can be launched. The price is
/// unknown if all its offerings are full reservations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PricedRow {
    pub(crate) price: Price,
    /// The float nearest to the price, in its own unit.
    pub(crate) price_float: f64,
    pub(crate) row: RowIx,
}

impl PricedRow {
    pub(crate) fn new(price: Price, row: RowIx) -> Self {
        Self { price, price_float: price.units() as f64, row }
    }
}

impl RowView {
    /// Returns the approximate size of the view in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.by_price)
            + self.rows.heap_bytes()
            + self.offerings.heap_bytes()
            + self.compatible.heap_bytes()
    }
}

impl CompiledCatalogue {
    pub(crate) fn new(types: &InstanceTypes, names: &mut ResourceNames, table: &mut RequirementTable) -> Self {
        let mut catalogue = Self {
            types: Vec::with_capacity(types.len()),
            rows: Vec::new(),
            offerings: Vec::new(),
            type_keys: FxHashMap::default(),
            offering_labels: Vec::new(),
            reservations: Vec::new(),
            reservation_key: None,
        };
        let mut offering_sets = Vec::new();
        for (type_ix, instance_type) in types.iter().enumerate() {
            let set = table.intern(&instance_type.requirements);
            for (key, requirement) in table.pairs(set).to_vec() {
                let column = catalogue.type_keys.entry(key).or_insert_with(|| vec![None; types.len()]);
                column[type_ix] = Some(requirement);
            }
            catalogue.types.push(CompiledType {
                name: instance_type.name.clone(),
                requirements: set,
                capacity: names.amounts(&instance_type.capacity),
            });
            catalogue.add_rows(type_ix, instance_type, names, table, &mut offering_sets);
        }
        catalogue.index_offerings(&offering_sets, table);
        catalogue
    }

    fn add_rows(
        &mut self,
        type_ix: usize,
        instance_type: InstanceTypeRef<'_>,
        names: &mut ResourceNames,
        table: &mut RequirementTable,
        offering_sets: &mut Vec<RequirementSetIx>,
    ) {
        let mut groups: Vec<(&Offering, RowIx)> = Vec::new();
        let base = self.rows.len();
        self.rows.push(CatalogueRow::new(type_ix, names.amounts(&instance_type.allocatable())));
        for listed in instance_type.offerings() {
            let offering = listed.offering();
            let capacity_type = single(offering, labels::CAPACITY_TYPE);
            let reservation = (capacity_type == "reserved").then(|| reservation_id(offering)).flatten();
            if let Some((key, id)) = &reservation {
                self.reservation_key.get_or_insert_with(|| key.clone());
                self.record_reservation(id, listed.reservation_capacity());
            }
            if !listed.is_available() {
                continue;
            }
            let overridden = offering.capacity_override.is_some() || offering.overhead_override.is_some();
            let has_same_overrides = |o: &Offering| {
                o.capacity_override == offering.capacity_override && o.overhead_override == offering.overhead_override
            };
            let existing_row = groups.iter().find(|(o, _)| has_same_overrides(o)).map(|(_, row)| *row);
            let row = match existing_row {
                Some(row) => row,
                None if overridden => {
                    let allocatable = names.amounts(&instance_type.allocatable_in(offering));
                    self.rows.push(CatalogueRow::new(type_ix, allocatable));
                    groups.push((offering, self.rows.len() - 1));
                    self.rows.len() - 1
                }
                None => base,
            };
            offering_sets.push(table.intern(&offering.requirements));
            self.offerings.push(CompiledOffering {
                row,
                price: offering.price,
                is_launchable: listed.is_launchable(),
                zone: single(offering, labels::ZONE),
                capacity_type,
                reservation: reservation.map(|(_, id)| id),
            });
        }
    }

    /// Records the slots of a reservation. If its offerings disagree, the smallest number counts
    /// (spec 02 §10).
    fn record_reservation(&mut self, id: &Str, capacity: i32) {
        match self.reservations.iter_mut().find(|(known, _)| known == id) {
            Some((_, slots)) => *slots = (*slots).min(capacity),
            None => self.reservations.push((id.clone(), capacity)),
        }
    }

    fn index_offerings(&mut self, sets: &[RequirementSetIx], table: &RequirementTable) {
        let mut keys: Vec<KeyIx> = sets.iter().flat_map(|s| table.pairs(*s)).map(|p| p.0).collect();
        keys.sort_unstable();
        keys.dedup();
        let offering_label = |key: KeyIx| {
            let column: Vec<Option<RequirementIx>> = sets.iter().map(|set| table.get(*set, key)).collect();
            let may_be_absent = |declared: RequirementIx| table.requirement(declared).may_be_absent();
            let matches_if_absent = |offering: &usize| {
                column[*offering].is_none_or(|declared| table.is_well_known(key) || may_be_absent(declared))
            };
            let matching_if_absent = (0..sets.len()).filter(matches_if_absent).collect();
            OfferingLabel { key, column, matching_if_absent }
        };
        self.offering_labels = keys.into_iter().map(offering_label).collect();
    }

    /// Returns the rows and offerings that satisfy a requirement set (spec 02 §7.1, without
    /// resources). Passes use [`ViewCache`](super::ViewCache) instead.
    pub(crate) fn view(&self, set: RequirementSetIx, table: &mut RequirementTable) -> RowView {
        let matches = self.matches_of_set(set, table, |requirement_ix, matches, table| {
            matches.and_with(&self.matches_of_requirement(requirement_ix, table));
        });
        self.view_of_matches(&matches)
    }

    /// Returns the types and offerings that satisfy a requirement set. Calls `restrict` for each
    /// requirement on a label that the catalogue defines.
    pub(crate) fn matches_of_set(
        &self,
        set: RequirementSetIx,
        table: &mut RequirementTable,
        mut restrict: impl FnMut(RequirementIx, &mut Matches, &mut RequirementTable),
    ) -> Matches {
        let mut matches = Matches { types: Bits::full(self.types.len()), offerings: Bits::full(self.offerings.len()) };
        let pairs: SmallVec<[(KeyIx, RequirementIx); 16]> = SmallVec::from_slice(table.pairs(set));
        for (key, required) in pairs {
            // Also if no type defines the label: no node can satisfy the requirement, and the API
            // server would reject a NodeClaim with it.
            if table.requirement(required).is_unsatisfiable() {
                matches.types = Bits::new();
            }
            if self.type_keys.contains_key(&key)
                || self.offering_labels.iter().any(|offering_label| offering_label.key == key)
            {
                restrict(required, &mut matches, table);
            }
        }
        for offering_label in &self.offering_labels {
            if table.get(set, offering_label.key).is_none() {
                matches.offerings.and_with(&offering_label.matching_if_absent);
            }
        }
        matches
    }

    /// Returns the types and offerings that satisfy one requirement.
    pub(crate) fn matches_of_requirement(&self, required: RequirementIx, table: &mut RequirementTable) -> Matches {
        let mut matches = Matches { types: Bits::full(self.types.len()), offerings: Bits::full(self.offerings.len()) };
        let Some(key) = table.known_key(table.requirement(required).key()) else { return matches };
        if let Some(column) = self.type_keys.get(&key) {
            matches.types = (0..self.types.len())
                .filter(|t| column[*t].is_none_or(|declared| table.intersect_requirements(declared, required).1))
                .collect();
        }
        if let Some(offering_label) = self.offering_labels.iter().find(|offering_label| offering_label.key == key) {
            matches.offerings = (0..self.offerings.len())
                .filter(|offering| {
                    offering_label.column[*offering]
                        .is_none_or(|declared| table.intersect_requirements(required, declared).1)
                })
                .collect();
        }
        matches
    }

    /// Returns the view of these types and offerings.
    pub(crate) fn view_of_matches(&self, matches: &Matches) -> RowView {
        let (type_mask, offerings) = (&matches.types, matches.offerings.clone());
        let compatible: Bits = (0..self.rows.len()).filter(|r| type_mask.contains(self.rows[*r].type_ix)).collect();
        let mut cheapest: Vec<Option<Price>> = vec![None; self.rows.len()];
        for offering in offerings.iter() {
            let column = &self.offerings[offering];
            if compatible.contains(column.row) {
                let best = &mut cheapest[column.row];
                let price = if column.is_launchable { column.price } else { Price::UNKNOWN };
                *best = Some(best.map_or(price, |p| p.min(price)));
            }
        }
        let mut by_price: Vec<PricedRow> =
            cheapest.iter().enumerate().filter_map(|(row, price)| price.map(|p| PricedRow::new(p, row))).collect();
        by_price.sort_by(|a, b| {
            a.price.cmp(&b.price).then_with(|| self.row_name(a.row).cmp(self.row_name(b.row))).then(a.row.cmp(&b.row))
        });
        RowView { rows: by_price.iter().map(|priced| priced.row).collect(), offerings, compatible, by_price }
    }

    pub(crate) fn row_name(&self, row: RowIx) -> &Str {
        &self.types[self.rows[row].type_ix].name
    }
}

fn single(offering: &Offering, key: &str) -> Str {
    offering.requirements.get(key).and_then(single_value).unwrap_or_default()
}

/// Returns the value of a requirement that allows exactly one.
fn single_value(requirement: &Requirement) -> Option<Str> {
    match requirement.allowed_values() {
        Some([value]) => Some(value.clone()),
        Some(_) | None => None,
    }
}

/// Returns key and value of the label that holds the reservation ID. Its key ends with
/// `reservation-id`.
fn reservation_id(offering: &Offering) -> Option<(Str, Str)> {
    offering
        .requirements
        .iter()
        .find(|r| r.key().ends_with("reservation-id"))
        .and_then(|r| Some((r.key().clone(), single_value(r)?)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::instance_type::{InstanceType, Overhead};
    use super::*;
    use crate::requirement::Requirements;

    // spec 04 #37
    #[test]
    fn offerings_with_equal_overrides_share_a_row_and_an_override_replaces() {
        let reserved = |cpu: &str| Overhead {
            kube_reserved: [("cpu", cpu), ("memory", "1Gi")].try_into().unwrap(),
            ..Overhead::default()
        };
        let only_cpu =
            |cpu: &str| Arc::new(Overhead { kube_reserved: [("cpu", cpu)].try_into().unwrap(), ..Overhead::default() });
        let offering = |zone: &str, overhead_override| Offering {
            requirements: [
                Requirement::one_of(labels::ZONE, [zone.into()]),
                Requirement::one_of(labels::CAPACITY_TYPE, ["spot".into()]),
            ]
            .into_iter()
            .collect::<Requirements>()
            .into(),
            price: Price::from_nanos(1),
            capacity_override: None,
            overhead_override,
        };
        let instance_type = InstanceType {
            name: "t".into(),
            requirements: Arc::new([Requirement::one_of(labels::INSTANCE_TYPE, ["t".into()])].into_iter().collect()),
            offerings: Arc::new([
                offering("a", Some(only_cpu("3"))),
                offering("b", None),
                offering("c", Some(only_cpu("3"))),
                offering("d", None),
            ]),
            capacity: [("cpu", "8"), ("memory", "4Gi")].try_into().unwrap(),
            overhead: reserved("1"),
            volume_limits: Arc::default(),
        };
        let (mut names, mut table) = (ResourceNames::default(), RequirementTable::new([]));
        let catalogue = CompiledCatalogue::new(&InstanceTypes::from_iter([instance_type]), &mut names, &mut table);
        let rows: Vec<(String, String)> = catalogue
            .rows
            .iter()
            .map(|row| {
                let list = names.to_resource_list(&row.allocatable);
                (list.get("cpu").unwrap().to_string(), list.get("memory").unwrap().to_string())
            })
            .collect();
        let row = |cpu: &str| (cpu.to_owned(), "3Gi".to_owned());
        assert_eq!(rows, [row("7"), row("5")], "the row without overrides is first; the other row has less CPU");
        let zones = |ix: RowIx| -> Vec<&str> {
            catalogue.offerings.iter().filter(|o| o.row == ix).map(|o| o.zone.as_str()).collect()
        };
        assert_eq!((zones(0), zones(1)), (vec!["b", "d"], vec!["a", "c"]));
    }
}
