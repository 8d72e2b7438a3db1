//! What every object has: names, labels, owners, times.

use jiff::Timestamp;
use serde::Deserialize;

use crate::quantity::Quantity;

/// A short string: names and label values mostly fit in place, long ones are shared.
pub type Str = smol_str::SmolStr;

/// String pairs sorted by key, each key once: labels, annotations, node selectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[(Str, Str)]>);

impl Labels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok().map(|i| self.0[i].1.as_str())
    }

    /// Whether the key is there with exactly this value.
    pub fn is(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value)
    }

    /// All pairs in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Str)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Str, Str)> for Labels {
    /// Of a key that comes twice the last value counts, as in a JSON object.
    fn from_iter<I: IntoIterator<Item = (Str, Str)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
        Self(pairs.into_boxed_slice())
    }
}

/// Quantities by resource name, sorted by name, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(Box<[(Str, Quantity)]>);

impl ResourceList {
    /// The quantity of a resource, if it is named.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(name)).ok().map(|i| self.0[i].1)
    }

    /// All resources in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, Quantity)> {
        self.0.iter().map(|(k, q)| (k, *q))
    }

    /// Whether no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Str, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (Str, Quantity)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
        Self(pairs.into_boxed_slice())
    }
}

/// The part of `metadata` that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The object's name.
    pub name: Str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// The identity that a re-created object of the same name does not share.
    pub uid: Str,
    /// Labels.
    pub labels: Labels,
    /// Annotations; only those that some decision reads are kept.
    pub annotations: Labels,
    /// When the object was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Set once the object is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// Who owns the object.
    pub owner_references: Vec<OwnerReference>,
}

/// One owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version, for example `apps/v1`.
    pub api_version: Str,
    /// Kind, for example `ReplicaSet`.
    pub kind: Str,
    /// Name of the owner.
    pub name: Str,
    /// Uid of the owner.
    pub uid: Str,
    /// Whether this owner is the managing controller.
    pub controller: bool,
}
