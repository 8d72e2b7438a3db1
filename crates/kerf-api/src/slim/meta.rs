//! What every object has: names, labels, owners, times.

use std::sync::Arc;

use jiff::Timestamp;

use crate::quantity::{Quantity, QuantityError};

/// A short string: names and label values mostly fit in place, long ones are shared.
pub type Str = smol_str::SmolStr;

/// String pairs sorted by key, each key once: labels, annotations, node selectors. Clones share their pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Str, Str)]>);

impl Labels {
    /// Pairs that are sorted by key, each key once.
    pub(super) fn from_sorted(pairs: Arc<[(Str, Str)]>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "labels are sorted");
        Self(pairs)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok().map(|i| self.0[i].1.as_str())
    }

    /// Whether the key is there with exactly this value.
    pub fn has_value(&self, key: &str, value: &str) -> bool {
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
        Self(sorted(pairs).into())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Labels {
    fn from(pairs: [(&str, &str); N]) -> Self {
        pairs.into_iter().map(|(key, value)| (Str::new(key), Str::new(value))).collect()
    }
}

/// Sorts pairs by key; of a key that comes twice the last one counts.
pub(super) fn sorted<V>(pairs: impl IntoIterator<Item = (Str, V)>) -> Vec<(Str, V)> {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    // The API server writes its maps in order.
    if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
    }
    pairs
}

/// Quantities by resource name, sorted by name, each name once. Clones share their pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(Arc<[(Str, Quantity)]>);

impl ResourceList {
    /// Pairs that are sorted by name, each name once.
    pub(super) fn from_sorted(pairs: Arc<[(Str, Quantity)]>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "resources are sorted");
        Self(pairs)
    }

    /// The quantity of a resource, if it is named.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(name)).ok().map(|i| self.0[i].1)
    }

    /// All resources in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, Quantity)> {
        self.0.iter().map(|(k, q)| (k, *q))
    }

    /// How many resources are named.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no resource is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Str, Quantity)> for ResourceList {
    fn from_iter<I: IntoIterator<Item = (Str, Quantity)>>(pairs: I) -> Self {
        Self(sorted(pairs).into())
    }
}

impl<const N: usize> From<[(&str, Quantity); N]> for ResourceList {
    fn from(pairs: [(&str, Quantity); N]) -> Self {
        pairs.into_iter().map(|(name, quantity)| (Str::new(name), quantity)).collect()
    }
}

/// Quantities as they are written: `[("cpu", "500m"), ("memory", "1Gi")]`. A text that is no quantity is an error.
impl<const N: usize> TryFrom<[(&str, &str); N]> for ResourceList {
    type Error = QuantityError;

    fn try_from(pairs: [(&str, &str); N]) -> Result<Self, QuantityError> {
        pairs.into_iter().map(|(name, text)| Ok((Str::new(name), text.parse()?))).collect()
    }
}

/// The part of `metadata` that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Who wants to finish something before the object may go.
    pub finalizers: Vec<Str>,
}

impl ObjectMeta {
    /// `namespace/name`, or the name alone for an object without a namespace.
    pub fn namespaced_name(&self) -> Str {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            smol_str::format_smolstr!("{}/{}", self.namespace, self.name)
        }
    }

    /// Whether the object has been told to go.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that manages the object.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether some owner is of this version and kind.
    pub fn is_owned_by(&self, api_version: &str, kind: &str) -> bool {
        self.owner_references.iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
    }
}

/// One owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
