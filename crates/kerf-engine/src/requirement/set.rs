//! A set of requirements, one per label key, and the check whether the requirements that a node or
//! pool offers can satisfy those of a pod (spec 02 §3.4).
//!
//! One side *offers*: the labels of a node, or the requirements of a pool, claim or instance type.
//! The other side *requires*, for example a pod. A side *defines* a label if its set has an entry
//! for it.

use std::fmt;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{Labels, Str};

use super::single::Requirement;

/// Requirements sorted by label key, one per key. A label without an entry may have any value or be
/// absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requirements(Vec<Requirement>);

/// The labels that may be required although the offering side does not define them.
#[derive(Debug, Clone, Copy)]
pub enum UndefinedLabels<'a> {
    /// Well-known labels: instance types and offerings will set a value.
    AllowWellKnown(&'a LabelRules),
    /// No label: the offering side must define every required label.
    Reject,
}

/// The reason why offered requirements cannot satisfy required ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incompatible {
    /// The offering side does not define a required label.
    Undefined {
        /// The required label.
        key: Str,
        /// The label that was probably intended. `None` if no known label is similar.
        intended: Option<Str>,
    },
    /// Labels that both sides define and for which they have no common value, sorted by key.
    NoCommonValue(Vec<Conflict>),
}

/// A label for which the two sides have no common value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The requirement of the requiring side.
    pub required: Requirement,
    /// The requirement of the offering side.
    pub offered: Requirement,
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Karpenter's texts.
        match self {
            Self::Undefined { key, intended } => {
                write!(f, "label \"{key}\" does not have known values")?;
                intended.iter().try_for_each(|label| write!(f, " (typo of \"{label}\"?)"))
            }
            Self::NoCommonValue(conflicts) => {
                for (i, Conflict { required, offered }) in conflicts.iter().enumerate() {
                    let separator = if i == 0 { "" } else { "; " };
                    write!(f, "{separator}key {}, {required} not in {offered}", required.key())?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Incompatible {}

impl Requirements {
    /// Returns one requirement `key In [value]` per label.
    pub fn from_labels(rules: &LabelRules, labels: &Labels) -> Self {
        labels.iter().map(|(key, value)| Requirement::from_label(rules, key, value)).collect()
    }

    /// Adds a requirement. If the key has one already, the entry becomes the intersection of both.
    pub fn add(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(i) => self.0[i] = self.0[i].intersection(&requirement),
            Err(i) => self.0.insert(i, requirement),
        }
    }

    /// Adds all requirements of another set, as [`add`](Self::add) does.
    pub fn add_all(&mut self, others: &Self) {
        for requirement in others {
            self.add(requirement.clone());
        }
    }

    /// Sets the requirement on a key, whatever it was before.
    pub fn replace(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(i) => self.0[i] = requirement,
            Err(i) => self.0.insert(i, requirement),
        }
    }

    /// Removes the requirement on a key and returns it.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.position(key).ok().map(|i| self.0.remove(i))
    }

    /// Returns the requirement on a key.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.position(key).ok().map(|i| &self.0[i])
    }

    /// Returns true if there is a requirement on the key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_ok()
    }

    /// Returns all requirements, sorted by key.
    pub fn iter(&self) -> std::slice::Iter<'_, Requirement> {
        self.0.iter()
    }

    /// Returns the number of labels with a requirement.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|requirement| requirement.key().as_str().cmp(key))
    }

    /// Checks that `required` and `self` have a common value for every key that both define. Two
    /// requirements that both allow the label to be absent need no common value. Named as in
    /// Karpenter; the error lists the conflicts.
    pub fn intersects(&self, required: &Self) -> Result<(), Incompatible> {
        let conflicts: Vec<_> = required.iter().filter_map(|required| self.conflict(required)).collect();
        if conflicts.is_empty() { Ok(()) } else { Err(Incompatible::NoCommonValue(conflicts)) }
    }

    fn conflict(&self, required: &Requirement) -> Option<Conflict> {
        let offered = self.get(required.key())?;
        let fits = offered.has_intersection(required) || (required.may_be_absent() && offered.may_be_absent());
        (!fits).then(|| Conflict { required: required.clone(), offered: offered.clone() })
    }

    /// Checks that `self`, which a node or pool offers, can satisfy `required`. A label that `self`
    /// does not define may be required only if `undefined` allows it or if its requirement also
    /// accepts nodes without the label. Named as in Karpenter.
    pub fn compatible(&self, required: &Self, undefined: UndefinedLabels<'_>) -> Result<(), Incompatible> {
        let unknown = required.iter().find(|required| {
            !undefined.allows(required.key()) && !self.contains_key(required.key()) && !required.may_be_absent()
        });
        if let Some(unknown) = unknown {
            let key = unknown.key().clone();
            return Err(Incompatible::Undefined { intended: self.likely_intended_label(&key, undefined), key });
        }
        self.intersects(required)
    }

    /// Returns the known label that was probably intended by `key`.
    fn likely_intended_label(&self, key: &str, undefined: UndefinedLabels<'_>) -> Option<Str> {
        let well_known = match undefined {
            UndefinedLabels::AllowWellKnown(rules) => closest(key, rules.well_known()),
            UndefinedLabels::Reject => None,
        };
        well_known.or_else(|| closest(key, self.iter().map(|requirement| requirement.key().as_str())))
    }
}

impl UndefinedLabels<'_> {
    fn allows(self, key: &str) -> bool {
        match self {
            Self::AllowWellKnown(rules) => rules.is_well_known(key),
            Self::Reject => false,
        }
    }
}

/// Returns the label that is most similar to `key`. Labels that contain the key, or that end with
/// the key's name, are similar. Labels with the key's name come first, then the alphabetical order
/// decides.
fn closest<'a>(key: &str, labels: impl Iterator<Item = &'a str>) -> Option<Str> {
    let name = name_of(key);
    labels
        .filter(|label| label.contains(key) || label.ends_with(name))
        .min_by_key(|label| (name_of(label) != name, *label))
        .map(Str::new)
}

/// Returns the part of a label key after its domain.
fn name_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut set = Self::default();
        set.extend(requirements);
        set
    }
}

impl Extend<Requirement> for Requirements {
    fn extend<I: IntoIterator<Item = Requirement>>(&mut self, requirements: I) {
        for requirement in requirements {
            self.add(requirement);
        }
    }
}

impl<'a> IntoIterator for &'a Requirements {
    type Item = &'a Requirement;
    type IntoIter = std::slice::Iter<'a, Requirement>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
