//! Launch templates. Only what a template sets is sent, because EC2 tells a missing field from an
//! empty one.

use aws_sdk_ec2::types;
use kerf_aws::ports::Tags;
use kerf_aws::ports::ec2::{
    LaunchTemplate, LaunchTemplateData, TagSpecification, TemplateBlockDevice, TemplateCapacityReservation,
    TemplateMetadataOptions, TemplateNetworkInterface, TemplatePlacement,
};

use crate::convert::{sent_list, sent_tag_specifications, sent_tags, sent_text, tags};

pub(super) fn launch_template(template: types::LaunchTemplate) -> LaunchTemplate {
    LaunchTemplate {
        id: template.launch_template_id.unwrap_or_default(),
        name: template.launch_template_name.unwrap_or_default(),
        tags: tags(template.tags),
    }
}

/// Returns the tags of the template itself.
pub(super) fn sent_template_tags(tags: Tags) -> Option<Vec<types::TagSpecification>> {
    sent_tag_specifications(vec![TagSpecification { resource_type: "launch-template", tags }])
}

pub(super) fn sent_data(data: LaunchTemplateData) -> types::RequestLaunchTemplateData {
    let profile = sent_text(data.instance_profile)
        .map(|name| types::LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(name).build());
    let cpu_options = data.nested_virtualization.map(|value| {
        types::LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(value.as_str().into()).build()
    });
    let market_options = data.market_type.map(|market_type| {
        types::LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(market_type.as_str().into()).build()
    });
    let enclave = data.enclave.then(|| types::LaunchTemplateEnclaveOptionsRequest::builder().enabled(true).build());
    types::RequestLaunchTemplateData::builder()
        .set_image_id(sent_text(data.image_id))
        .set_iam_instance_profile(profile)
        .monitoring(types::LaunchTemplatesMonitoringRequest::builder().enabled(data.detailed_monitoring).build())
        .set_user_data(sent_text(data.user_data))
        .set_block_device_mappings(sent_list(data.block_devices, block_device))
        .set_metadata_options(metadata_options(data.metadata_options))
        .set_cpu_options(cpu_options)
        .set_network_interfaces(sent_list(data.network_interfaces, network_interface))
        .set_tag_specifications(tag_specifications(data.tags))
        .set_placement(placement(data.placement))
        .set_enclave_options(enclave)
        .set_capacity_reservation_specification(data.capacity_reservation.map(capacity_reservation))
        .set_instance_market_options(market_options)
        .build()
}

fn block_device(device: TemplateBlockDevice) -> types::LaunchTemplateBlockDeviceMappingRequest {
    let volume = types::LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(device.delete_on_termination)
        .set_encrypted(device.encrypted)
        .set_iops(device.iops)
        .set_kms_key_id(device.kms_key_id)
        .set_snapshot_id(device.snapshot_id)
        .set_throughput(device.throughput)
        .set_volume_initialization_rate(device.volume_initialization_rate)
        .set_volume_size(device.volume_size_gib)
        .set_volume_type(device.volume_type.map(|text| text.as_str().into()))
        .build();
    types::LaunchTemplateBlockDeviceMappingRequest::builder().set_device_name(device.device_name).ebs(volume).build()
}

fn metadata_options(options: TemplateMetadataOptions) -> Option<types::LaunchTemplateInstanceMetadataOptionsRequest> {
    if options == TemplateMetadataOptions::default() {
        return None;
    }
    let sent = types::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(options.http_endpoint.map(|text| text.as_str().into()))
        .set_http_protocol_ipv6(options.http_protocol_ipv6.map(|text| text.as_str().into()))
        .set_http_put_response_hop_limit(options.http_put_response_hop_limit)
        .set_http_tokens(options.http_tokens.map(|text| text.as_str().into()))
        .set_instance_metadata_tags(options.instance_metadata_tags.map(|text| text.as_str().into()));
    Some(sent.build())
}

fn network_interface(
    interface: TemplateNetworkInterface,
) -> types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let timeouts = (interface.tcp_established_timeout, interface.udp_stream_timeout, interface.udp_timeout);
    let connection_tracking = (timeouts != (None, None, None)).then(|| {
        types::ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(timeouts.0)
            .set_udp_stream_timeout(timeouts.1)
            .set_udp_timeout(timeouts.2)
            .build()
    });
    types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(interface.network_card_index)
        .device_index(interface.device_index)
        .set_interface_type(interface.interface_type)
        .set_groups(sent_list(interface.security_group_ids, |id| id))
        .set_associate_public_ip_address(interface.associate_public_ip)
        .set_ipv4_prefix_count(interface.ipv4_prefix_count)
        .set_ipv6_prefix_count(interface.ipv6_prefix_count)
        .set_ipv6_address_count(interface.ipv6_address_count)
        .set_primary_ipv6(interface.primary_ipv6)
        .set_connection_tracking_specification(connection_tracking)
        .build()
}

fn tag_specifications(
    specifications: Vec<TagSpecification>,
) -> Option<Vec<types::LaunchTemplateTagSpecificationRequest>> {
    sent_list(specifications, |specification| {
        types::LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(specification.resource_type.into())
            .set_tags(sent_tags(specification.tags))
            .build()
    })
}

fn placement(placement: TemplatePlacement) -> Option<types::LaunchTemplatePlacementRequest> {
    if placement == TemplatePlacement::default() {
        return None;
    }
    let sent = types::LaunchTemplatePlacementRequest::builder()
        .set_tenancy(sent_text(placement.tenancy).map(|text| text.as_str().into()))
        .set_group_id(placement.group_id)
        .set_partition_number(placement.partition_number);
    Some(sent.build())
}

fn capacity_reservation(
    reservation: TemplateCapacityReservation,
) -> types::LaunchTemplateCapacityReservationSpecificationRequest {
    let target = reservation
        .reservation_id
        .map(|id| types::CapacityReservationTarget::builder().capacity_reservation_id(id).build());
    types::LaunchTemplateCapacityReservationSpecificationRequest::builder()
        .set_capacity_reservation_preference(sent_text(reservation.preference).map(|text| text.as_str().into()))
        .set_capacity_reservation_target(target)
        .build()
}
