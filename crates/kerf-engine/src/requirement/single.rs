//! One requirement: the values that one label may have.

use std::sync::Arc;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{NodeSelectorOperator, NodeSelectorRequirement, Str};

/// The values that a label may have: listed values, or all except the listed ones (a complement),
/// optionally within integer bounds.
///
/// Only complements have bounds; for listed values the bounds have been applied. Values are sorted
/// and distinct.
///
/// A clone is shared, because many instance types have equal requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement(Arc<RequirementFields>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RequirementFields {
    key: Str,
    complement: bool,
    values: Vec<Str>,
    gte: Option<i64>,
    lte: Option<i64>,
    min_values: Option<u32>,
    /// True for contradicting requirements: no value satisfies them, and neither does a node
    /// without the label.
    impossible: bool,
}

/// The operator that a requirement is equivalent to, without its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectiveOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values or is absent.
    NotIn,
    /// The label has any value.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// The reason why an expression is not a valid requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementError {
    /// The operator does not exist.
    UnsupportedOperator {
        /// The label key, normalised.
        key: Str,
        /// The text in place of the operator.
        operator: Str,
    },
    /// A bound is not exactly one 64-bit integer.
    NotOneInteger {
        /// The label key, normalised.
        key: Str,
        /// The operator of the bound: `Gt`, `Lt`, `Gte` or `Lte`.
        operator: &'static str,
    },
}

impl std::fmt::Display for RequirementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsupportedOperator { key, operator } => write!(
                f,
                "key {key} has an unsupported operator {operator} not in [In NotIn Exists DoesNotExist Gt Lt Gte Lte]"
            ),
            Self::NotOneInteger { key, operator } => {
                write!(f, "key {key} with operator {operator} must have a single positive integer value")
            }
        }
    }
}

impl std::error::Error for RequirementError {}

impl Requirement {
    /// Creates the requirement of an expression. Deprecated label keys are replaced by their
    /// current ones.
    ///
    /// Kerf validates pods before. So an error comes from an expression that is not validated, such
    /// as a preference.
    pub fn new(
        rules: &LabelRules,
        key: &str,
        operator: &NodeSelectorOperator,
        values: &[Str],
        min_values: Option<u32>,
    ) -> Result<Self, RequirementError> {
        let key = Str::new(rules.normalise(key));
        let bound = |operator| {
            match values {
                [value] => value.parse::<i64>().ok(),
                _ => None,
            }
            .ok_or_else(|| RequirementError::NotOneInteger { key: key.clone(), operator })
        };
        let requirement = match operator {
            NodeSelectorOperator::In => Self::from_values(key, false, values.to_vec()),
            NodeSelectorOperator::NotIn => Self::from_values(key, true, values.to_vec()),
            NodeSelectorOperator::Exists => Self::exists(key),
            NodeSelectorOperator::DoesNotExist => Self::does_not_exist(key),
            NodeSelectorOperator::Gte => Self::within_bounds(key.clone(), Some(bound("Gte")?), None),
            NodeSelectorOperator::Lte => Self::within_bounds(key.clone(), None, Some(bound("Lte")?)),
            NodeSelectorOperator::Gt => match bound("Gt")?.checked_add(1) {
                Some(gte) => Self::within_bounds(key, Some(gte), None),
                None => return Ok(Self::impossible(key)),
            },
            NodeSelectorOperator::Lt => match bound("Lt")?.checked_sub(1) {
                Some(lte) => Self::within_bounds(key, None, Some(lte)),
                None => return Ok(Self::impossible(key)),
            },
            NodeSelectorOperator::Unsupported(operator) => {
                return Err(RequirementError::UnsupportedOperator { key, operator: operator.clone() });
            }
        };
        Ok(requirement.with_min_values(min_values))
    }

    /// Creates the requirement of a node selector expression.
    pub fn from_expression(rules: &LabelRules, expression: &NodeSelectorRequirement) -> Result<Self, RequirementError> {
        Self::new(rules, &expression.key, &expression.operator, &expression.values, None)
    }

    /// Creates `key In [value]`, as a label or a node selector requires it. A deprecated key is
    /// replaced by its current one.
    pub fn from_label(rules: &LabelRules, key: &str, value: &str) -> Self {
        Self::from_values(Str::new(rules.normalise(key)), false, vec![Str::new(value)])
    }

    /// Creates `key In [values]`. The key is not normalised.
    pub fn one_of(key: impl Into<Str>, values: impl IntoIterator<Item = Str>) -> Self {
        Self::from_values(key.into(), false, values.into_iter().collect())
    }

    /// Creates `key Exists`. The key is not normalised.
    pub fn exists(key: impl Into<Str>) -> Self {
        Self::from_values(key.into(), true, Vec::new())
    }

    /// Creates `key DoesNotExist`. The key is not normalised.
    pub fn does_not_exist(key: impl Into<Str>) -> Self {
        Self::from_values(key.into(), false, Vec::new())
    }

    /// Creates a requirement that nothing satisfies, not even a node without the label. Messages
    /// show it as `DoesNotExist`, like any requirement that allows no value. The key is not
    /// normalised.
    pub fn impossible(key: impl Into<Str>) -> Self {
        Self(Arc::new(RequirementFields { impossible: true, ..RequirementFields::new(key.into(), false, Vec::new()) }))
    }

    fn from_values(key: Str, complement: bool, values: Vec<Str>) -> Self {
        Self(Arc::new(RequirementFields::new(key, complement, values)))
    }

    fn within_bounds(key: Str, gte: Option<i64>, lte: Option<i64>) -> Self {
        Self(Arc::new(RequirementFields { gte, lte, ..RequirementFields::new(key, true, Vec::new()) }))
    }

    /// Returns the label key.
    pub fn key(&self) -> &Str {
        &self.0.key
    }

    /// Returns true if [`values`](Self::values) are the excluded ones.
    pub fn is_complement(&self) -> bool {
        self.0.complement
    }

    /// Returns the allowed values, or the excluded ones of a complement, sorted.
    pub fn values(&self) -> &[Str] {
        &self.0.values
    }

    /// Returns the allowed values, or `None` for a complement.
    pub fn allowed_values(&self) -> Option<&[Str]> {
        (!self.0.complement).then_some(&self.0.values[..])
    }

    /// Returns the smallest allowed integer. `None` if there is no lower bound.
    pub fn gte(&self) -> Option<i64> {
        self.0.gte
    }

    /// Returns the largest allowed integer. `None` if there is no upper bound.
    pub fn lte(&self) -> Option<i64> {
        self.0.lte
    }

    /// Returns how many distinct values the instance types of a claim must offer (`minValues`).
    pub fn min_values(&self) -> Option<u32> {
        self.0.min_values
    }

    /// Returns the requirement with another `minValues`.
    #[must_use]
    pub fn with_min_values(mut self, min_values: Option<u32>) -> Self {
        if self.0.min_values != min_values {
            Arc::make_mut(&mut self.0).min_values = min_values;
        }
        self
    }

    /// Returns the equivalent operator. Bounds are ignored: a requirement with bounds is `Exists`
    /// or `NotIn`.
    pub fn operator(&self) -> EffectiveOperator {
        match (self.0.complement, self.0.values.is_empty()) {
            (true, true) => EffectiveOperator::Exists,
            (true, false) => EffectiveOperator::NotIn,
            (false, true) => EffectiveOperator::DoesNotExist,
            (false, false) => EffectiveOperator::In,
        }
    }

    /// Returns the number of allowed values. For a complement this is `i64::MAX` minus the excluded
    /// ones.
    pub fn value_count(&self) -> i64 {
        let named = i64::try_from(self.0.values.len()).unwrap_or(i64::MAX);
        if self.0.complement { i64::MAX - named } else { named }
    }

    /// Returns true if the label may have this value.
    pub fn has(&self, value: &str) -> bool {
        self.lists_value(value) != self.0.complement && within(value, self.0.gte, self.0.lte)
    }

    fn lists_value(&self, value: &str) -> bool {
        self.0.values.binary_search_by(|named| named.as_str().cmp(value)).is_ok()
    }

    /// Returns the requirement that both allow. The keys must be equal.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        debug_assert_eq!(self.0.key, other.0.key, "requirements of different labels cannot be intersected");
        if Arc::ptr_eq(&self.0, &other.0) {
            return self.clone();
        }
        let (gte, lte) = self.intersect_bounds(other);
        let min_values = self.0.min_values.max(other.0.min_values);
        let impossible = self.0.impossible || other.0.impossible;
        if contradict(gte, lte) {
            let fields = RequirementFields::new(self.0.key.clone(), false, Vec::new());
            return Self(Arc::new(RequirementFields { min_values, impossible, ..fields }));
        }
        let complement = self.0.complement && other.0.complement;
        let values = match (self.0.complement, other.0.complement) {
            (true, true) => merged(&self.0.values, &other.0.values),
            (true, false) => other.0.values.iter().filter(|value| !self.lists_value(value)).cloned().collect(),
            (false, true) => self.0.values.iter().filter(|value| !other.lists_value(value)).cloned().collect(),
            (false, false) => {
                self.0.values.iter().filter(|value| other.lists_value(value)).cloned().collect::<Vec<_>>()
            }
        };
        let values = values.into_iter().filter(|value| within(value, gte, lte)).collect();
        let key = self.0.key.clone();
        let (gte, lte) = if complement { (gte, lte) } else { (None, None) };
        Self(Arc::new(RequirementFields { key, complement, values, gte, lte, min_values, impossible }))
    }

    /// Returns true if some value satisfies both. Two complements always have a common value unless
    /// their bounds contradict each other or are negative. Exclusions that use up a bounded range
    /// are ignored.
    pub fn has_intersection(&self, other: &Self) -> bool {
        let (gte, lte) = self.intersect_bounds(other);
        if contradict(gte, lte) {
            return false;
        }
        let allowed_by = |side: &Self, other: &Self| {
            side.0.values.iter().any(|value| other.lists_value(value) != other.0.complement && within(value, gte, lte))
        };
        match (self.0.complement, other.0.complement) {
            (true, true) => !is_negative(lte),
            (true, false) => allowed_by(other, self),
            (false, true | false) => allowed_by(self, other),
        }
    }

    fn intersect_bounds(&self, other: &Self) -> (Option<i64>, Option<i64>) {
        let lte = match (self.0.lte, other.0.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (self.0.gte.max(other.0.gte), lte)
    }

    /// Returns an allowed value, for places that need a single one: the smallest of a finite set,
    /// otherwise the smallest natural number that is within the bounds and not excluded. Returns
    /// `None` if there is none.
    pub fn pick_value(&self) -> Option<Str> {
        if !self.0.complement {
            return self.0.values.first().cloned();
        }
        let min = self.0.gte.unwrap_or(0).max(0);
        let max = self.0.lte.unwrap_or(i64::MAX);
        // One more number than there are exclusions is enough: at least one of them is allowed.
        (min..=max)
            .take(self.0.values.len().saturating_add(1))
            .map(|number| Str::from(number.to_string()))
            .find(|number| !self.lists_value(number))
    }

    /// Returns true if the upper bound is negative. No label value satisfies such a requirement,
    /// and the API server rejects the bound, so no NodeClaim may contain it.
    pub fn is_below_zero(&self) -> bool {
        is_negative(self.0.lte)
    }

    /// Returns true if no node can satisfy the requirement, with or without the label.
    pub fn is_unsatisfiable(&self) -> bool {
        self.0.impossible || self.is_below_zero()
    }

    /// Returns true if a node without the label satisfies the requirement.
    pub fn may_be_absent(&self) -> bool {
        match self.operator() {
            EffectiveOperator::NotIn | EffectiveOperator::DoesNotExist => !self.is_unsatisfiable(),
            EffectiveOperator::In | EffectiveOperator::Exists => false,
        }
    }
}

impl RequirementFields {
    fn new(key: Str, complement: bool, mut values: Vec<Str>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { key, complement, values, gte: None, lte: None, min_values: None, impossible: false }
    }
}

/// Returns true if an upper bound allows no label value.
fn is_negative(lte: Option<i64>) -> bool {
    lte.is_some_and(|lte| lte < 0)
}

/// Returns true if the value is within the bounds. If there is a bound, only integers are.
fn within(value: &str, gte: Option<i64>, lte: Option<i64>) -> bool {
    if gte.is_none() && lte.is_none() {
        return true;
    }
    value.parse::<i64>().is_ok_and(|number| gte.is_none_or(|gte| gte <= number) && lte.is_none_or(|lte| number <= lte))
}

fn contradict(gte: Option<i64>, lte: Option<i64>) -> bool {
    matches!((gte, lte), (Some(gte), Some(lte)) if gte > lte)
}

fn merged(a: &[Str], b: &[Str]) -> Vec<Str> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}
