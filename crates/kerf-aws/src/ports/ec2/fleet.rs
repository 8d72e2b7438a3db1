//! `CreateFleet`.

use super::super::Tags;

/// The request of `CreateFleet` of type `instant`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateFleet {
    /// Number of instances to launch.
    pub target_capacity: i32,
    /// The kind of capacity and how it is chosen.
    pub target: FleetTarget,
    /// Launch templates with the instance types and subnets that they may be used with.
    pub configs: Vec<FleetConfig>,
    /// Tags of the launched resources, in the order in which they are sent.
    pub tags: Vec<TagSpecification>,
    /// `Context` of the request; `None` omits it.
    pub context: Option<String>,
    /// Token that makes a repeated request launch nothing twice.
    pub client_token: String,
    /// True if the request is only checked.
    pub is_dry_run: bool,
}

/// Default target capacity type of a fleet, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetTarget {
    /// Spot instances, with the allocation strategy.
    Spot {
        /// For example `price-capacity-optimized`.
        allocation_strategy: String,
    },
    /// On-demand instances, with the allocation strategy.
    OnDemand {
        /// For example `lowest-price`.
        allocation_strategy: String,
    },
    /// Capacity blocks for ML, which are bought for a fixed time.
    CapacityBlock,
    /// Interruptible capacity reservations.
    ReservedCapacity,
}

/// One launch template of a fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetConfig {
    /// Name of the launch template; its version is `$Latest`.
    pub template_name: String,
    /// Instance types and subnets.
    pub overrides: Vec<FleetOverride>,
}

/// One way to launch an instance from a template. Fields that are `None` are not sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetOverride {
    /// Name of the instance type.
    pub instance_type: String,
    /// Subnet of the network interfaces, for example `subnet-0123`.
    pub subnet_id: String,
    /// Image that replaces the template's; `None` keeps the template's.
    pub image_id: Option<String>,
    /// Name of the availability zone.
    pub zone: Option<String>,
    /// Priority: the price in dollars per hour. Lower comes first.
    pub priority: Option<f64>,
}

/// Tags of one type of resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagSpecification {
    /// Type of the resource, for example `instance`.
    pub resource_type: &'static str,
    /// Tags of each such resource.
    pub tags: Tags,
}

/// The answer of `CreateFleet`. It may hold instances and errors at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    /// ID of the fleet; empty if missing.
    pub fleet_id: String,
    /// Launched instances, grouped by the override that they were launched from.
    pub instances: Vec<FleetInstance>,
    /// Overrides that could not be launched.
    pub errors: Vec<FleetError>,
}

/// Instances that were launched from one override.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetInstance {
    /// IDs of the instances.
    pub ids: Vec<String>,
    /// Name of the instance type.
    pub instance_type: String,
    /// Subnet in which the instances run, for example `subnet-0123`.
    pub subnet_id: String,
    /// Name of the availability zone.
    pub zone: String,
    /// ID of the image of the override.
    pub image_id: String,
    /// `spot`, `on-demand` or another lifecycle.
    pub lifecycle: String,
}

/// An error of one override.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetError {
    /// Error code, for example `InsufficientInstanceCapacity`.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// Instance type of the override; `None` if the answer has no override.
    pub instance_type: Option<String>,
    /// Subnet of the override.
    pub subnet_id: Option<String>,
    /// Zone of the override.
    pub zone: Option<String>,
}
