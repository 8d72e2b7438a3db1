//! `RunInstances`. Kerf launches with `CreateFleet`; it only makes dry runs of this call, to learn
//! whether a launch would be allowed.

use super::TagSpecification;

/// The request of `RunInstances` for one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInstances {
    /// Name of the launch template; its version is `$Latest`.
    pub template_name: String,
    /// Name of the instance type.
    pub instance_type: String,
    /// Network interfaces, at least one. They replace those of the template.
    pub network_interfaces: Vec<RunNetworkInterface>,
    /// Tags of the launched resources, in the order in which they are sent.
    pub tags: Vec<TagSpecification>,
    /// True if the request is only checked.
    pub is_dry_run: bool,
}

/// A network interface of `RunInstances`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunNetworkInterface {
    /// Index of the network card.
    pub network_card_index: i32,
    /// Index of the interface on its card.
    pub device_index: i32,
    /// `interface` or `efa-only`; `None` omits it.
    pub interface_type: Option<String>,
    /// Subnet of the interface.
    pub subnet_id: String,
}
