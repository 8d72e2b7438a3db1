//! Resources of an instance type (spec 05 §4.4 to §4.6).

use kerf_api::ec2nodeclass::{AmiFamily, BlockDeviceMapping};
use kerf_api::quantity::{Quantity, QuantityError, QuantityFormat};
use kerf_api::slim::{ResourceList, Str};

use super::bytes::{MIB, NANOS_PER_UNIT, bytes};
use super::class_facts::NodeClassFacts;
use super::kubelet::ResolvedKubelet;
use super::labels::runs_windows;
use crate::data;
use crate::ports::ec2::InstanceTypeInfo;

/// Bytes of a GiB.
const GIB: i64 = 1 << 30;

/// Memory of an arm64 instance that its nodes do not report.
const ARM64_HIDDEN_MIB: i64 = 64;
/// Number of pods of families whose pods do not depend on network interfaces.
const DEFAULT_PODS: i64 = 110;
/// Ephemeral storage if neither the class nor the family gives a size.
const DEFAULT_STORAGE_BYTES: i64 = 20 * GIB;

/// Settings of the provider that resources depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CapacitySettings {
    /// Fraction of the memory that is assumed lost.
    pub(super) vm_memory_overhead_percent: f64,
    /// Network interfaces that pods cannot use.
    pub(super) reserved_enis: i64,
}

/// Returns all resources of a type. Every resource is present, with zero where it does not apply.
pub(super) fn capacity(
    info: &InstanceTypeInfo,
    class: &NodeClassFacts,
    settings: CapacitySettings,
    storage: Quantity,
) -> ResourceList {
    let gpus = |manufacturer: &str| -> i64 {
        let gpus = info.gpus.iter().flat_map(|gpus| &gpus.gpus);
        gpus.filter(|gpu| gpu.manufacturer == manufacturer).map(|gpu| i64::from(gpu.count)).sum()
    };
    let neuron_devices = info.neuron.as_ref().map_or(&[][..], |neuron| &neuron.neuron_devices);
    let neuron_cores = neuron_devices.first().map(|first| i64::from(first.count) * i64::from(first.core_info.count));
    let limits = data::vpc_limits().get(&info.name);
    let branch_interfaces =
        limits.filter(|limits| limits.is_trunking_compatible).map(|limits| limits.branch_interfaces);
    let efa = match class.network_interfaces {
        Some(_) => class.efa_only_count(),
        None => info.network.efa_info.map_or(0, |efa| i64::from(efa.maximum_efa_interfaces)),
    };
    let count = |count: i64| Quantity::from_units(count);
    let windows_addresses = runs_windows(info, class).then(|| {
        let addresses = limits.map_or(0, |limits| limits.ipv4_per_interface - 1);
        ("vpc.amazonaws.com/PrivateIPv4Address", count(addresses))
    });
    [
        ("cpu", count(i64::from(info.vcpus.default_vcpus))),
        ("memory", bytes(estimated_memory_bytes(info, settings))),
        ("ephemeral-storage", storage),
        ("pods", count(pods(info, class, settings))),
        ("vpc.amazonaws.com/pod-eni", count(branch_interfaces.unwrap_or(0))),
        ("nvidia.com/gpu", count(gpus("NVIDIA"))),
        ("amd.com/gpu", count(gpus("AMD"))),
        ("habana.ai/gaudi", count(gpus("Habana"))),
        ("aws.amazon.com/neuron", count(neuron_devices.iter().map(|device| i64::from(device.count)).sum())),
        ("aws.amazon.com/neuroncore", count(neuron_cores.unwrap_or(0))),
        ("vpc.amazonaws.com/efa", count(efa)),
    ]
    .into_iter()
    .chain(windows_addresses)
    .map(|(name, quantity)| (Str::new_static(name), quantity))
    .collect()
}

/// Returns the memory that a node of the type is expected to report, in bytes.
pub(super) fn estimated_memory_bytes(info: &InstanceTypeInfo, settings: CapacitySettings) -> i64 {
    let first_architecture = info.processor.as_ref().and_then(|processor| processor.supported_architectures.first());
    let hidden_mib = if first_architecture.is_some_and(|name| name == "arm64") { ARM64_HIDDEN_MIB } else { 0 };
    let visible_mib = info.memory.size_mib.saturating_sub(hidden_mib);
    let visible_bytes = visible_mib.saturating_mul(MIB);
    // The formula of Karpenter in floating-point numbers, so that the result is equal to the byte.
    let lost_mib = (visible_bytes as f64 * settings.vm_memory_overhead_percent / 1024.0 / 1024.0).ceil() as i64;
    visible_mib.saturating_sub(lost_mib).max(0).saturating_mul(MIB)
}

/// Returns the number of pods of a node.
pub(super) fn pods(info: &InstanceTypeInfo, class: &NodeClassFacts, settings: CapacitySettings) -> i64 {
    pods_with(info, class, &class.kubelet, settings)
}

/// Returns the number of pods of a node with other kubelet settings than those of the class.
pub(super) fn pods_with(
    info: &InstanceTypeInfo,
    class: &NodeClassFacts,
    kubelet: &ResolvedKubelet,
    settings: CapacitySettings,
) -> i64 {
    let pods = match kubelet.max_pods {
        Some(max_pods) => max_pods,
        None if class.family.has_eni_limited_pods => eni_limited_pods(info, class, settings.reserved_enis),
        None => DEFAULT_PODS,
    };
    match kubelet.settings().pods_per_core {
        Some(per_core) if per_core > 0 && class.family.honours_pods_per_core => {
            pods.min(per_core.saturating_mul(i64::from(info.vcpus.default_vcpus)))
        }
        Some(_) | None => pods,
    }
}

/// Returns the number of pods that the addresses of the default network card allow, without the
/// reserved interfaces.
pub(super) fn eni_limited_pods(info: &InstanceTypeInfo, class: &NodeClassFacts, reserved_enis: i64) -> i64 {
    let usable = interfaces_of_default_card(info).saturating_sub(reserved_enis) - class.efa_only_on_first_card();
    if usable <= 0 { 0 } else { usable * (i64::from(info.network.ipv4_addresses_per_interface) - 1) + 2 }
}

/// Returns the number of network interfaces of the default network card.
pub(super) fn interfaces_of_default_card(info: &InstanceTypeInfo) -> i64 {
    let network = &info.network;
    let default_card =
        network.network_cards.iter().find(|card| card.network_card_index == network.default_network_card_index);
    default_card.map_or(network.maximum_network_interfaces, |card| card.maximum_network_interfaces).into()
}

/// A volume size of a block device mapping that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("spec.blockDeviceMappings[{index}].ebs.volumeSize: {source}")]
pub struct VolumeSizeError {
    /// Position in the list.
    pub index: usize,
    /// The reason, with the text.
    pub source: QuantityError,
}

/// Returns the ephemeral storage of a node. The quantity of a volume is used as written.
pub(super) fn ephemeral_storage(info: &InstanceTypeInfo, class: &NodeClassFacts) -> Result<Quantity, VolumeSizeError> {
    if class.uses_raid0
        && let Some(gigabytes) = info.storage.as_ref().and_then(|storage| storage.total_size_gb)
    {
        let nanos = i128::from(gigabytes) * NANOS_PER_UNIT * 1_000_000_000;
        return Ok(Quantity::from_nanos(nanos, QuantityFormat::DecimalSi));
    }
    let devices = &class.block_devices;
    if let Some(root) = devices.iter().position(|device| device.root_volume == Some(true))
        && let Some(size) = volume_size(devices, root)?
    {
        return Ok(size);
    }
    if class.family.family == AmiFamily::Custom {
        let last = devices.len().checked_sub(1);
        let size = last.map(|last| volume_size(devices, last)).transpose()?.flatten();
        return Ok(size.unwrap_or(bytes(DEFAULT_STORAGE_BYTES)));
    }
    let ephemeral = devices.iter().position(|device| device.device_name.as_deref() == class.family.ephemeral_device);
    if let Some(ephemeral) = ephemeral
        && let Some(size) = volume_size(devices, ephemeral)?
    {
        return Ok(size);
    }
    let default = class.family.default_devices.iter().find(|device| Some(device.name) == class.family.ephemeral_device);
    Ok(bytes(default.map_or(DEFAULT_STORAGE_BYTES, |device| i64::from(device.size_gib) * GIB)))
}

fn volume_size(devices: &[BlockDeviceMapping], index: usize) -> Result<Option<Quantity>, VolumeSizeError> {
    let size = devices[index].ebs.as_ref().and_then(|ebs| ebs.volume_size.as_ref());
    size.map(|size| size.text().parse().map_err(|source| VolumeSizeError { index, source })).transpose()
}
