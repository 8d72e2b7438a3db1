//! The facts about a node class that its instance types depend on, and the key by which equal
//! classes share one list (spec 05 §4.13).

use std::sync::Arc;

use kerf_api::ec2nodeclass::{
    AmiFamily, BlockDeviceMapping, CapacityReservation, EC2NodeClass, EC2NodeClassSpec, InstanceStorePolicy,
    InterfaceType, NetworkInterface,
};
use serde_json::json;

use super::ami_family::AmiFamilyRules;
use super::kubelet::expressions::{CompiledKubelet, KubeletCompiler};
use super::kubelet::{KubeletError, KubeletSettings, ResolvedKubelet};
use crate::offerings::{ZoneInfo, zones_of_subnets};
use crate::ports::ec2::PlacementGroup;

/// The facts about a node class that its instance types depend on.
#[derive(Debug, Clone)]
pub(crate) struct NodeClassFacts {
    pub(crate) family: &'static AmiFamilyRules,
    pub(crate) zones: Vec<ZoneInfo>,
    /// The settings without expressions, or those of one instance type.
    pub(crate) kubelet: ResolvedKubelet,
    pub(crate) compiled_kubelet: CompiledKubelet,
    pub(crate) block_devices: Vec<BlockDeviceMapping>,
    /// True if local disks are combined to the ephemeral storage.
    pub(crate) uses_raid0: bool,
    /// `None` if the class does not list its interfaces.
    pub(crate) network_interfaces: Option<Vec<NetworkInterface>>,
    pub(crate) reservations: Vec<CapacityReservation>,
    pub(crate) needs_nested_virtualization: bool,
    pub(crate) needs_enclaves: bool,
    pub(crate) has_connection_tracking: bool,
    /// The resolved placement group; `None` if the class has none or it is unknown.
    pub(crate) group: Option<Arc<PlacementGroup>>,
}

impl NodeClassFacts {
    /// Reads the facts from spec and status. Fails if `spec.kubelet` cannot be used. `group` is the
    /// placement group that the class selects.
    pub(crate) fn new(
        class: &EC2NodeClass,
        compiler: &KubeletCompiler,
        group: Option<Arc<PlacementGroup>>,
    ) -> Result<Self, KubeletError> {
        let spec = class.spec.clone().unwrap_or_default();
        let status = class.status.clone().unwrap_or_default();
        let compiled_kubelet = compiler.compile(KubeletSettings::parse(spec.kubelet.as_ref())?)?;
        let nested_virtualization = spec.cpu_options.as_ref().and_then(|cpu| cpu.nested_virtualization.as_deref());
        Ok(Self {
            family: AmiFamilyRules::of(&spec.effective_ami_family()),
            zones: zones_of_subnets(status.subnets.as_deref().unwrap_or_default()),
            kubelet: compiled_kubelet.fixed().clone(),
            compiled_kubelet,
            needs_enclaves: spec.enables_enclaves(),
            needs_nested_virtualization: nested_virtualization == Some("enabled"),
            has_connection_tracking: spec.connection_tracking.is_some(),
            uses_raid0: spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
            block_devices: spec.block_device_mappings.unwrap_or_default(),
            network_interfaces: spec.network_interfaces,
            reservations: status.capacity_reservations.unwrap_or_default(),
            group,
        })
    }

    /// Returns the number of EFA-only interfaces that the class lists.
    pub(crate) fn efa_only_count(&self) -> i64 {
        self.efa_only_interfaces().count() as i64
    }

    /// Returns the number of EFA-only interfaces on the first network card.
    pub(crate) fn efa_only_on_first_card(&self) -> i64 {
        self.efa_only_interfaces().filter(|interface| interface.network_card_index == 0).count() as i64
    }

    fn efa_only_interfaces(&self) -> impl Iterator<Item = &NetworkInterface> {
        let interfaces = self.network_interfaces.iter().flatten();
        interfaces.filter(|interface| interface.interface_type == InterfaceType::EfaOnly)
    }

    pub(crate) fn is_al2023(&self) -> bool {
        self.family.family == AmiFamily::Al2023
    }
}

/// Returns a text that is equal for classes with equal instance types. It holds everything that can
/// change the result; the order of lists whose order has no meaning is removed.
pub(super) fn class_key(class: &EC2NodeClass, group: Option<&PlacementGroup>) -> String {
    let spec = class.spec.as_ref();
    let status = class.status.as_ref();
    let sorted = |mut texts: Vec<String>| {
        texts.sort_unstable();
        texts
    };
    let amis = status.and_then(|status| status.amis.as_ref()).into_iter().flatten();
    let subnets = status.and_then(|status| status.subnets.as_ref()).into_iter().flatten();
    let reservations = status.and_then(|status| status.capacity_reservations.as_ref()).into_iter().flatten();
    let interfaces = spec.and_then(|spec| spec.network_interfaces.as_ref());
    let without_end = |reservation: &CapacityReservation| CapacityReservation { end_time: None, ..reservation.clone() };
    json!({
        "amis": sorted(amis.map(|ami| json!(ami).to_string()).collect()),
        "subnets": sorted(subnets.map(|subnet| json!(subnet).to_string()).collect()),
        "reservations": sorted(reservations.map(|reservation| json!(without_end(reservation)).to_string()).collect()),
        "interfaces": interfaces.map(|list| sorted(list.iter().map(|item| json!(item).to_string()).collect())),
        "kubelet": spec.and_then(|spec| spec.kubelet.as_ref()),
        // The order counts: the last device of the family Custom is its ephemeral storage.
        "blockDevices": spec.and_then(|spec| spec.block_device_mappings.as_ref()),
        "instanceStorePolicy": spec.and_then(|spec| spec.instance_store_policy.as_ref()),
        "family": spec.map(|spec| spec.effective_ami_family().to_string()),
        "placementGroup": group.map(|group| json!([group.id, group.strategy, group.partition_count])),
        "cpuOptions": spec.and_then(|spec| spec.cpu_options.as_ref()),
        "connectionTracking": spec.is_some_and(|spec| spec.connection_tracking.is_some()),
        "enclaves": spec.is_some_and(EC2NodeClassSpec::enables_enclaves),
    })
    .to_string()
}
