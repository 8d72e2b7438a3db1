//! The Node that an EC2 instance registers: decided by its user data, its instance type and its
//! place, as on EKS. The kubelet takes labels, taints and reservations from what the image has read
//! from the user data; the image and the kubelet have defaults for what it does not say; the cloud
//! controller manager adds the labels of the place.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use kerf_api::quantity::{Quantity, QuantityFormat};
use kerf_aws::memory::LaunchedInstance;
use kerf_aws::ports::ClusterInfo;
use kerf_aws::ports::ec2::InstanceTypeInfo;
use kerf_sandbox::NodeRegistration;
use serde_json::{Map, Value};

use super::boot::{self, BootConfig, BootSoftware, UserDataProblem};

/// Memory of an instance that its operating system does not report, in percent.
const HIDDEN_MEMORY_PERCENT: i64 = 5;
/// Size of the volume of pods if neither class nor image gives one.
const DEFAULT_ROOT_GIB: i64 = 20;
/// The same on Windows.
const DEFAULT_WINDOWS_ROOT_GIB: i64 = 50;
/// Domains whose labels a kubelet may not set on its own node, with their subdomains.
const RESTRICTED_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Domains whose labels it may set nevertheless, with their subdomains.
const PERMITTED_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Further labels that it may set.
const PERMITTED_LABELS: [&str; 8] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
/// Number of pods of a kubelet whose configuration gives none.
const DEFAULT_MAX_PODS: i64 = 110;
const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// The facts about the place of an instance that do not come from its user data.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstancePlace<'a> {
    pub(super) region: &'a str,
    /// Name of the sandbox's EKS cluster.
    pub(super) cluster_name: &'a str,
    /// The EKS cluster whose API server the sandbox is.
    pub(super) cluster: &'a ClusterInfo,
    pub(super) instance_type: &'a InstanceTypeInfo,
    /// Name of the image, which decides how the user data is read.
    pub(super) image_name: &'a str,
    /// Role of the instance; `None` if its profile does not exist any more.
    pub(super) role: Option<&'a str>,
    /// True if the cluster has an access entry for the role.
    pub(super) is_role_mapped: bool,
}

/// Reason why an instance does not join the cluster.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JoinProblem {
    #[error(transparent)]
    UserData(#[from] UserDataProblem),
    #[error("the user data is for the cluster {found}, and this is {expected}: the API server answers Unauthorized")]
    OtherCluster { found: String, expected: String },
    #[error("the API server of the user data does not exist: {found}; this one is {expected}")]
    OtherEndpoint { found: String, expected: String },
    #[error("the CA certificate of the user data is not that of the API server")]
    OtherCertificateAuthority,
    #[error("the user data has no range of Service addresses, which nodeadm requires")]
    NoServiceRange,
    #[error("EKS has no cluster {0}, so the image finds no API server")]
    UnknownCluster(String),
    #[error("the instance has no role: its instance profile has been deleted, so the kubelet has no credentials")]
    NoRole,
    #[error("the cluster has no access entry for the role {0}: the API server answers Unauthorized")]
    RoleNotMapped(String),
    #[error("the kubelet rejects its configuration: {0}")]
    Kubelet(String),
}

/// Returns the Node that the instance registers at the end of its boot.
pub(super) fn node_registration(
    launched: &LaunchedInstance,
    place: InstancePlace<'_>,
) -> Result<NodeRegistration, JoinProblem> {
    let config = BootConfig::read(place.image_name, &launched.template.user_data)?;
    check_cluster(&config, place)?;
    check_role(launched, place)?;
    check_labels(&config)?;
    let instance = &launched.instance;
    let name = instance.private_dns_name.clone();
    let mut labels: BTreeMap<String, String> = config.labels.iter().cloned().collect();
    labels.extend(place_labels(launched, place, &name));
    let resources = resources(&config, launched, place.instance_type)?;
    Ok(NodeRegistration {
        name,
        labels,
        annotations: BTreeMap::new(),
        taints: taints(&config.kubelet)?,
        capacity: resources.iter().map(|(name, amount)| (name.clone(), amount.capacity())).collect(),
        allocatable: resources.iter().map(|(name, amount)| (name.clone(), amount.allocatable())).collect(),
    })
}

/// A node that was given another cluster's data cannot reach this API server.
fn check_cluster(config: &BootConfig, place: InstancePlace<'_>) -> Result<(), JoinProblem> {
    let expected = place.cluster.endpoint.clone().unwrap_or_default();
    match &config.endpoint {
        None if config.cluster_name != place.cluster_name => {
            return Err(JoinProblem::UnknownCluster(config.cluster_name.clone()));
        }
        Some(found) if *found != expected => {
            return Err(JoinProblem::OtherEndpoint { found: found.clone(), expected });
        }
        Some(_) | None => {}
    }
    let authority = place.cluster.certificate_authority.as_ref();
    let has_wrong_authority = |found: &String| authority.is_some_and(|authority| authority != found);
    if config.certificate_authority.as_ref().is_some_and(has_wrong_authority) {
        return Err(JoinProblem::OtherCertificateAuthority);
    }
    if config.cluster_name != place.cluster_name {
        let (found, expected) = (config.cluster_name.clone(), place.cluster_name.to_owned());
        return Err(JoinProblem::OtherCluster { found, expected });
    }
    if config.software == BootSoftware::Nodeadm && config.cidr.is_empty() {
        return Err(JoinProblem::NoServiceRange);
    }
    Ok(())
}

/// The kubelet authenticates with the role of the instance. An instance without a profile has
/// credentials of its own.
fn check_role(launched: &LaunchedInstance, place: InstancePlace<'_>) -> Result<(), JoinProblem> {
    match place.role {
        _ if launched.template.instance_profile.is_empty() => Ok(()),
        None => Err(JoinProblem::NoRole),
        Some(role) if !place.is_role_mapped => Err(JoinProblem::RoleNotMapped(role.to_owned())),
        Some(_) => Ok(()),
    }
}

/// A kubelet does not start with labels of Kubernetes' own domains, except some.
fn check_labels(config: &BootConfig) -> Result<(), JoinProblem> {
    let is_in = |key: &str, domains: &[&str]| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        domains.iter().any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let is_restricted = |key: &str| {
        is_in(key, &RESTRICTED_DOMAINS) && !is_in(key, &PERMITTED_DOMAINS) && !PERMITTED_LABELS.contains(&key)
    };
    let keys = config.labels.iter().map(|(key, _)| key.as_str());
    let rejected: Vec<&str> = keys.filter(|key| is_restricted(key)).collect();
    if rejected.is_empty() {
        return Ok(());
    }
    let rejected = rejected.join(" ");
    Err(JoinProblem::Kubelet(format!(
        "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{rejected}]"
    )))
}

/// Returns the labels of the kubelet itself and of the cloud controller manager. They win over
/// those of the user data.
fn place_labels(
    launched: &LaunchedInstance,
    place: InstancePlace<'_>,
    node_name: &str,
) -> impl Iterator<Item = (String, String)> {
    let instance = &launched.instance;
    let architectures = place.instance_type.processor.iter().flat_map(|processor| &processor.supported_architectures);
    let arch = architectures
        .map(|name| if name == "x86_64" { "amd64" } else { name.as_str() })
        .find(|name| ["amd64", "arm64"].contains(name))
        .unwrap_or("amd64");
    let build = boot::windows_build(place.image_name);
    let os = if build.is_some() { "windows" } else { "linux" };
    [
        ("kubernetes.io/hostname", node_name),
        ("kubernetes.io/os", os),
        ("kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", os),
        ("node.kubernetes.io/windows-build", build.unwrap_or_default()),
        ("beta.kubernetes.io/arch", arch),
        ("node.kubernetes.io/instance-type", &instance.instance_type),
        ("beta.kubernetes.io/instance-type", &instance.instance_type),
        ("topology.kubernetes.io/zone", &instance.zone),
        ("failure-domain.beta.kubernetes.io/zone", &instance.zone),
        ("topology.kubernetes.io/region", place.region),
        ("failure-domain.beta.kubernetes.io/region", place.region),
        ("topology.k8s.aws/zone-id", &instance.zone_id),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
}

fn taints(kubelet: &Map<String, Value>) -> Result<Vec<Taint>, JoinProblem> {
    let taints = kubelet.get("registerWithTaints").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    serde_json::from_value(taints).map_err(|error| JoinProblem::Kubelet(format!("registerWithTaints: {error}")))
}

/// A resource of the node, in thousandths for CPU and in units for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount {
    total: i64,
    reserved: i64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Millicores,
    Bytes,
    Count,
}

impl Amount {
    fn unreserved(total: i64) -> Self {
        Self { total, reserved: 0, unit: Unit::Count }
    }

    fn capacity(self) -> ApiQuantity {
        self.unit.quantity(self.total)
    }

    fn allocatable(self) -> ApiQuantity {
        self.unit.quantity(self.total.saturating_sub(self.reserved).max(0))
    }
}

impl Unit {
    fn quantity(self, amount: i64) -> ApiQuantity {
        let quantity = match self {
            Self::Millicores => Quantity::from_nanos(i128::from(amount) * 1_000_000, QuantityFormat::DecimalSi),
            Self::Bytes => Quantity::from_nanos(i128::from(amount) * 1_000_000_000, QuantityFormat::BinarySi),
            Self::Count => Quantity::from_units(amount),
        };
        ApiQuantity(quantity.to_string())
    }
}

/// Returns the resources that the kubelet reports, with those of device plugins.
fn resources(
    config: &BootConfig,
    launched: &LaunchedInstance,
    info: &InstanceTypeInfo,
) -> Result<BTreeMap<String, Amount>, JoinProblem> {
    let kubelet = KubeletConfig(&config.kubelet);
    let cores = i64::from(info.vcpus.default_vcpus);
    let memory = info.memory.size_mib.saturating_mul(1024).saturating_mul(100 - HIDDEN_MEMORY_PERCENT) / 100 * KIB;
    let storage = ephemeral_storage(config, launched, info);
    let default_pods = match config.software {
        BootSoftware::BootstrapScript | BootSoftware::Bottlerocket => eni_limited_pods(info),
        BootSoftware::Nodeadm | BootSoftware::Windows => DEFAULT_MAX_PODS,
    };
    let max_pods = kubelet.integer("maxPods")?.unwrap_or(default_pods);
    let pods = match kubelet.integer("podsPerCore")? {
        Some(per_core) if per_core > 0 => max_pods.min(per_core.saturating_mul(cores)),
        Some(_) | None => max_pods,
    };
    let reserved = |resource: &str, default: i64, of: fn(Quantity) -> i64| -> Result<i64, JoinProblem> {
        let kube = kubelet.quantity("kubeReserved", resource)?.map_or(default, of);
        Ok(kube.saturating_add(kubelet.quantity("systemReserved", resource)?.map_or(0, of)))
    };
    let pods_of_memory = match config.software {
        BootSoftware::Nodeadm | BootSoftware::BootstrapScript => eni_limited_pods(info),
        BootSoftware::Bottlerocket | BootSoftware::Windows => pods,
    };
    let default_memory = pods_of_memory.saturating_mul(11).saturating_add(255).saturating_mul(MIB);
    let memory_threshold = kubelet.eviction_threshold("memory.available", memory)?.unwrap_or(100 * MIB);
    let storage_threshold = kubelet.eviction_threshold("nodefs.available", storage)?.unwrap_or(storage / 10);
    let mut resources = BTreeMap::from([
        (
            "cpu".to_owned(),
            Amount {
                total: cores.saturating_mul(1_000),
                reserved: reserved("cpu", reserved_millicores(cores), Quantity::milli_value)?,
                unit: Unit::Millicores,
            },
        ),
        (
            "memory".to_owned(),
            Amount {
                total: memory,
                reserved: reserved("memory", default_memory, Quantity::value)?.saturating_add(memory_threshold),
                unit: Unit::Bytes,
            },
        ),
        (
            "ephemeral-storage".to_owned(),
            Amount {
                total: storage,
                reserved: reserved("ephemeral-storage", GIB, Quantity::value)?.saturating_add(storage_threshold),
                unit: Unit::Bytes,
            },
        ),
        ("pods".to_owned(), Amount::unreserved(pods)),
        ("hugepages-1Gi".to_owned(), Amount::unreserved(0)),
        ("hugepages-2Mi".to_owned(), Amount::unreserved(0)),
    ]);
    resources.extend(device_plugin_resources(info));
    Ok(resources)
}

/// Returns the accelerators that device plugins report.
fn device_plugin_resources(info: &InstanceTypeInfo) -> impl Iterator<Item = (String, Amount)> {
    let gpus = |manufacturer: &str| -> i64 {
        let gpus = info.gpus.iter().flat_map(|gpus| &gpus.gpus);
        gpus.filter(|gpu| gpu.manufacturer == manufacturer).map(|gpu| i64::from(gpu.count)).sum()
    };
    let devices = info.neuron.as_ref().map_or(&[][..], |neuron| &neuron.neuron_devices);
    let cores = devices.first().map_or(0, |first| i64::from(first.count) * i64::from(first.core_info.count));
    [
        ("nvidia.com/gpu", gpus("NVIDIA")),
        ("amd.com/gpu", gpus("AMD")),
        ("habana.ai/gaudi", gpus("Habana")),
        ("aws.amazon.com/neuron", devices.iter().map(|device| i64::from(device.count)).sum()),
        ("aws.amazon.com/neuroncore", cores),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| (name.to_owned(), Amount::unreserved(count)))
}

/// Returns the size of the local disks with RAID0, else of the volume with the pods' files.
fn ephemeral_storage(config: &BootConfig, launched: &LaunchedInstance, info: &InstanceTypeInfo) -> i64 {
    let local_disks = info.storage.as_ref().and_then(|storage| storage.total_size_gb).filter(|_| config.uses_raid0);
    if let Some(gigabytes) = local_disks {
        return gigabytes.saturating_mul(1_000_000_000);
    }
    let devices = &launched.template.block_devices;
    let has_name = |name: &str| devices.iter().find(|device| device.device_name.as_deref() == Some(name));
    let (device, default_gib) = match config.software {
        BootSoftware::Bottlerocket => (has_name("/dev/xvdb"), DEFAULT_ROOT_GIB),
        BootSoftware::Windows => (has_name("/dev/sda1"), DEFAULT_WINDOWS_ROOT_GIB),
        BootSoftware::Nodeadm | BootSoftware::BootstrapScript => {
            (has_name("/dev/xvda").or(devices.first()), DEFAULT_ROOT_GIB)
        }
    };
    device.and_then(|device| device.volume_size_gib).map_or(default_gib, i64::from).saturating_mul(GIB)
}

/// Returns nodeadm's number of pods by the addresses of the network interfaces.
fn eni_limited_pods(info: &InstanceTypeInfo) -> i64 {
    let network = &info.network;
    let card = network.network_cards.iter().find(|card| card.network_card_index == network.default_network_card_index);
    let interfaces = card.map_or(network.maximum_network_interfaces, |card| card.maximum_network_interfaces);
    i64::from(interfaces) * (i64::from(network.ipv4_addresses_per_interface) - 1).max(0) + 2
}

/// Returns nodeadm's reservation of CPU: 6% of the first core, 1% of the second, 0.5% of the next
/// two and 0.25% of all others.
fn reserved_millicores(cores: i64) -> i64 {
    let beyond = |first: i64, last: i64| (cores.min(last) - first).max(0);
    beyond(0, 1) * 60 + beyond(1, 2) * 10 + beyond(2, 4) * 5 + beyond(4, i64::MAX) * 5 / 2
}

/// Fields of a `KubeletConfiguration`.
struct KubeletConfig<'a>(&'a Map<String, Value>);

impl KubeletConfig<'_> {
    fn integer(&self, field: &str) -> Result<Option<i64>, JoinProblem> {
        match self.0.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(JoinProblem::Kubelet(format!("{field} must be a whole number, and is {value}"))),
            },
        }
    }

    fn quantity(&self, field: &str, resource: &str) -> Result<Option<Quantity>, JoinProblem> {
        let Some(value) = self.0.get(field).and_then(|map| map.get(resource)) else { return Ok(None) };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse().map(Some).map_err(|error| JoinProblem::Kubelet(format!("{field}.{resource}: {error}")))
    }

    /// Returns the threshold of `evictionHard`, a quantity or a percentage of `total`.
    fn eviction_threshold(&self, signal: &str, total: i64) -> Result<Option<i64>, JoinProblem> {
        let value = self.0.get("evictionHard").and_then(|map| map.get(signal)).and_then(Value::as_str);
        let Some(percent) = value.and_then(|value| value.strip_suffix('%')) else {
            return Ok(self.quantity("evictionHard", signal)?.map(Quantity::value));
        };
        let percent: f64 = percent
            .parse()
            .map_err(|_| JoinProblem::Kubelet(format!("evictionHard.{signal}: {percent}% is no percentage")))?;
        Ok(Some((total as f64 * percent / 100.0) as i64))
    }
}

#[cfg(test)]
mod tests;
