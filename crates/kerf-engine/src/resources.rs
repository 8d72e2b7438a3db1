//! Amounts of resources as dense vectors over interned resource names.
//!
//! Amounts are exact nano-units in `i128`, like the quantities they come from. So nothing is
//! rounded, and no sum over a cluster can overflow. CPU, memory, pods, ephemeral storage and nodes
//! have fixed positions.

use kerf_api::quantity::{Quantity, QuantityFormat};
use kerf_api::slim::{ResourceList, Str};
use smallvec::SmallVec;

/// Position of a resource name in every [`Amounts`] of one cluster model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceIx(pub(crate) usize);

impl ResourceIx {
    pub(crate) const CPU: Self = Self(0);
    pub(crate) const MEMORY: Self = Self(1);
    pub(crate) const PODS: Self = Self(2);
    pub(crate) const NODES: Self = Self(4);
}

/// Nano-units of one whole unit.
pub(crate) const NANOS_PER_UNIT: i128 = 1_000_000_000;

/// The resource names of one cluster model.
#[derive(Debug, Clone)]
pub(crate) struct ResourceNames(Vec<Str>);

impl Default for ResourceNames {
    fn default() -> Self {
        Self(["cpu", "memory", "pods", "ephemeral-storage", "nodes"].into_iter().map(Str::new_static).collect())
    }
}

impl ResourceNames {
    /// Returns the position of a name and adds the name if it is new. There are few names, so a
    /// scan is faster than a map.
    pub(crate) fn intern(&mut self, name: &str) -> ResourceIx {
        if let Some(i) = self.0.iter().position(|n| n == name) {
            return ResourceIx(i);
        }
        self.0.push(Str::new(name));
        ResourceIx(self.0.len() - 1)
    }

    pub(crate) fn name(&self, ix: ResourceIx) -> &Str {
        &self.0[ix.0]
    }

    pub(crate) fn amounts(&mut self, list: &ResourceList) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in list.iter() {
            amounts.set(self.intern(name), quantity.nanos());
        }
        amounts
    }

    /// Returns the amounts that are not zero as quantities. Memory-like resources are in binary
    /// format, all others in decimal.
    pub(crate) fn to_resource_list(&self, amounts: &Amounts) -> ResourceList {
        let format = |name: &str| match name {
            "memory" | "ephemeral-storage" => QuantityFormat::BinarySi,
            _ if name.starts_with("hugepages-") => QuantityFormat::BinarySi,
            _ => QuantityFormat::DecimalSi,
        };
        amounts
            .iter()
            .filter(|(_, n)| *n != 0)
            .map(|(ix, n)| (self.name(ix).clone(), Quantity::from_nanos(n, format(self.name(ix)))))
            .collect()
    }
}

/// An amount of each resource. A missing resource is zero.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Amounts(SmallVec<[i128; 4]>);

impl Clone for Amounts {
    /// Copies all amounts at once. The derived implementation would clone them one by one.
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Amounts {
    pub(crate) fn get(&self, ix: ResourceIx) -> i128 {
        self.0.get(ix.0).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, ix: ResourceIx, value: i128) {
        if self.0.len() <= ix.0 {
            if value == 0 {
                return;
            }
            self.0.resize(ix.0 + 1, 0);
        }
        self.0[ix.0] = value;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ResourceIx, i128)> + '_ {
        self.0.iter().enumerate().map(|(i, n)| (ResourceIx(i), *n))
    }

    pub(crate) fn as_slice(&self) -> &[i128] {
        &self.0
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, more) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*more);
        }
    }

    pub(crate) fn sub(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, less) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_sub(*less);
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    /// Sets each amount to the larger one of both.
    pub(crate) fn max_with(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (i, mine) in self.0.iter_mut().enumerate() {
            *mine = (*mine).max(other.0.get(i).copied().unwrap_or(0));
        }
    }

    /// Sets each amount to the smaller one of both.
    pub(crate) fn min_with(&mut self, other: &Self) {
        for (i, mine) in self.0.iter_mut().enumerate() {
            *mine = (*mine).min(other.0.get(i).copied().unwrap_or(0));
        }
    }

    /// Sets negative amounts to zero.
    pub(crate) fn floor_at_zero(&mut self) {
        for mine in &mut self.0 {
            *mine = (*mine).max(0);
        }
    }

    pub(crate) fn any_negative(&self) -> bool {
        self.0.iter().any(|n| *n < 0)
    }

    /// Returns true if every amount is at most that of `free`. Nothing fits if `free` is negative
    /// in any resource (spec 02 §4.3).
    pub(crate) fn fits_in(&self, free: &Self) -> bool {
        !free.any_negative() && self.0.iter().enumerate().all(|(i, need)| *need <= free.0.get(i).copied().unwrap_or(0))
    }
}
