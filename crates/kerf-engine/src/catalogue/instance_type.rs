//! What a provider says about its machines: instance types and the offerings that can be bought of each.

use kerf_api::quantity::Quantity;
use kerf_api::slim::{ResourceList, Str};

use crate::price::Price;
use crate::requirement::Requirements;

/// A kind of machine (spec 04 §2.3).
#[derive(Debug, Clone)]
pub struct InstanceType {
    /// The value of `node.kubernetes.io/instance-type`.
    pub name: Str,
    /// Label values that such a machine can have.
    pub requirements: Requirements,
    /// What can be bought, pairwise distinct.
    pub offerings: Vec<Offering>,
    /// All resources of the machine.
    pub capacity: ResourceList,
    /// What is not for pods.
    pub overhead: Overhead,
}

/// What of a machine is not for pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Overhead {
    /// For the kubelet.
    pub kube_reserved: ResourceList,
    /// For the system.
    pub system_reserved: ResourceList,
    /// Held back so that the kubelet can evict in time.
    pub eviction_threshold: ResourceList,
}

/// One way to buy an instance type (spec 04 §2.4).
#[derive(Debug, Clone)]
pub struct Offering {
    /// Zone, capacity type, and for reserved capacity the reservation's id.
    pub requirements: Requirements,
    /// Price per hour.
    pub price: Price,
    /// Whether it can be launched now.
    pub available: bool,
    /// Slots left, for reserved capacity.
    pub reservation_capacity: i32,
    /// Replaces or adds resources of the type's capacity.
    pub capacity_override: Option<ResourceList>,
    /// Replaces resources of the type's total overhead.
    pub overhead_override: Option<Overhead>,
}

impl Overhead {
    /// How much of a resource is held back, whatever for.
    fn total(&self, resource: &str) -> Quantity {
        [&self.kube_reserved, &self.system_reserved, &self.eviction_threshold]
            .into_iter()
            .filter_map(|part| part.get(resource))
            .sum()
    }
}

impl InstanceType {
    /// What such a machine has for pods (spec 04 §2.3), overrides of offerings aside. Huge pages are taken from memory, which never
    /// falls below nothing; another resource may, and then nothing fits.
    pub fn allocatable(&self) -> ResourceList {
        let huge: Quantity =
            self.capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, q)| q).sum();
        self.capacity
            .iter()
            .map(|(name, amount)| {
                let left = amount - self.overhead.total(name);
                let left = if *name == "memory" && !huge.is_zero() { (left - huge).max(Quantity::ZERO) } else { left };
                (name.clone(), left)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may panic")]
    use super::*;

    // spec 04 #36
    #[test]
    fn huge_pages_are_taken_from_memory() {
        let memory = |huge: &str| {
            let described = InstanceType {
                name: Str::new_static("a"),
                requirements: Requirements::default(),
                offerings: Vec::new(),
                capacity: [("memory", "20Gi"), ("hugepages-2Mi", "5Gi"), ("hugepages-1Gi", huge)].try_into().unwrap(),
                overhead: Overhead {
                    kube_reserved: [("memory", "1Gi"), ("cpu", "1")].try_into().unwrap(),
                    ..Overhead::default()
                },
            };
            let allocatable = described.allocatable();
            assert_eq!(allocatable.get("cpu"), None, "an overhead adds no resource");
            allocatable.get("memory").unwrap().to_string()
        };
        assert_eq!(memory("10Gi"), "4Gi");
        assert_eq!(memory("55Gi"), "0");
    }
}
