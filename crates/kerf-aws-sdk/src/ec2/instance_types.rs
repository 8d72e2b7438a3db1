//! Descriptions of instance types.

use aws_sdk_ec2::types;
use kerf_aws::ports::ec2::{
    Accelerator, AcceleratorInfo, EbsInfo, EbsOptimizedInfo, EfaInfo, Gpu, GpuInfo, InstanceStorage, InstanceTypeInfo,
    InstanceTypeOffering, MemoryInfo, NetworkCard, NetworkInfo, NeuronCoreInfo, NeuronDevice, NeuronInfo,
    PlacementGroupInfo, ProcessorInfo, VcpuInfo,
};

use crate::convert::{list, name, names};

pub(super) fn offering(offering: types::InstanceTypeOffering) -> InstanceTypeOffering {
    InstanceTypeOffering { instance_type: name(offering.instance_type), zone: offering.location.unwrap_or_default() }
}

pub(super) fn instance_type(info: types::InstanceTypeInfo) -> InstanceTypeInfo {
    InstanceTypeInfo {
        name: name(info.instance_type),
        bare_metal: info.bare_metal.unwrap_or_default(),
        current_generation: info.current_generation.unwrap_or_default(),
        hypervisor: name(info.hypervisor),
        supported_usage_classes: names(info.supported_usage_classes),
        supported_virtualization_types: names(info.supported_virtualization_types),
        nitro_enclaves_support: name(info.nitro_enclaves_support),
        vcpus: VcpuInfo { default_vcpus: info.v_cpu_info.and_then(|info| info.default_v_cpus).unwrap_or_default() },
        memory: MemoryInfo { size_mib: info.memory_info.and_then(|info| info.size_in_mib).unwrap_or_default() },
        processor: info.processor_info.map(processor),
        ebs: info.ebs_info.map(ebs),
        network: info.network_info.map(network).unwrap_or_default(),
        storage: info.instance_storage_info.map(|storage| InstanceStorage {
            total_size_gb: storage.total_size_in_gb,
            nvme_support: name(storage.nvme_support),
        }),
        gpus: info.gpu_info.map(|info| GpuInfo { gpus: list(info.gpus, gpu) }),
        accelerators: info
            .inference_accelerator_info
            .map(|info| AcceleratorInfo { accelerators: list(info.accelerators, accelerator) }),
        neuron: info.neuron_info.map(|info| NeuronInfo { neuron_devices: list(info.neuron_devices, neuron_device) }),
        placement: PlacementGroupInfo {
            supported_strategies: info
                .placement_group_info
                .map(|info| names(info.supported_strategies))
                .unwrap_or_default(),
        },
    }
}

fn processor(info: types::ProcessorInfo) -> ProcessorInfo {
    ProcessorInfo {
        manufacturer: info.manufacturer,
        supported_architectures: names(info.supported_architectures),
        supported_features: names(info.supported_features),
        sustained_clock_speed_in_ghz: info.sustained_clock_speed_in_ghz,
    }
}

fn ebs(info: types::EbsInfo) -> EbsInfo {
    EbsInfo {
        ebs_optimized_support: name(info.ebs_optimized_support),
        ebs_optimized_info: info.ebs_optimized_info.map(|info| EbsOptimizedInfo {
            maximum_bandwidth_in_mbps: info.maximum_bandwidth_in_mbps.unwrap_or_default(),
        }),
    }
}

fn network(info: types::NetworkInfo) -> NetworkInfo {
    NetworkInfo {
        default_network_card_index: info.default_network_card_index.unwrap_or_default(),
        network_cards: list(info.network_cards, |card| NetworkCard {
            network_card_index: card.network_card_index.unwrap_or_default(),
            maximum_network_interfaces: card.maximum_network_interfaces.unwrap_or_default(),
        }),
        ipv4_addresses_per_interface: info.ipv4_addresses_per_interface.unwrap_or_default(),
        maximum_network_interfaces: info.maximum_network_interfaces.unwrap_or_default(),
        efa_info: info
            .efa_info
            .map(|info| EfaInfo { maximum_efa_interfaces: info.maximum_efa_interfaces.unwrap_or_default() }),
        ena_support: name(info.ena_support),
        encryption_in_transit_supported: info.encryption_in_transit_supported.unwrap_or_default(),
    }
}

fn gpu(info: types::GpuDeviceInfo) -> Gpu {
    Gpu {
        name: info.name.unwrap_or_default(),
        manufacturer: info.manufacturer.unwrap_or_default(),
        count: info.count.unwrap_or_default(),
        memory_info: MemoryInfo {
            size_mib: info.memory_info.and_then(|info| info.size_in_mib).map(i64::from).unwrap_or_default(),
        },
    }
}

fn accelerator(info: types::InferenceDeviceInfo) -> Accelerator {
    Accelerator {
        name: info.name.unwrap_or_default(),
        manufacturer: info.manufacturer.unwrap_or_default(),
        count: info.count.unwrap_or_default(),
    }
}

fn neuron_device(info: types::NeuronDeviceInfo) -> NeuronDevice {
    NeuronDevice {
        name: info.name.unwrap_or_default(),
        count: info.count.unwrap_or_default(),
        core_info: NeuronCoreInfo { count: info.core_info.and_then(|info| info.count).unwrap_or_default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_without_facts_has_defaults() {
        assert_eq!(instance_type(types::InstanceTypeInfo::builder().build()), InstanceTypeInfo::default());
    }
}
