//! Metadata of all objects: names, labels, owners, times.

use std::sync::Arc;

use jiff::Timestamp;

use crate::quantity::{Quantity, QuantityError};

/// String that is stored inline if it is short; clones of long strings share their text.
pub type Str = smol_str::SmolStr;

/// String pairs sorted by key, with unique keys: labels, annotations, node selectors. Clones share
/// their pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Str, Str)]>);

impl Labels {
    /// Creates labels from pairs that are sorted by key, with unique keys.
    pub(super) fn from_sorted(pairs: Arc<[(Str, Str)]>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "labels are sorted");
        Self(pairs)
    }

    /// Returns the value of a key, or `None` if the key is absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok().map(|i| self.0[i].1.as_str())
    }

    /// Returns true if the key has exactly this value.
    pub fn has_value(&self, key: &str, value: &str) -> bool {
        self.get(key) == Some(value)
    }

    /// Returns all pairs in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, &Str)> {
        self.0.iter().map(|(k, v)| (k, v))
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(Str, Str)> for Labels {
    /// Collects pairs. If a key occurs twice, the last value counts, as in a JSON object.
    fn from_iter<I: IntoIterator<Item = (Str, Str)>>(pairs: I) -> Self {
        Self(sorted(pairs).into())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Labels {
    fn from(pairs: [(&str, &str); N]) -> Self {
        pairs.into_iter().map(|(key, value)| (Str::new(key), Str::new(value))).collect()
    }
}

/// Sorts pairs by key. If a key occurs twice, only the last pair is kept.
pub(super) fn sorted<V>(pairs: impl IntoIterator<Item = (Str, V)>) -> Vec<(Str, V)> {
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    // The API server sorts its maps, so this is usually true.
    if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.reverse();
        pairs.dedup_by(|a, b| a.0 == b.0);
        pairs.reverse();
    }
    pairs
}

/// Quantities by resource name, sorted by name, with unique names. Clones share their pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceList(Arc<[(Str, Quantity)]>);

impl ResourceList {
    /// Creates a list from pairs that are sorted by name, with unique names.
    pub(super) fn from_sorted(pairs: Arc<[(Str, Quantity)]>) -> Self {
        debug_assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "resources are sorted");
        Self(pairs)
    }

    /// Returns the quantity of a resource, or `None` if it is not listed.
    pub fn get(&self, name: &str) -> Option<Quantity> {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(name)).ok().map(|i| self.0[i].1)
    }

    /// Returns all resources in name order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Str, Quantity)> {
        self.0.iter().map(|(k, q)| (k, *q))
    }

    /// Returns the number of resources.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no resources.
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

/// Parses quantities from texts: `[("cpu", "500m"), ("memory", "1Gi")]`. Fails if a text is not a
/// quantity.
impl<const N: usize> TryFrom<[(&str, &str); N]> for ResourceList {
    type Error = QuantityError;

    fn try_from(pairs: [(&str, &str); N]) -> Result<Self, QuantityError> {
        pairs.into_iter().map(|(name, text)| Ok((Str::new(name), text.parse()?))).collect()
    }
}

/// Part of `metadata` that decisions read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Name of the object.
    pub name: Str,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// UID, which differs between an object and its re-created successor of the same name.
    pub uid: Str,
    /// All labels of the object.
    pub labels: Labels,
    /// Annotations that some decision reads; all others are dropped.
    pub annotations: Labels,
    /// Time at which the object was created.
    pub creation_timestamp: Option<Timestamp>,
    /// Time at which deletion was requested; `None` if it was not.
    pub deletion_timestamp: Option<Timestamp>,
    /// Owners of the object.
    pub owner_references: Vec<OwnerReference>,
    /// Finalizers that delay the deletion of the object.
    pub finalizers: Vec<Str>,
}

impl ObjectMeta {
    /// Returns `namespace/name`, or only the name for an object without a namespace.
    pub fn namespaced_name(&self) -> Str {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            smol_str::format_smolstr!("{}/{}", self.namespace, self.name)
        }
    }

    /// Returns true if deletion was requested.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the owner that is the managing controller, or `None` if there is none.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Returns true if an owner has this API version and kind.
    pub fn is_owned_by(&self, api_version: &str, kind: &str) -> bool {
        self.owner_references.iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
    }
}

/// Owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerReference {
    /// Group and version, for example `apps/v1`.
    pub api_version: Str,
    /// Kind, for example `ReplicaSet`.
    pub kind: Str,
    /// Name of the owner.
    pub name: Str,
    /// UID of the owner.
    pub uid: Str,
    /// True if this owner is the managing controller.
    pub controller: bool,
}
