//! The content of a launch template in a request.

use super::super::query::QueryReader;
use super::read_tag_specifications;
use crate::ports::ec2::{
    LaunchTemplateData, TemplateBlockDevice, TemplateCapacityReservation, TemplateMetadataOptions,
    TemplateNetworkInterface, TemplatePlacement,
};

pub(in crate::http) fn read_template_data(data: &mut QueryReader<'_>) -> LaunchTemplateData {
    let mut network_interfaces = data.objects("NetworkInterface", read_network_interface);
    let security_group_ids = data.texts("SecurityGroupId");
    // EC2 gives these groups to the only interface of an instance.
    if network_interfaces.is_empty() && !security_group_ids.is_empty() {
        network_interfaces = vec![TemplateNetworkInterface { security_group_ids, ..Default::default() }];
    }
    let profile = data.object("IamInstanceProfile", |profile| profile.required_text("Name"));
    let is_enabled = |reader: &mut QueryReader<'_>| reader.boolean("Enabled").unwrap_or(false);
    LaunchTemplateData {
        image_id: data.text("ImageId").unwrap_or_default(),
        instance_profile: profile.unwrap_or_default(),
        detailed_monitoring: data.object("Monitoring", is_enabled).unwrap_or(false),
        user_data: data.text("UserData").unwrap_or_default(),
        block_devices: data.objects("BlockDeviceMapping", read_block_device),
        metadata_options: data.object("MetadataOptions", read_metadata_options).unwrap_or_default(),
        nested_virtualization: data.object("CpuOptions", |cpu| cpu.text("NestedVirtualization")).flatten(),
        network_interfaces,
        tags: read_tag_specifications(data),
        placement: data.object("Placement", read_placement).unwrap_or_default(),
        enclave: data.object("EnclaveOptions", is_enabled).unwrap_or(false),
        capacity_reservation: data.object("CapacityReservationSpecification", read_capacity_reservation),
        market_type: data.object("InstanceMarketOptions", |market| market.text("MarketType")).flatten(),
    }
}

fn read_block_device(device: &mut QueryReader<'_>) -> TemplateBlockDevice {
    let device_name = device.text("DeviceName");
    let ebs = device.object("Ebs", |ebs| TemplateBlockDevice {
        device_name: None,
        delete_on_termination: ebs.boolean("DeleteOnTermination"),
        encrypted: ebs.boolean("Encrypted"),
        iops: ebs.number("Iops"),
        kms_key_id: ebs.text("KmsKeyId"),
        snapshot_id: ebs.text("SnapshotId"),
        throughput: ebs.number("Throughput"),
        volume_initialization_rate: ebs.number("VolumeInitializationRate"),
        volume_size_gib: ebs.number("VolumeSize"),
        volume_type: ebs.text("VolumeType"),
    });
    TemplateBlockDevice { device_name, ..ebs.unwrap_or_default() }
}

fn read_metadata_options(options: &mut QueryReader<'_>) -> TemplateMetadataOptions {
    TemplateMetadataOptions {
        http_endpoint: options.text("HttpEndpoint"),
        http_protocol_ipv6: options.text("HttpProtocolIpv6"),
        http_put_response_hop_limit: options.number("HttpPutResponseHopLimit"),
        http_tokens: options.text("HttpTokens"),
        instance_metadata_tags: options.text("InstanceMetadataTags"),
    }
}

fn read_network_interface(interface: &mut QueryReader<'_>) -> TemplateNetworkInterface {
    let tracking = interface.object("ConnectionTrackingSpecification", |tracking| TemplateNetworkInterface {
        tcp_established_timeout: tracking.number("TcpEstablishedTimeout"),
        udp_stream_timeout: tracking.number("UdpStreamTimeout"),
        udp_timeout: tracking.number("UdpTimeout"),
        ..Default::default()
    });
    TemplateNetworkInterface {
        network_card_index: interface.number("NetworkCardIndex"),
        device_index: interface.number("DeviceIndex").unwrap_or_default(),
        interface_type: interface.text("InterfaceType"),
        security_group_ids: interface.texts("SecurityGroupId"),
        associate_public_ip: interface.boolean("AssociatePublicIpAddress"),
        ipv4_prefix_count: interface.number("Ipv4PrefixCount"),
        ipv6_prefix_count: interface.number("Ipv6PrefixCount"),
        ipv6_address_count: interface.number("Ipv6AddressCount"),
        primary_ipv6: interface.boolean("PrimaryIpv6"),
        ..tracking.unwrap_or_default()
    }
}

fn read_placement(placement: &mut QueryReader<'_>) -> TemplatePlacement {
    TemplatePlacement {
        tenancy: placement.text("Tenancy").unwrap_or_default(),
        group_id: placement.text("GroupId"),
        partition_number: placement.number("PartitionNumber"),
    }
}

fn read_capacity_reservation(specification: &mut QueryReader<'_>) -> TemplateCapacityReservation {
    let target = specification.object("CapacityReservationTarget", |target| target.text("CapacityReservationId"));
    TemplateCapacityReservation {
        preference: specification.text("CapacityReservationPreference").unwrap_or_default(),
        reservation_id: target.flatten(),
    }
}
