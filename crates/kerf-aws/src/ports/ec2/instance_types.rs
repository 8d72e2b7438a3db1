//! Descriptions of instance types. The types have the names of EC2's JSON, so that the shipped
//! catalogue, moto's data and answers of `aws ec2 describe-instance-types` can be read as they are.

use serde::{Deserialize, Serialize};

use super::super::{Filter, PageRequest};

/// The request of `DescribeInstanceTypes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeInstanceTypes {
    /// Filters, for example `processor-info.supported-architecture`.
    pub filters: Vec<Filter>,
    /// True if the request only checks whether the service can be called.
    pub is_dry_run: bool,
    /// The requested page.
    pub page: PageRequest,
}

/// An availability zone in which an instance type is offered.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceTypeOffering {
    /// Name of the instance type.
    pub instance_type: String,
    /// Name of the zone.
    pub zone: String,
}

/// The parts of an instance type's description that Kerf reads (spec 05 §4). A fact that EC2 does
/// not report has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceTypeInfo {
    /// Name, for example `m5.large`.
    #[serde(rename = "InstanceType")]
    pub name: String,
    /// True if the type is a whole machine.
    pub bare_metal: bool,
    /// True if EC2 counts the type as current.
    pub current_generation: bool,
    /// `nitro` or `xen`; empty for bare metal.
    pub hypervisor: String,
    /// `on-demand`, `spot`, `capacity-block`.
    pub supported_usage_classes: Vec<String>,
    /// `hvm` or `paravirtual`.
    pub supported_virtualization_types: Vec<String>,
    /// `supported` or `unsupported`.
    pub nitro_enclaves_support: String,
    /// Number of vCPUs.
    #[serde(rename = "VCpuInfo")]
    pub vcpus: VcpuInfo,
    /// Memory as EC2 reports it, before any overhead.
    #[serde(rename = "MemoryInfo")]
    pub memory: MemoryInfo,
    /// Processor; `None` if EC2 reports none.
    #[serde(rename = "ProcessorInfo", skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorInfo>,
    /// EBS bandwidth.
    #[serde(rename = "EbsInfo", skip_serializing_if = "Option::is_none")]
    pub ebs: Option<EbsInfo>,
    /// Network interfaces.
    #[serde(rename = "NetworkInfo")]
    pub network: NetworkInfo,
    /// Local disks; `None` if there are none.
    #[serde(rename = "InstanceStorageInfo", skip_serializing_if = "Option::is_none")]
    pub storage: Option<InstanceStorage>,
    /// GPUs; `None` if there are none.
    #[serde(rename = "GpuInfo", skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuInfo>,
    /// Inference accelerators; `None` if there are none.
    #[serde(rename = "InferenceAcceleratorInfo", skip_serializing_if = "Option::is_none")]
    pub accelerators: Option<AcceleratorInfo>,
    /// Neuron devices; `None` if there are none.
    #[serde(rename = "NeuronInfo", skip_serializing_if = "Option::is_none")]
    pub neuron: Option<NeuronInfo>,
    /// Supported placement strategies.
    #[serde(rename = "PlacementGroupInfo")]
    pub placement: PlacementGroupInfo,
}

/// Number of vCPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VcpuInfo {
    /// Number of vCPUs without CPU options.
    #[serde(rename = "DefaultVCpus")]
    pub default_vcpus: i32,
}

/// Memory of an instance type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryInfo {
    /// Size in MiB (2^20 bytes).
    #[serde(rename = "SizeInMiB")]
    pub size_mib: i64,
}

/// Processor of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ProcessorInfo {
    /// For example `Intel`, `AMD` or `AWS`.
    pub manufacturer: Option<String>,
    /// For example `x86_64` or `arm64`.
    pub supported_architectures: Vec<String>,
    /// Features such as `amd-sev-snp` or `nested-virtualization`.
    pub supported_features: Vec<String>,
    /// Clock speed of all cores in GHz; `None` if EC2 reports none.
    pub sustained_clock_speed_in_ghz: Option<f64>,
}

/// EBS support of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EbsInfo {
    /// `default`, `supported` or `unsupported`.
    pub ebs_optimized_support: String,
    /// Bandwidth; `None` if EC2 reports none.
    pub ebs_optimized_info: Option<EbsOptimizedInfo>,
}

/// EBS bandwidth of an instance type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EbsOptimizedInfo {
    /// Largest bandwidth in Mbit/s.
    pub maximum_bandwidth_in_mbps: i32,
}

/// Network interfaces of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkInfo {
    /// The card whose interfaces limit the number of pods.
    pub default_network_card_index: i32,
    /// One entry per card; types with several cards are accelerated ones.
    pub network_cards: Vec<NetworkCard>,
    /// IPv4 addresses of each interface.
    pub ipv4_addresses_per_interface: i32,
    /// Largest number of interfaces of all cards together.
    pub maximum_network_interfaces: i32,
    /// Largest number of EFA interfaces; `None` if EFA is not supported.
    pub efa_info: Option<EfaInfo>,
    /// `required`, `supported` or `unsupported`.
    pub ena_support: String,
    /// True if traffic between instances is encrypted.
    pub encryption_in_transit_supported: bool,
}

/// EFA support of an instance type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EfaInfo {
    /// Largest number of EFA interfaces.
    pub maximum_efa_interfaces: i32,
}

/// A network card of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkCard {
    /// Position of the card, from 0.
    pub network_card_index: i32,
    /// Largest number of interfaces of the card.
    pub maximum_network_interfaces: i32,
}

/// Local disks of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceStorage {
    /// Size of all disks together in GB.
    #[serde(rename = "TotalSizeInGB")]
    pub total_size_gb: Option<i64>,
    /// `required`, `supported` or `unsupported`.
    #[serde(rename = "NvmeSupport")]
    pub nvme_support: String,
}

/// GPUs of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GpuInfo {
    /// One entry per model.
    pub gpus: Vec<Gpu>,
}

/// GPUs of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Gpu {
    /// Name of the model.
    pub name: String,
    /// `NVIDIA`, `AMD` or `Habana`.
    pub manufacturer: String,
    /// Number of GPUs.
    pub count: i32,
    /// Memory of each GPU.
    pub memory_info: MemoryInfo,
}

/// Inference accelerators of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AcceleratorInfo {
    /// One entry per model.
    pub accelerators: Vec<Accelerator>,
}

/// Inference accelerators of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Accelerator {
    /// Name of the model.
    pub name: String,
    /// Name of the manufacturer.
    pub manufacturer: String,
    /// Number of accelerators.
    pub count: i32,
}

/// Neuron devices of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NeuronInfo {
    /// One entry per model.
    pub neuron_devices: Vec<NeuronDevice>,
}

/// Neuron devices of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NeuronDevice {
    /// Name of the model.
    pub name: String,
    /// Number of devices.
    pub count: i32,
    /// Cores of each device.
    pub core_info: NeuronCoreInfo,
}

/// Cores of a Neuron device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NeuronCoreInfo {
    /// Number of cores.
    pub count: i32,
}

/// Placement strategies of an instance type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlacementGroupInfo {
    /// `cluster`, `partition`, `spread`.
    pub supported_strategies: Vec<String>,
}
