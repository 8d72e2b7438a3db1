//! How many distinct values of a label the remaining types still offer (spec 02 §3.9).

use kerf_api::slim::Str;

use crate::bits::Bits;
use crate::catalogue::Columns;
use crate::narrow::{Narrowing, SetIx};
use crate::requirement::EffectiveOperator;

/// A key whose `minValues` is not reached, with the number of values that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) key: Str,
    pub(crate) have: u32,
}

/// The keys of `set` that the types of these rows leave short. No rows at all is not for this rule to report.
pub(crate) fn short(columns: &Columns, rows: &Bits, set: SetIx, table: &Narrowing) -> Vec<Short> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut failing = Vec::new();
    for (key, one) in table.pairs(set) {
        let Some(min) = table.requirement(*one).min_values() else { continue };
        let mut values: Vec<&Str> = Vec::new();
        for row in rows.iter() {
            let declared = table.get(columns.types[columns.rows[row].type_ix].set, *key).map(|o| table.requirement(o));
            if let Some(requirement) = declared.filter(|r| r.operator() == EffectiveOperator::In) {
                values.extend(requirement.values());
            }
        }
        values.sort_unstable();
        values.dedup();
        let have = values.len() as u32;
        if have < min {
            failing.push(Short { key: table.key_text(*key).clone(), have });
        }
    }
    failing
}

/// The set with each failing key's `minValues` lowered to what there is, or dropped when there is nothing (spec 02 Q9).
pub(crate) fn lower(set: SetIx, failing: &[Short], table: &mut Narrowing) -> SetIx {
    failing.iter().fold(set, |set, short| {
        let lowered = table
            .known_key(&short.key)
            .and_then(|key| table.get(set, key))
            .map(|one| table.requirement(one).clone().with_min_values((short.have > 0).then_some(short.have)));
        lowered.map_or(set, |requirement| table.replace(set, requirement))
    })
}
