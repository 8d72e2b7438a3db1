//! Requirements as text for messages, and as entries of a NodeClaim.

use std::fmt;

use kerf_api::labels;
use kerf_api::slim::{NodeSelectorOperator, Str};

use super::set::Requirements;
use super::single::{EffectiveOperator, Requirement};

/// Maximum number of values in a message; further ones are counted.
const MAX_LISTED_VALUES: usize = 5;

/// One entry of a NodeClaim's `spec.requirements`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SelectorEntry {
    /// Label key.
    pub key: Str,
    /// The operator; never `Gt` or `Lt`, which are stored as `Gte` and `Lte`.
    pub operator: NodeSelectorOperator,
    /// Values, sorted.
    pub values: Vec<Str>,
    /// `minValues` of the key, repeated on each of its entries.
    pub min_values: Option<u32>,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        match self.operator() {
            EffectiveOperator::Exists => write!(f, "{key} Exists")?,
            EffectiveOperator::DoesNotExist => write!(f, "{key} DoesNotExist")?,
            EffectiveOperator::In => write!(f, "{key} In [{}]", ValueList(self.values()))?,
            EffectiveOperator::NotIn => write!(f, "{key} NotIn [{}]", ValueList(self.values()))?,
        }
        self.gte().iter().try_for_each(|gte| write!(f, " >={gte}"))?;
        self.lte().iter().try_for_each(|lte| write!(f, " <={lte}"))?;
        self.min_values().iter().try_for_each(|min| write!(f, " minValues {min}"))
    }
}

struct ValueList<'a>(&'a [Str]);

impl fmt::Display for ValueList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, value) in self.0.iter().take(MAX_LISTED_VALUES).enumerate() {
            write!(f, "{}{value}", if i == 0 { "" } else { " " })?;
        }
        match self.0.len().saturating_sub(MAX_LISTED_VALUES) {
            0 => Ok(()),
            others => write!(f, " and {others} others"),
        }
    }
}

/// All requirements except the hostname, which is internal to Kerf.
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().filter(|requirement| requirement.key() != labels::HOSTNAME);
        let mut texts: Vec<_> = shown.map(Requirement::to_string).collect();
        texts.sort_unstable();
        f.write_str(&texts.join(", "))
    }
}

impl Requirement {
    /// Returns the entries that a NodeClaim stores for this requirement, sorted by operator. A
    /// reader has to intersect them.
    pub fn to_entries(&self) -> Vec<SelectorEntry> {
        let entry = |operator, values| SelectorEntry {
            key: self.key().clone(),
            operator,
            values,
            min_values: self.min_values(),
        };
        let number = |bound: i64| vec![Str::from(bound.to_string())];
        let mut entries = Vec::new();
        // Label values are never negative, and the API server rejects a negative bound.
        entries.extend(self.gte().map(|gte| entry(NodeSelectorOperator::Gte, number(gte.max(0)))));
        entries.extend(self.lte().map(|lte| entry(NodeSelectorOperator::Lte, number(lte))));
        let is_bounded = !entries.is_empty();
        match self.operator() {
            EffectiveOperator::In => entries.push(entry(NodeSelectorOperator::In, self.values().to_vec())),
            EffectiveOperator::NotIn => entries.push(entry(NodeSelectorOperator::NotIn, self.values().to_vec())),
            EffectiveOperator::Exists if is_bounded => {}
            EffectiveOperator::Exists => entries.push(entry(NodeSelectorOperator::Exists, Vec::new())),
            EffectiveOperator::DoesNotExist => entries.push(entry(NodeSelectorOperator::DoesNotExist, Vec::new())),
        }
        entries
    }
}

impl Requirements {
    /// Returns the entries of a NodeClaim's `spec.requirements`, sorted by key and operator.
    pub fn to_entries(&self) -> Vec<SelectorEntry> {
        self.iter().flat_map(Requirement::to_entries).collect()
    }
}
