//! Drift hash of an EC2NodeClass.

use super::kubelet::canonical_json;
use super::kubelet_v5::hash_kubelet;
use super::structure::{StructHasher, hash_bool, hash_i32, hash_i64, hash_list, hash_map, hash_non_empty, hash_text};
use crate::ec2nodeclass::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, EnclaveOptions, MetadataOptions,
    NetworkInterface, PlacementGroupSelector,
};
use crate::quantity::{Quantity, QuantityError};

/// Returns the hash of a node class; the annotation `karpenter.k8s.aws/ec2nodeclass-hash` contains
/// it in decimal. `ca_bundle` is the cluster's CA bundle in base64, or empty. Fails if a volume
/// size is not a quantity.
pub fn ec2nodeclass_hash(spec: &EC2NodeClassSpec, ca_bundle: &str) -> Result<u64, QuantityError> {
    Ok(hash_list([
        hash_spec(spec, VersionedFields { kubelet: None, enclave_options: enclave_options(spec) })?,
        hash_text(spec.effective_ami_family().as_str()),
        hash_text(ca_bundle),
        hash_text(&canonical_json(spec.kubelet.as_ref())),
    ]))
}

/// Reason why a node class has no hash of version `v5`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashV5Error {
    /// A volume size is not a quantity.
    #[error(transparent)]
    VolumeSize(#[from] QuantityError),
    /// `spec.kubelet` has a field that Karpenter 1.14 cannot read.
    #[error("spec.kubelet: {0}")]
    Kubelet(String),
}

/// Returns the hash of version
/// [`EC2NODECLASS_HASH_VERSION_V5`](super::EC2NODECLASS_HASH_VERSION_V5), which Karpenter 1.12 to
/// 1.14 write. The migration to the current version compares it, in order
/// to see if a class was edited just before.
pub fn ec2nodeclass_hash_v5(spec: &EC2NodeClassSpec, ca_bundle: &str) -> Result<u64, HashV5Error> {
    let kubelet = spec.kubelet.as_ref().map(hash_kubelet).transpose().map_err(HashV5Error::Kubelet)?;
    let spec_hash = hash_spec(spec, VersionedFields { kubelet, enclave_options: None })?;
    Ok(hash_list([spec_hash, hash_text(spec.effective_ami_family().as_str()), hash_text(ca_bundle)]))
}

/// Hashes of the fields that not every version has; `None` if the field is not hashed.
struct VersionedFields {
    /// Only in `v5`.
    kubelet: Option<u64>,
    /// Unknown to `v5`.
    enclave_options: Option<u64>,
}

fn hash_spec(spec: &EC2NodeClassSpec, versioned: VersionedFields) -> Result<u64, QuantityError> {
    let devices = spec.block_device_mappings.as_ref();
    let devices = devices.map(|all| all.iter().map(device_mapping).collect::<Result<Vec<_>, _>>()).transpose()?;
    Ok(StructHasher::named("EC2NodeClassSpec")
        .field("PlacementGroupSelector", spec.placement_group_selector.as_ref().map(placement_group))
        .field("AssociatePublicIPAddress", spec.associate_public_ip_address.map(hash_bool))
        .field("UserData", spec.user_data.as_deref().map(hash_text))
        .field("Role", spec.role.as_deref().and_then(hash_non_empty))
        .field("InstanceProfile", spec.instance_profile.as_deref().map(hash_text))
        .field("Tags", spec.tags.as_ref().map(hash_map))
        .field("Kubelet", versioned.kubelet)
        .field("BlockDeviceMappings", devices.map(hash_list))
        .field("InstanceStorePolicy", spec.instance_store_policy.as_ref().map(|policy| hash_text(policy.as_str())))
        .field(
            "NetworkInterfaces",
            spec.network_interfaces.as_ref().map(|all| hash_list(all.iter().map(network_interface))),
        )
        .field("DetailedMonitoring", spec.detailed_monitoring.map(hash_bool))
        .field("MetadataOptions", spec.metadata_options.as_ref().map(metadata_options))
        .field("ConnectionTracking", spec.connection_tracking.as_ref().map(connection_tracking))
        .field("Context", spec.context.as_deref().map(hash_text))
        .field("CPUOptions", spec.cpu_options.as_ref().map(cpu_options))
        .field("EnclaveOptions", versioned.enclave_options)
        .finish())
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    StructHasher::named("PlacementGroupSelector")
        .field("Name", selector.name.as_deref().map(hash_text))
        .field("ID", selector.id.as_deref().map(hash_text))
        .finish()
}

fn device_mapping(mapping: &BlockDeviceMapping) -> Result<u64, QuantityError> {
    Ok(StructHasher::named("BlockDeviceMapping")
        .field("DeviceName", mapping.device_name.as_deref().map(hash_text))
        .field("EBS", mapping.ebs.as_ref().map(block_device).transpose()?)
        .field("RootVolume", mapping.root_volume.filter(|is_root| *is_root).map(hash_bool))
        .finish())
}

fn block_device(device: &BlockDevice) -> Result<u64, QuantityError> {
    let size = device.volume_size.as_ref().map(|size| size.text().parse::<Quantity>()).transpose()?;
    Ok(StructHasher::named("BlockDevice")
        .field("DeleteOnTermination", device.delete_on_termination.map(hash_bool))
        .field("Encrypted", device.encrypted.map(hash_bool))
        .field("IOPS", device.iops.map(hash_i64))
        .field("KMSKeyID", device.kms_key_id.as_deref().map(hash_text))
        .field("SnapshotID", device.snapshot_id.as_deref().map(hash_text))
        .field("Throughput", device.throughput.map(hash_i64))
        .field("VolumeInitializationRate", device.volume_initialization_rate.map(hash_i32))
        .field("VolumeSize", size.map(|size| hash_text(&size.to_string())))
        .field("VolumeType", device.volume_type.as_deref().map(hash_text))
        .finish())
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    let index = |index: i32| (index != 0).then(|| hash_i32(index));
    StructHasher::named("NetworkInterface")
        .field("NetworkCardIndex", index(interface.network_card_index))
        .field("DeviceIndex", index(interface.device_index))
        .field("InterfaceType", hash_non_empty(interface.interface_type.as_str()))
        .finish()
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    StructHasher::named("MetadataOptions")
        .field("HTTPEndpoint", options.http_endpoint.as_deref().map(hash_text))
        .field("HTTPProtocolIPv6", options.http_protocol_ipv6.as_deref().map(hash_text))
        .field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit.map(hash_i64))
        .field("HTTPTokens", options.http_tokens.as_deref().map(hash_text))
        .finish()
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    StructHasher::named("ConnectionTracking")
        .field("TCPEstablishedTimeout", tracking.tcp_established_timeout.map(hash_i32))
        .field("UDPStreamTimeout", tracking.udp_stream_timeout.map(hash_i32))
        .field("UDPTimeout", tracking.udp_timeout.map(hash_i32))
        .finish()
}

fn cpu_options(options: &CpuOptions) -> u64 {
    StructHasher::named("CPUOptions")
        .field("NestedVirtualization", options.nested_virtualization.as_deref().map(hash_text))
        .finish()
}

/// Returns the hash of the enclave options, which no release of Karpenter hashes yet (spec 10
/// §12.5). An absent block adds nothing.
fn enclave_options(spec: &EC2NodeClassSpec) -> Option<u64> {
    let EnclaveOptions { enabled } = spec.enclave_options.as_ref()?;
    let enabled = if *enabled { Some(hash_bool(true)) } else { None };
    Some(StructHasher::named("EnclaveOptions").field("Enabled", enabled).finish())
}
