//! Requirements on several labels at once, and whether what one side asks the other can offer.

use std::fmt;

use kerf_api::labels::LabelRules;
use kerf_api::slim::{Labels, Str};

use super::single::Requirement;

/// Requirements by label key, sorted, one for each key. A key that is not there may have any value or none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requirements(Vec<Requirement>);

/// Which keys may be asked for although the other side does not name them.
#[derive(Debug, Clone, Copy)]
pub enum UndefinedLabels<'a> {
    /// Well-known labels: instance types and offerings will give them a value.
    AllowWellKnown(&'a LabelRules),
    /// None.
    Reject,
}

/// Why what is asked cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incompatible {
    /// A label that nobody defines.
    Undefined {
        /// The label that is asked for.
        key: Str,
        /// A label that may have been meant.
        typo_of: Option<Str>,
    },
    /// Labels that both sides define without a value in common, sorted by key.
    NoCommonValue(Vec<Conflict>),
}

/// A label of which two sides have no value in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What is asked.
    pub asked: Requirement,
    /// What is offered.
    pub offered: Requirement,
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined { key, typo_of } => {
                write!(f, "label \"{key}\" does not have known values")?;
                typo_of.iter().try_for_each(|label| write!(f, " (typo of \"{label}\"?)"))
            }
            Self::NoCommonValue(conflicts) => {
                for (i, Conflict { asked, offered }) in conflicts.iter().enumerate() {
                    let separator = if i == 0 { "" } else { "; " };
                    write!(f, "{separator}key {}, {asked} not in {offered}", asked.key())?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Incompatible {}

impl Requirements {
    /// The requirements that a node with these labels meets.
    pub fn from_labels(rules: &LabelRules, labels: &Labels) -> Self {
        labels.iter().map(|(key, value)| Requirement::from_label(rules, key, value)).collect()
    }

    /// Adds a requirement; on a key that is there already, both must hold.
    pub fn add(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(i) => self.0[i] = self.0[i].intersection(&requirement),
            Err(i) => self.0.insert(i, requirement),
        }
    }

    /// Adds all requirements of another set.
    pub fn add_all(&mut self, others: &Self) {
        for requirement in others {
            self.add(requirement.clone());
        }
    }

    /// Puts a requirement in the place of what was said of its key.
    pub fn replace(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(i) => self.0[i] = requirement,
            Err(i) => self.0.insert(i, requirement),
        }
    }

    /// Takes a key out and returns what was said of it.
    pub fn remove(&mut self, key: &str) -> Option<Requirement> {
        self.position(key).ok().map(|i| self.0.remove(i))
    }

    /// What is said of a key.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.position(key).ok().map(|i| &self.0[i])
    }

    /// Whether anything is said of a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_ok()
    }

    /// All requirements in key order.
    pub fn iter(&self) -> std::slice::Iter<'_, Requirement> {
        self.0.iter()
    }

    /// How many labels are named.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|requirement| requirement.key().as_str().cmp(key))
    }

    /// Whether what is asked and what `self` offers have a value in common for every key that both name. Two sides that can both
    /// do without the label need none.
    pub fn intersects(&self, asked: &Self) -> Result<(), Incompatible> {
        let conflicts: Vec<_> = asked.iter().filter_map(|asked| self.conflict(asked)).collect();
        if conflicts.is_empty() { Ok(()) } else { Err(Incompatible::NoCommonValue(conflicts)) }
    }

    fn conflict(&self, asked: &Requirement) -> Option<Conflict> {
        let offered = self.get(asked.key())?;
        let fits = offered.has_intersection(asked) || (asked.may_be_absent() && offered.may_be_absent());
        (!fits).then(|| Conflict { asked: asked.clone(), offered: offered.clone() })
    }

    /// Whether `self`, what a node or pool offers, can give what is asked. A label that `self` does not name can be asked for only
    /// if `undefined` allows it, or if its absence will do.
    pub fn compatible(&self, asked: &Self, undefined: UndefinedLabels<'_>) -> Result<(), Incompatible> {
        let unknown = asked
            .iter()
            .find(|asked| !undefined.allows(asked.key()) && !self.contains_key(asked.key()) && !asked.may_be_absent());
        if let Some(unknown) = unknown {
            let key = unknown.key().clone();
            return Err(Incompatible::Undefined { typo_of: self.likely_intended_label(&key, undefined), key });
        }
        self.intersects(asked)
    }

    /// The known label that somebody who asked for `key` may have meant.
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

/// Of the labels that contain the key or end like it, the one whose name is the same, else the first in the alphabet.
fn closest<'a>(key: &str, labels: impl Iterator<Item = &'a str>) -> Option<Str> {
    let name = name_of(key);
    labels
        .filter(|label| label.contains(key) || label.ends_with(name))
        .min_by_key(|label| (name_of(label) != name, *label))
        .map(Str::new)
}

/// The part of a label key after its domain.
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
