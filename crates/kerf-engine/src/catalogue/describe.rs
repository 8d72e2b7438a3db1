//! What a provider says about its machines: instance types and the offerings that can be bought of each.

use kerf_api::slim::ResourceList;
use kerf_api::slim::Str;

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
