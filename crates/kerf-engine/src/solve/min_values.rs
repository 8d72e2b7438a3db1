//! Checks `minValues`: how many distinct values of a label the remaining instance types offer (spec
//! 02 §3.9), and how many a claim could list. The API server rejects a claim that lists fewer
//! values than its `minValues` (spec 02 Q18).

use kerf_api::labels;
use kerf_api::slim::Str;

use crate::bits::Bits;
use crate::catalogue::CompiledCatalogue;
use crate::requirement::{EffectiveOperator, Requirement};
use crate::requirement_table::{RequirementSetIx, RequirementTable};

/// A key whose `minValues` is not met, with the number of values that are available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MinValuesShortfall {
    pub(crate) key: Str,
    pub(crate) available: u32,
}

/// Returns the keys of `set` whose `minValues` the types of these rows do not meet. Empty if there
/// are no rows, which is another error.
///
/// `offerings` are those that the claim may use; the claim will list their capacity types. Without
/// them, the number of listed capacity types is not checked.
pub(crate) fn shortfalls(
    catalogue: &CompiledCatalogue,
    rows: &Bits,
    requirements: RequirementSetIx,
    offerings: Option<&Bits>,
    table: &RequirementTable,
) -> Vec<MinValuesShortfall> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut failing = Vec::new();
    for (key, requirement_ix) in table.pairs(requirements) {
        let Some(min) = table.requirement(*requirement_ix).min_values() else { continue };
        let mut values: Vec<&Str> = Vec::new();
        for row in rows.iter() {
            let declared = table
                .get(catalogue.types[catalogue.rows[row].type_ix].requirements, *key)
                .map(|o| table.requirement(o));
            if let Some(requirement) = declared.filter(|r| r.operator() == EffectiveOperator::In) {
                values.extend(requirement.values());
            }
        }
        values.sort_unstable();
        values.dedup();
        let listed = named_value_count(catalogue, rows, table.requirement(*requirement_ix), offerings);
        let available = listed.map_or(values.len(), |listed| listed.min(values.len())) as u32;
        if available < min {
            failing.push(MinValuesShortfall { key: table.key_text(*key).clone(), available });
        }
    }
    failing
}

/// Returns the number of values that a claim would list for the key. `None` if it would list none.
fn named_value_count(
    catalogue: &CompiledCatalogue,
    rows: &Bits,
    requirement: &Requirement,
    offerings: Option<&Bits>,
) -> Option<usize> {
    if requirement.key() != labels::CAPACITY_TYPE {
        return requirement.allowed_values().map(<[Str]>::len);
    }
    let offerings = offerings?.iter().map(|o| &catalogue.offerings[o]);
    let listed = offerings.filter(|o| o.is_launchable && rows.contains(o.row));
    let mut capacity_types: Vec<&Str> = listed.map(|o| &o.capacity_type).collect();
    capacity_types.sort_unstable();
    capacity_types.dedup();
    Some(capacity_types.len())
}

/// Returns the set with the `minValues` of each failing key lowered to the available number, or
/// dropped if that is zero (spec 02 Q9).
pub(crate) fn lower_to_available(
    requirements: RequirementSetIx,
    failing: &[MinValuesShortfall],
    table: &mut RequirementTable,
) -> RequirementSetIx {
    failing.iter().fold(requirements, |requirements, shortfall| {
        let lowered =
            table.known_key(&shortfall.key).and_then(|key| table.get(requirements, key)).map(|requirement_ix| {
                table
                    .requirement(requirement_ix)
                    .clone()
                    .with_min_values((shortfall.available > 0).then_some(shortfall.available))
            });
        lowered.map_or(requirements, |requirement| table.replace(requirements, requirement))
    })
}
