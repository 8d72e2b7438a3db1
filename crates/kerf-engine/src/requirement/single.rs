//! One requirement: the values that one label may have.

use kerf_api::labels::LabelRules;
use kerf_api::slim::{NodeSelectorOperator, NodeSelectorRequirement, Str};

/// The values that a label may have: some, or all but some, and within bounds if there are any.
///
/// A value set without complement never has bounds: they have been applied to its values. Values are sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Str,
    complement: bool,
    values: Vec<Str>,
    gte: Option<i64>,
    lte: Option<i64>,
    min_values: Option<u32>,
    /// Demands that contradict each other: no value will do, and neither will a node without the label.
    impossible: bool,
}

/// What a requirement amounts to, bounds aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectiveOperator {
    /// One of the values.
    In,
    /// Any but the values.
    NotIn,
    /// Any value.
    Exists,
    /// No value.
    DoesNotExist,
}

/// An expression that has no meaning as a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequirementError {
    /// No such operator.
    UnsupportedOperator {
        /// The label key, normalised.
        key: Str,
        /// What stood in the operator's place.
        operator: Str,
    },
    /// A bound that is not exactly one 64-bit integer.
    NotOneInteger {
        /// The label key, normalised.
        key: Str,
        /// The operator.
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
    /// The requirement that an expression states, under today's spelling of its key. Pods are checked before they get here, so
    /// an error means an expression that nobody checks, such as a preference.
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
        let mut requirement = match operator {
            NodeSelectorOperator::In => Self::from_values(key, false, values.to_vec()),
            NodeSelectorOperator::NotIn => Self::from_values(key, true, values.to_vec()),
            NodeSelectorOperator::Exists => Self::exists(key),
            NodeSelectorOperator::DoesNotExist => Self::does_not_exist(key),
            NodeSelectorOperator::Gte => Self { gte: Some(bound("Gte")?), ..Self::exists(key.clone()) },
            NodeSelectorOperator::Lte => Self { lte: Some(bound("Lte")?), ..Self::exists(key.clone()) },
            NodeSelectorOperator::Gt => match bound("Gt")?.checked_add(1) {
                Some(gte) => Self { gte: Some(gte), ..Self::exists(key) },
                None => return Ok(Self::impossible(key)),
            },
            NodeSelectorOperator::Lt => match bound("Lt")?.checked_sub(1) {
                Some(lte) => Self { lte: Some(lte), ..Self::exists(key) },
                None => return Ok(Self::impossible(key)),
            },
            NodeSelectorOperator::Unsupported(operator) => {
                return Err(RequirementError::UnsupportedOperator { key, operator: operator.clone() });
            }
        };
        requirement.min_values = min_values;
        Ok(requirement)
    }

    /// The requirement of a node selector's expression.
    pub fn from_expression(rules: &LabelRules, expression: &NodeSelectorRequirement) -> Result<Self, RequirementError> {
        Self::new(rules, &expression.key, &expression.operator, &expression.values, None)
    }

    /// `key In [value]`, under today's spelling of the key: what a label or a node selector says.
    pub fn from_label(rules: &LabelRules, key: &str, value: &str) -> Self {
        Self::from_values(Str::new(rules.normalise(key)), false, vec![Str::new(value)])
    }

    /// `key In [values]`; the key is taken as it is.
    pub fn one_of(key: impl Into<Str>, values: impl IntoIterator<Item = Str>) -> Self {
        Self::from_values(key.into(), false, values.into_iter().collect())
    }

    /// `key Exists`; the key is taken as it is.
    pub fn exists(key: impl Into<Str>) -> Self {
        Self::from_values(key.into(), true, Vec::new())
    }

    /// `key DoesNotExist`; the key is taken as it is.
    pub fn does_not_exist(key: impl Into<Str>) -> Self {
        Self::from_values(key.into(), false, Vec::new())
    }

    /// What nothing can satisfy; the key is taken as it is. People read `DoesNotExist`, as of any demand that leaves no value, but a
    /// node without the label will not do.
    pub fn impossible(key: impl Into<Str>) -> Self {
        Self { impossible: true, ..Self::does_not_exist(key) }
    }

    fn from_values(key: Str, complement: bool, mut values: Vec<Str>) -> Self {
        values.sort_unstable();
        values.dedup();
        Self { key, complement, values, gte: None, lte: None, min_values: None, impossible: false }
    }

    /// The label key.
    pub fn key(&self) -> &Str {
        &self.key
    }

    /// Whether [`values`](Self::values) are the ones left out.
    pub fn is_complement(&self) -> bool {
        self.complement
    }

    /// Allowed values, or the excluded ones of a complement, sorted.
    pub fn values(&self) -> &[Str] {
        &self.values
    }

    /// The allowed values, if they are a finite set.
    pub fn allowed_values(&self) -> Option<&[Str]> {
        (!self.complement).then_some(&self.values[..])
    }

    /// The least integer that is allowed.
    pub fn gte(&self) -> Option<i64> {
        self.gte
    }

    /// The greatest integer that is allowed.
    pub fn lte(&self) -> Option<i64> {
        self.lte
    }

    /// How many values the instance types that are sent to the provider must offer.
    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    /// The same requirement with another least number of values.
    #[must_use]
    pub fn with_min_values(self, min_values: Option<u32>) -> Self {
        Self { min_values, ..self }
    }

    /// What the requirement amounts to. Bounds do not show here: a bounded one counts as `Exists` or `NotIn`.
    pub fn operator(&self) -> EffectiveOperator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => EffectiveOperator::Exists,
            (true, false) => EffectiveOperator::NotIn,
            (false, true) => EffectiveOperator::DoesNotExist,
            (false, false) => EffectiveOperator::In,
        }
    }

    /// How many values are allowed; of a complement, the largest integer less the excluded ones.
    pub fn value_count(&self) -> i64 {
        let named = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        if self.complement { i64::MAX - named } else { named }
    }

    /// Whether the label may have this value.
    pub fn has(&self, value: &str) -> bool {
        self.lists_value(value) != self.complement && within(value, self.gte, self.lte)
    }

    fn lists_value(&self, value: &str) -> bool {
        self.values.binary_search_by(|named| named.as_str().cmp(value)).is_ok()
    }

    /// What both allow. The keys must be the same.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        debug_assert_eq!(self.key, other.key, "requirements of different labels have nothing in common");
        let (gte, lte) = self.intersect_bounds(other);
        let min_values = self.min_values.max(other.min_values);
        let impossible = self.impossible || other.impossible;
        if contradict(gte, lte) {
            return Self { min_values, impossible, ..Self::does_not_exist(self.key.clone()) };
        }
        let complement = self.complement && other.complement;
        let values = match (self.complement, other.complement) {
            (true, true) => merged(&self.values, &other.values),
            (true, false) => other.values.iter().filter(|value| !self.lists_value(value)).cloned().collect(),
            (false, true) => self.values.iter().filter(|value| !other.lists_value(value)).cloned().collect(),
            (false, false) => self.values.iter().filter(|value| other.lists_value(value)).cloned().collect::<Vec<_>>(),
        };
        let values = values.into_iter().filter(|value| within(value, gte, lte)).collect();
        let bounds = if complement { (gte, lte) } else { (None, None) };
        Self { key: self.key.clone(), complement, values, gte: bounds.0, lte: bounds.1, min_values, impossible }
    }

    /// Whether some value is allowed by both. Two complements always have one in common unless their bounds contradict each
    /// other or lie below zero, even where the exclusions happen to use up a bounded range.
    pub fn has_intersection(&self, other: &Self) -> bool {
        let (gte, lte) = self.intersect_bounds(other);
        if contradict(gte, lte) {
            return false;
        }
        let allowed_by = |side: &Self, other: &Self| {
            side.values.iter().any(|value| other.lists_value(value) != other.complement && within(value, gte, lte))
        };
        match (self.complement, other.complement) {
            (true, true) => !is_negative(lte),
            (true, false) => allowed_by(other, self),
            (false, true | false) => allowed_by(self, other),
        }
    }

    fn intersect_bounds(&self, other: &Self) -> (Option<i64>, Option<i64>) {
        let lte = match (self.lte, other.lte) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        (self.gte.max(other.gte), lte)
    }

    /// A value that the label may have, for where one must be written down: the smallest of a finite set; of others the
    /// smallest natural number that is within bounds and not excluded.
    pub fn pick_value(&self) -> Option<Str> {
        if !self.complement {
            return self.values.first().cloned();
        }
        let least = self.gte.unwrap_or(0).max(0);
        let most = self.lte.unwrap_or(i64::MAX);
        // Of one more number than there are exclusions, one at least is free.
        (least..=most)
            .take(self.values.len().saturating_add(1))
            .map(|number| Str::from(number.to_string()))
            .find(|number| !self.lists_value(number))
    }

    /// Whether no label value can ever satisfy the requirement although it has bounds: label values are never negative, and the
    /// API refuses to store such a bound, so no NodeClaim may be made of it.
    pub fn is_below_zero(&self) -> bool {
        is_negative(self.lte)
    }

    /// Whether no node can satisfy the requirement, be it with the label or without.
    pub fn is_unsatisfiable(&self) -> bool {
        self.impossible || self.is_below_zero()
    }

    /// Whether a node without the label will do.
    pub fn may_be_absent(&self) -> bool {
        match self.operator() {
            EffectiveOperator::NotIn | EffectiveOperator::DoesNotExist => !self.is_unsatisfiable(),
            EffectiveOperator::In | EffectiveOperator::Exists => false,
        }
    }
}

/// Whether an upper bound leaves no label value.
fn is_negative(lte: Option<i64>) -> bool {
    lte.is_some_and(|lte| lte < 0)
}

/// Whether the value is within the bounds. With any bound, what is no integer is outside.
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
