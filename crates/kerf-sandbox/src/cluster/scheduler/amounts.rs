//! Amounts of resources as the scheduler counts them: whole milli-CPUs, whole bytes, whole pieces, each resource name a small number.
//! Requests are rounded up once for each pod and capacities once for each node, which is how kube-scheduler counts too.

use std::collections::BTreeMap;

use kerf_referee::resources::Resources;
use smol_str::SmolStr;

/// A resource name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResourceIx(u16);

pub(super) const CPU: ResourceIx = ResourceIx(0);
pub(super) const MEMORY: ResourceIx = ResourceIx(1);
pub(super) const PODS: ResourceIx = ResourceIx(3);

/// The names that stand in every cluster, at the numbers above; ephemeral storage is between memory and pods because that is the
/// order in which kube-scheduler lists what is lacking.
const WELL_KNOWN_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// All resource names that were ever seen.
#[derive(Debug)]
pub(super) struct ResourceNames {
    numbers: BTreeMap<SmolStr, ResourceIx>,
    names: Vec<SmolStr>,
}

impl ResourceNames {
    pub(super) fn new() -> Self {
        let mut names = Self { numbers: BTreeMap::new(), names: Vec::new() };
        for name in WELL_KNOWN_RESOURCES {
            names.ensure_index(name);
        }
        names
    }

    fn ensure_index(&mut self, name: &str) -> ResourceIx {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // There are as many resource names as people invent: never 65,536.
        let number = ResourceIx(self.names.len() as u16);
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    pub(super) fn name(&self, resource: ResourceIx) -> &str {
        self.names.get(resource.0 as usize).map_or("", SmolStr::as_str)
    }

    /// The amounts that `resources` states.
    pub(super) fn amounts_of(&mut self, resources: &Resources) -> Amounts {
        let mut amounts = Amounts::default();
        for (name, quantity) in resources.iter() {
            let number = self.ensure_index(name);
            let amount = if number == CPU { quantity.milli_value() } else { quantity.value() };
            *amounts.slot(number) = amount;
        }
        amounts
    }
}

/// An amount of each resource; one that is not mentioned is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(Vec<i64>);

impl Amounts {
    fn slot(&mut self, resource: ResourceIx) -> &mut i64 {
        let place = resource.0 as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        &mut self.0[place]
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

    /// Every resource with its amount, zeros included, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ResourceIx, i64)> {
        self.0.iter().enumerate().map(|(place, amount)| (ResourceIx(place as u16), *amount))
    }

    /// The resources of which there is not enough for `asked` when `used` is taken already. What is not asked for is not looked at.
    pub(super) fn insufficient<'a>(&'a self, used: &'a Self, asked: &'a Self) -> impl Iterator<Item = ResourceIx> + 'a {
        let short = move |(resource, amount): &(ResourceIx, i64)| {
            *amount > 0 && *amount > self.get(*resource).saturating_sub(used.get(*resource))
        };
        asked.iter().filter(short).map(|(resource, _)| resource)
    }

    /// Whether `asked` is more of something than there is at all, so that no pod's leaving would help. The number of pods is
    /// not looked at: another pod's leaving always helps there.
    pub(super) fn is_exceeded_by(&self, asked: &Self) -> bool {
        asked.iter().any(|(resource, amount)| resource != PODS && amount > 0 && amount > self.get(resource))
    }
}
