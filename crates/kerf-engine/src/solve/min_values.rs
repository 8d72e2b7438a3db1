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
    columns: &CompiledCatalogue,
    rows: &Bits,
    set: RequirementSetIx,
    offerings: Option<&Bits>,
    table: &RequirementTable,
) -> Vec<MinValuesShortfall> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut failing = Vec::new();
    for (key, one) in table.pairs(set) {
        let Some(min) = table.requirement(*one).min_values() else { continue };
        let mut values: Vec<&Str> = Vec::new();
        for row in rows.iter() {
            let declared =
                table.get(columns.types[columns.rows[row].type_ix].requirements, *key).map(|o| table.requirement(o));
            if let Some(requirement) = declared.filter(|r| r.operator() == EffectiveOperator::In) {
                values.extend(requirement.values());
            }
        }
        values.sort_unstable();
        values.dedup();
        let named = named_value_count(columns, rows, table.requirement(*one), offerings);
        let have = named.map_or(values.len(), |named| named.min(values.len())) as u32;
        if have < min {
            failing.push(MinValuesShortfall { key: table.key_text(*key).clone(), available: have });
        }
    }
    failing
}

/// Returns the number of values that a claim would list for the key. `None` if it would list none.
fn named_value_count(
    columns: &CompiledCatalogue,
    rows: &Bits,
    requirement: &Requirement,
    offerings: Option<&Bits>,
) -> Option<usize> {
    if requirement.key() != labels::CAPACITY_TYPE {
        return requirement.allowed_values().map(<[Str]>::len);
    }
    let of_rows = offerings?.iter().map(|o| &columns.offerings[o]).filter(|o| rows.contains(o.row));
    let mut capacity_types: Vec<&Str> = of_rows.map(|o| &o.capacity_type).collect();
    capacity_types.sort_unstable();
    capacity_types.dedup();
    Some(capacity_types.len())
}

/// Returns the set with the `minValues` of each failing key lowered to the available number, or
/// dropped if that is zero (spec 02 Q9).
pub(crate) fn lower_to_available(
    set: RequirementSetIx,
    failing: &[MinValuesShortfall],
    table: &mut RequirementTable,
) -> RequirementSetIx {
    failing.iter().fold(set, |set, short| {
        let lowered = table.known_key(&short.key).and_then(|key| table.get(set, key)).map(|one| {
            table.requirement(one).clone().with_min_values((short.available > 0).then_some(short.available))
        });
        lowered.map_or(set, |requirement| table.replace(set, requirement))
    })
}
