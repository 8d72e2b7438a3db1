//! Instance types and their offerings, as a cloud provider describes them.

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::quantity::Quantity;
use kerf_api::slim::{ResourceList, Str};

use crate::price::Price;
use crate::requirement::{Requirement, Requirements};

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
    /// Number of volumes that can be attached to an instance, by CSI driver. A driver without an
    /// entry is not limited (spec 10 §2.3).
    pub volume_limits: Arc<[(Str, u32)]>,
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
    /// Returns the sum of all overheads of a resource, or `None` if no part names it.
    fn total(&self, resource: &str) -> Option<Quantity> {
        let parts = [&self.kube_reserved, &self.system_reserved, &self.eviction_threshold];
        parts.into_iter().filter_map(|part| part.get(resource)).reduce(|sum, amount| sum + amount)
    }
}

impl InstanceType {
    /// Returns how many volumes of a CSI driver can be attached to an instance, or `None` if the
    /// number is not limited.
    pub fn volume_limit(&self, driver: &str) -> Option<u32> {
        self.volume_limits.iter().find(|(limited, _)| limited == driver).map(|(_, limit)| *limit)
    }

    /// Returns the resources of an instance without offering overrides that pods can use, see
    /// [`Self::allocatable_in`].
    pub fn allocatable(&self) -> ResourceList {
        self.allocatable_of(&self.capacity, None)
    }

    /// Returns all resources of an instance that is launched in this offering: the type's capacity,
    /// with the resources that the offering overrides replaced or added.
    pub fn capacity_in(&self, offering: &Offering) -> ResourceList {
        match &offering.capacity_override {
            // Of two entries with one name the last counts.
            Some(overrides) => self.capacity.iter().chain(overrides.iter()).map(|(n, q)| (n.clone(), q)).collect(),
            None => self.capacity.clone(),
        }
    }

    /// Returns the resources of an instance that is launched in this offering which pods can use:
    /// capacity minus overhead (spec 04 §2.3).
    ///
    /// An overhead override replaces the overhead of the resources that it names. Huge pages are
    /// subtracted from memory, which then is not negative. Any other resource may be negative; then
    /// no pod fits.
    pub fn allocatable_in(&self, offering: &Offering) -> ResourceList {
        self.allocatable_of(&self.capacity_in(offering), offering.overhead_override.as_deref())
    }

    fn allocatable_of(&self, capacity: &ResourceList, overhead_override: Option<&Overhead>) -> ResourceList {
        let huge_pages: Option<Quantity> = capacity
            .iter()
            .filter(|(name, _)| name.starts_with("hugepages-"))
            .map(|(_, amount)| amount)
            .reduce(|sum, amount| sum + amount);
        let allocatable = |name: &Str, amount: Quantity| {
            let replaced = overhead_override.and_then(|overhead| overhead.total(name));
            let left = amount - replaced.or_else(|| self.overhead.total(name)).unwrap_or(Quantity::ZERO);
            match huge_pages.filter(|_| *name == "memory") {
                Some(huge_pages) => (left - huge_pages).max(Quantity::ZERO),
                None => left,
            }
        };
        capacity.iter().map(|(name, amount)| (name.clone(), allocatable(name, amount))).collect()
    }
}

impl Offering {
    /// Returns true if the offering is capacity of a reservation.
    pub fn is_reserved(&self) -> bool {
        let capacity_types = self.requirements.get(labels::CAPACITY_TYPE).and_then(Requirement::allowed_values);
        capacity_types.is_some_and(|values| matches!(values, [only] if only == labels::CAPACITY_TYPE_RESERVED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 10 #80 (the data; spec 10 §7.2 uses them)
    #[test]
    fn a_driver_without_an_entry_is_not_limited() {
        let instance_type = InstanceType {
            volume_limits: [(Str::new_static("ebs.csi.aws.com"), 27)].into(),
            ..instance_type([("cpu", "4")].try_into().unwrap(), Overhead::default())
        };
        assert_eq!(instance_type.volume_limit("ebs.csi.aws.com"), Some(27));
        assert_eq!(instance_type.volume_limit("efs.csi.aws.com"), None);
    }

    // spec 04 #37
    #[test]
    fn overrides_of_an_offering_replace_single_resources() {
        let overhead = |pairs| Overhead { kube_reserved: pairs, ..Overhead::default() };
        let instance_type = instance_type(
            [("cpu", "8"), ("memory", "20Gi"), ("pods", "110")].try_into().unwrap(),
            overhead([("cpu", "1"), ("memory", "2Gi")].try_into().unwrap()),
        );
        let offering = Offering {
            requirements: Arc::default(),
            price: Price::ZERO,
            capacity_override: Some([("pods", "58"), ("hugepages-2Mi", "4Gi")].try_into().unwrap()),
            overhead_override: Some(Arc::new(overhead([("cpu", "3")].try_into().unwrap()))),
        };
        let text = |list: ResourceList| {
            list.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<String>>().join(" ")
        };
        assert_eq!(text(instance_type.capacity_in(&offering)), "cpu=8 hugepages-2Mi=4Gi memory=20Gi pods=58");
        assert_eq!(text(instance_type.allocatable_in(&offering)), "cpu=5 hugepages-2Mi=4Gi memory=14Gi pods=58");
        assert_eq!(text(instance_type.allocatable()), "cpu=7 memory=18Gi pods=110");
    }

    fn instance_type(capacity: ResourceList, overhead: Overhead) -> InstanceType {
        InstanceType {
            name: Str::new_static("a"),
            requirements: Arc::default(),
            offerings: Arc::default(),
            capacity,
            overhead,
            volume_limits: Arc::default(),
        }
    }

    // spec 04 #36
    #[test]
    fn huge_pages_are_taken_from_memory() {
        let memory = |huge_pages: &str| {
            let instance_type = instance_type(
                [("memory", "20Gi"), ("hugepages-2Mi", "5Gi"), ("hugepages-1Gi", huge_pages)].try_into().unwrap(),
                Overhead {
                    kube_reserved: [("memory", "1Gi"), ("cpu", "1")].try_into().unwrap(),
                    ..Overhead::default()
                },
            );
            let allocatable = instance_type.allocatable();
            assert_eq!(allocatable.get("cpu"), None, "an overhead adds no resource");
            allocatable.get("memory").unwrap().to_string()
        };
        assert_eq!(memory("10Gi"), "4Gi");
        assert_eq!(memory("55Gi"), "0");
    }
}
