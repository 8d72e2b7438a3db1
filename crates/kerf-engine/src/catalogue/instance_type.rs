//! Instance types and their offerings, as a cloud provider describes them.

use std::sync::Arc;

use kerf_api::quantity::Quantity;
use kerf_api::slim::{ResourceList, Str};

use crate::price::Price;
use crate::requirement::Requirements;

/// An instance type of a provider (spec 04 §2.3).
///
/// A clone shares every part. A provider has one list of types for each node class; to make the
/// types of a class, it clones those of another class and replaces the parts that differ. A
/// requirement set that differs in one requirement shares the others.
#[derive(Debug, Clone)]
pub struct InstanceType {
    /// The value of the label `node.kubernetes.io/instance-type`.
    pub name: Str,
    /// Label values that nodes of this type can have.
    pub requirements: Arc<Requirements>,
    /// Offerings, pairwise distinct. Their states are in [`InstanceTypes`](super::InstanceTypes).
    pub offerings: Arc<[Offering]>,
    /// All resources of an instance.
    pub capacity: ResourceList,
    /// Resources that are not available to pods.
    pub overhead: Overhead,
}

/// Resources of an instance that are not available to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Overhead {
    /// Reserved for the kubelet and the container runtime.
    pub kube_reserved: ResourceList,
    /// Reserved for the operating system.
    pub system_reserved: ResourceList,
    /// Kept free so that the kubelet can evict pods before memory or storage runs out.
    pub eviction_threshold: ResourceList,
}

/// One way to buy an instance type (spec 04 §2.4). Whether it is available now, and the free slots
/// of a reservation, are its [`OfferingState`](super::OfferingState).
#[derive(Debug, Clone)]
pub struct Offering {
    /// Zone, capacity type, and for reserved capacity the reservation ID. Offerings of many types
    /// can share one set.
    pub requirements: Arc<Requirements>,
    /// Price per hour.
    pub price: Price,
    /// Replaces or adds resources of the type's capacity. `None` to use the type's capacity.
    pub capacity_override: Option<ResourceList>,
    /// Replaces the type's overhead of each resource that it names. `None` to use the type's
    /// overhead.
    pub overhead_override: Option<Arc<Overhead>>,
}

impl Overhead {
    /// Returns the sum of all overheads of a resource.
    fn total(&self, resource: &str) -> Quantity {
        [&self.kube_reserved, &self.system_reserved, &self.eviction_threshold]
            .into_iter()
            .filter_map(|part| part.get(resource))
            .sum()
    }
}

impl InstanceType {
    /// Returns the resources for pods of an instance without offering overrides (spec 04 §2.3).
    ///
    /// Huge pages are subtracted from memory, which is never negative. Any other resource may be
    /// negative; then no pod fits.
    pub fn allocatable(&self) -> ResourceList {
        let huge_pages: Quantity =
            self.capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, q)| q).sum();
        self.capacity
            .iter()
            .map(|(name, amount)| {
                let left = amount - self.overhead.total(name);
                let left = if *name == "memory" && !huge_pages.is_zero() {
                    (left - huge_pages).max(Quantity::ZERO)
                } else {
                    left
                };
                (name.clone(), left)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 04 #36
    #[test]
    fn huge_pages_are_taken_from_memory() {
        let memory = |huge_pages: &str| {
            let instance_type = InstanceType {
                name: Str::new_static("a"),
                requirements: Arc::default(),
                offerings: Arc::default(),
                capacity: [("memory", "20Gi"), ("hugepages-2Mi", "5Gi"), ("hugepages-1Gi", huge_pages)]
                    .try_into()
                    .unwrap(),
                overhead: Overhead {
                    kube_reserved: [("memory", "1Gi"), ("cpu", "1")].try_into().unwrap(),
                    ..Overhead::default()
                },
            };
            let allocatable = instance_type.allocatable();
            assert_eq!(allocatable.get("cpu"), None, "an overhead adds no resource");
            allocatable.get("memory").unwrap().to_string()
        };
        assert_eq!(memory("10Gi"), "4Gi");
        assert_eq!(memory("55Gi"), "0");
    }
}
