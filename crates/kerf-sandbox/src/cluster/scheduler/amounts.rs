//! Amounts of resources as integers: milli-CPUs, bytes, or counts. Resource names are replaced by
//! small indices. Requests are rounded up once per pod and capacities once per node, as in
//! kube-scheduler.

use std::collections::BTreeMap;

use kerf_referee::resources::Resources;
use smol_str::SmolStr;

/// Index of a resource name in [`ResourceNames`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResourceIx(u16);

pub(super) const CPU: ResourceIx = ResourceIx(0);
pub(super) const MEMORY: ResourceIx = ResourceIx(1);
pub(super) const PODS: ResourceIx = ResourceIx(3);

/// Resources that every cluster has, at the indices above. Ephemeral storage stands between memory
/// and pods because kube-scheduler lists insufficient resources in this order.
const WELL_KNOWN_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// All resource names seen so far, with their indices.
#[derive(Debug)]
pub(super) struct ResourceNames {
    indices: BTreeMap<SmolStr, ResourceIx>,
    names: Vec<SmolStr>,
}

impl ResourceNames {
    pub(super) fn new() -> Self {
        let mut names = Self { indices: BTreeMap::new(), names: Vec::new() };
        for name in WELL_KNOWN_RESOURCES {
            names.ensure_index(name);
        }
        names
    }

    fn ensure_index(&mut self, name: &str) -> ResourceIx {
        if let Some(index) = self.indices.get(name) {
            return *index;
        }
        // There are never 65,536 different resource names.
        let index = ResourceIx(self.names.len() as u16);
        self.names.push(name.into());
        self.indices.insert(name.into(), index);
        index
    }

    pub(super) fn name(&self, resource: ResourceIx) -> &str {
        self.names.get(resource.0 as usize).map_or("", SmolStr::as_str)
    }

    /// Returns the amounts of `resources`, in the units of this module.
    pub(super) fn amounts_of(&mut self, resources: &Resources) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in resources.iter() {
            let index = self.ensure_index(name);
            let amount = if index == CPU { quantity.milli_value() } else { quantity.value() };
            *amounts.slot(index) = amount;
        }
        amounts
    }
}

/// An amount of each resource; a missing entry is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(Vec<i64>);

impl Amounts {
    fn slot(&mut self, resource: ResourceIx) -> &mut i64 {
        let index = resource.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        &mut self.0[index]
    }

    pub(super) fn get(&self, resource: ResourceIx) -> i64 {
        self.0.get(resource.0 as usize).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (resource, amount) in other.iter() {
            let slot = self.slot(resource);
            *slot = slot.saturating_add(amount);
        }
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        for (resource, amount) in other.iter() {
            let slot = self.slot(resource);
            *slot = slot.saturating_sub(amount);
        }
    }

    /// Returns every resource with its amount, zeros included, in the order of indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ResourceIx, i64)> {
        self.0.iter().enumerate().map(|(index, amount)| (ResourceIx(index as u16), *amount))
    }

    /// Returns the resources that do not suffice for `requests` while `used` is in use. Resources
    /// that `requests` does not contain are ignored.
    pub(super) fn insufficient<'a>(
        &'a self,
        used: &'a Self,
        requests: &'a Self,
    ) -> impl Iterator<Item = ResourceIx> + 'a {
        let is_insufficient = move |(resource, amount): &(ResourceIx, i64)| {
            *amount > 0 && *amount > self.get(*resource).saturating_sub(used.get(*resource))
        };
        requests.iter().filter(is_insufficient).map(|(resource, _)| resource)
    }

    /// Returns true if `requests` exceeds the total amount of some resource, so that removing pods
    /// cannot help. The number of pods is ignored, because removing a pod always helps there.
    pub(super) fn is_exceeded_by(&self, requests: &Self) -> bool {
        requests.iter().any(|(resource, amount)| resource != PODS && amount > 0 && amount > self.get(resource))
    }
}
