//! The hash of how EC2 instances are made.

use super::kubelet::canonical_json;
use super::structure::{StructHasher, flag, int32, int64, list, map, non_empty, text};
use crate::ec2nodeclass::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, MetadataOptions,
    NetworkInterface, PlacementGroupSelector,
};
use crate::quantity::{Quantity, QuantityError};

/// The hash of a node class, as the annotation `karpenter.k8s.aws/ec2nodeclass-hash` carries it in decimal. `ca_bundle` is the
/// cluster's, in base64, or empty. A volume size that is no quantity leaves the class without a hash.
pub fn ec2nodeclass_hash(spec: &EC2NodeClassSpec, ca_bundle: &str) -> Result<u64, QuantityError> {
    Ok(list([
        spec_record(spec)?,
        text(spec.effective_ami_family().as_str()),
        text(ca_bundle),
        text(&canonical_json(spec.kubelet.as_ref())),
    ]))
}

fn spec_record(spec: &EC2NodeClassSpec) -> Result<u64, QuantityError> {
    let devices = spec.block_device_mappings.as_ref();
    let devices = devices.map(|all| all.iter().map(device_mapping).collect::<Result<Vec<_>, _>>()).transpose()?;
    Ok(StructHasher::named("EC2NodeClassSpec")
        .field("PlacementGroupSelector", spec.placement_group_selector.as_ref().map(placement_group))
        .field("AssociatePublicIPAddress", spec.associate_public_ip_address.map(flag))
        .field("UserData", spec.user_data.as_deref().map(text))
        .field("Role", spec.role.as_deref().and_then(non_empty))
        .field("InstanceProfile", spec.instance_profile.as_deref().map(text))
        .field("Tags", spec.tags.as_ref().map(map))
        .field("BlockDeviceMappings", devices.map(list))
        .field("InstanceStorePolicy", spec.instance_store_policy.as_ref().map(|policy| text(policy.as_str())))
        .field("NetworkInterfaces", spec.network_interfaces.as_ref().map(|all| list(all.iter().map(network_interface))))
        .field("DetailedMonitoring", spec.detailed_monitoring.map(flag))
        .field("MetadataOptions", spec.metadata_options.as_ref().map(metadata_options))
        .field("ConnectionTracking", spec.connection_tracking.as_ref().map(connection_tracking))
        .field("Context", spec.context.as_deref().map(text))
        .field("CPUOptions", spec.cpu_options.as_ref().map(cpu_options))
        .hash())
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    StructHasher::named("PlacementGroupSelector")
        .field("Name", selector.name.as_deref().map(text))
        .field("ID", selector.id.as_deref().map(text))
        .hash()
}

fn device_mapping(mapping: &BlockDeviceMapping) -> Result<u64, QuantityError> {
    Ok(StructHasher::named("BlockDeviceMapping")
        .field("DeviceName", mapping.device_name.as_deref().map(text))
        .field("EBS", mapping.ebs.as_ref().map(block_device).transpose()?)
        .field("RootVolume", mapping.root_volume.filter(|is_root| *is_root).map(flag))
        .hash())
}

fn block_device(device: &BlockDevice) -> Result<u64, QuantityError> {
    let size = device.volume_size.as_ref().map(|size| size.text().parse::<Quantity>()).transpose()?;
    Ok(StructHasher::named("BlockDevice")
        .field("DeleteOnTermination", device.delete_on_termination.map(flag))
        .field("Encrypted", device.encrypted.map(flag))
        .field("IOPS", device.iops.map(int64))
        .field("KMSKeyID", device.kms_key_id.as_deref().map(text))
        .field("SnapshotID", device.snapshot_id.as_deref().map(text))
        .field("Throughput", device.throughput.map(int64))
        .field("VolumeInitializationRate", device.volume_initialization_rate.map(int32))
        .field("VolumeSize", size.map(|size| text(&size.to_string())))
        .field("VolumeType", device.volume_type.as_deref().map(text))
        .hash())
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    let index = |index: i32| (index != 0).then(|| int32(index));
    StructHasher::named("NetworkInterface")
        .field("NetworkCardIndex", index(interface.network_card_index))
        .field("DeviceIndex", index(interface.device_index))
        .field("InterfaceType", non_empty(interface.interface_type.as_str()))
        .hash()
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    StructHasher::named("MetadataOptions")
        .field("HTTPEndpoint", options.http_endpoint.as_deref().map(text))
        .field("HTTPProtocolIPv6", options.http_protocol_ipv6.as_deref().map(text))
        .field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit.map(int64))
        .field("HTTPTokens", options.http_tokens.as_deref().map(text))
        .hash()
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    StructHasher::named("ConnectionTracking")
        .field("TCPEstablishedTimeout", tracking.tcp_established_timeout.map(int32))
        .field("UDPStreamTimeout", tracking.udp_stream_timeout.map(int32))
        .field("UDPTimeout", tracking.udp_timeout.map(int32))
        .hash()
}

fn cpu_options(options: &CpuOptions) -> u64 {
    StructHasher::named("CPUOptions")
        .field("NestedVirtualization", options.nested_virtualization.as_deref().map(text))
        .hash()
}
