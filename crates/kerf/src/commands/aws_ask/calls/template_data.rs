//! The content of a launch template as answers print it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kerf_aws::ports::ec2::{LaunchTemplateData, TemplateBlockDevice, TemplateNetworkInterface};
use serde_json::{Value, json};

use super::{is_set, set_members, tag_specifications};

pub(super) fn describe(data: &LaunchTemplateData) -> Value {
    let options = &data.metadata_options;
    let reservation = data.capacity_reservation.as_ref().map(|reservation| {
        set_members([
            ("CapacityReservationPreference", json!(reservation.preference)),
            ("CapacityReservationTarget", set_members([("CapacityReservationId", json!(reservation.reservation_id))])),
        ])
    });
    set_members([
        ("BlockDeviceMappings", data.block_devices.iter().map(block_device).filter(is_set).collect()),
        ("CapacityReservationSpecification", json!(reservation)),
        ("CpuOptions", set_members([("NestedVirtualization", json!(data.nested_virtualization))])),
        ("EnclaveOptions", json!({ "Enabled": data.enclave })),
        ("IamInstanceProfile", set_members([("Name", json!(data.instance_profile))])),
        ("ImageId", json!(data.image_id)),
        ("InstanceMarketOptions", set_members([("MarketType", json!(data.market_type))])),
        (
            "MetadataOptions",
            set_members([
                ("HttpEndpoint", json!(options.http_endpoint)),
                ("HttpProtocolIpv6", json!(options.http_protocol_ipv6)),
                ("HttpPutResponseHopLimit", json!(options.http_put_response_hop_limit)),
                ("HttpTokens", json!(options.http_tokens)),
                ("InstanceMetadataTags", json!(options.instance_metadata_tags)),
            ]),
        ),
        ("Monitoring", json!({ "Enabled": data.detailed_monitoring })),
        ("NetworkInterfaces", data.network_interfaces.iter().map(network_interface).collect()),
        (
            "Placement",
            set_members([
                ("GroupId", json!(data.placement.group_id)),
                ("PartitionNumber", json!(data.placement.partition_number)),
                ("Tenancy", json!(data.placement.tenancy)),
            ]),
        ),
        ("TagSpecifications", tag_specifications(&data.tags)),
        ("UserData", json!(decoded(&data.user_data))),
    ])
}

fn decoded(user_data: &str) -> String {
    let bytes = STANDARD.decode(user_data);
    match bytes.map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) | Err(_) => format!("(not base64) {user_data}"),
    }
}

fn block_device(device: &TemplateBlockDevice) -> Value {
    let ebs = set_members([
        ("DeleteOnTermination", json!(device.delete_on_termination)),
        ("Encrypted", json!(device.encrypted)),
        ("Iops", json!(device.iops)),
        ("KmsKeyId", json!(device.kms_key_id)),
        ("SnapshotId", json!(device.snapshot_id)),
        ("Throughput", json!(device.throughput)),
        ("VolumeInitializationRate", json!(device.volume_initialization_rate)),
        ("VolumeSize", json!(device.volume_size_gib)),
        ("VolumeType", json!(device.volume_type)),
    ]);
    set_members([("DeviceName", json!(device.device_name)), ("Ebs", ebs)])
}

fn network_interface(interface: &TemplateNetworkInterface) -> Value {
    let tracking = set_members([
        ("TcpEstablishedTimeout", json!(interface.tcp_established_timeout)),
        ("UdpStreamTimeout", json!(interface.udp_stream_timeout)),
        ("UdpTimeout", json!(interface.udp_timeout)),
    ]);
    set_members([
        ("AssociatePublicIpAddress", json!(interface.associate_public_ip)),
        ("ConnectionTrackingSpecification", tracking),
        ("DeviceIndex", json!(interface.device_index)),
        ("Groups", json!(interface.security_group_ids)),
        ("InterfaceType", json!(interface.interface_type)),
        ("Ipv4PrefixCount", json!(interface.ipv4_prefix_count)),
        ("Ipv6AddressCount", json!(interface.ipv6_address_count)),
        ("Ipv6PrefixCount", json!(interface.ipv6_prefix_count)),
        ("NetworkCardIndex", json!(interface.network_card_index)),
        ("PrimaryIpv6", json!(interface.primary_ipv6)),
    ])
}
