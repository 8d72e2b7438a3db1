//! `minValues`: how many distinct values of a label the instance types of a claim must offer
//! together.

use std::collections::BTreeSet;
use std::fmt;

use kerf_api::slim::Str;

use super::set::Requirements;
use super::single::Requirement;

/// Result of [`check_min_values`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MinValues {
    /// The instance types offer enough values.
    Met {
        /// Number of types from the front of the list that are enough.
        types_needed: usize,
    },
    /// The instance types offer too few values.
    Unmet(UnmetMinValues),
}

/// The labels with too few values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetMinValues {
    /// Label keys in alphabetical order, each with the number of values that the types offer.
    pub reached: Vec<(Str, usize)>,
}

impl fmt::Display for UnmetMinValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.reached.iter().map(|(key, _)| key.as_str()).collect();
        write!(f, "minValues requirement is not met for label(s) (label(s)=[{}])", keys.join(" "))
    }
}

impl std::error::Error for UnmetMinValues {}

/// Counts, over the types in their order, the distinct values of each label with `minValues`.
///
/// An empty list of types counts as met; other checks report that no types are left. A requirement
/// that itself lists fewer values than its `minValues` is never met, because the API server rejects
/// a NodeClaim with it.
pub fn check_min_values<'a>(
    types: impl IntoIterator<Item = &'a Requirements>,
    requirements: &Requirements,
) -> MinValues {
    let mut counts: Vec<_> = requirements.iter().filter_map(MinValuesCount::for_requirement).collect();
    let mut types_seen = 0;
    for declared in types {
        if counts.iter().all(MinValuesCount::is_reached) {
            break;
        }
        types_seen += 1;
        for count in &mut counts {
            let declared = declared.get(count.key).and_then(Requirement::allowed_values);
            count.values.extend(declared.unwrap_or_default().iter().map(Str::as_str));
        }
    }
    let unmet = |count: &MinValuesCount<'_>| (!count.is_reached()).then(|| (count.key.clone(), count.reached()));
    let reached: Vec<_> = counts.iter().filter_map(unmet).collect();
    if types_seen == 0 || reached.is_empty() {
        MinValues::Met { types_needed: types_seen }
    } else {
        MinValues::Unmet(UnmetMinValues { reached })
    }
}

struct MinValuesCount<'a> {
    key: &'a Str,
    min: usize,
    /// Number of values that the requirement lists. `None` if it lists none.
    named: Option<usize>,
    values: BTreeSet<&'a str>,
}

impl<'a> MinValuesCount<'a> {
    fn for_requirement(requirement: &'a Requirement) -> Option<Self> {
        let min = requirement.min_values()? as usize;
        let named = requirement.allowed_values().map(<[Str]>::len);
        Some(Self { key: requirement.key(), min, named, values: BTreeSet::new() })
    }

    fn reached(&self) -> usize {
        self.named.map_or(self.values.len(), |named| named.min(self.values.len()))
    }

    fn is_reached(&self) -> bool {
        self.reached() >= self.min
    }
}
