//! The content of a launch template (spec 05 §13.4, §13.5).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kerf_api::ec2nodeclass::{BlockDeviceMapping, ConnectionTracking, InstanceStorePolicy, InterfaceType};
use kerf_api::labels;
use kerf_api::quantity::{Quantity, QuantityError};

use super::input::LaunchTemplateInput;
use crate::instance_types::ami_family::AmiFamilyRules;
use crate::ports::ec2::{
    LaunchTemplateData, TagSpecification, TemplateBlockDevice, TemplateCapacityReservation, TemplateMetadataOptions,
    TemplateNetworkInterface, TemplatePlacement,
};
use crate::user_data::{self, UserDataError, UserDataInput};

/// Regions whose metadata service has no IPv6 setting.
const REGIONS_WITHOUT_METADATA_IPV6: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];
/// Size of user data from which a message is logged: 90% of EC2's limit of 16,384 bytes.
const USER_DATA_WARN_BYTES: usize = 14_745;
/// EC2's limit of user data in bytes.
const USER_DATA_MAX_BYTES: usize = 16_384;
const BYTES_PER_GIB: i64 = 1 << 30;

/// Reason why the content of a template cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchTemplateContentError {
    /// User data cannot be rendered.
    #[error(transparent)]
    UserData(#[from] UserDataError),
    /// A block device has an invalid size.
    #[error("spec.blockDeviceMappings[{index}].ebs.volumeSize: {source}")]
    VolumeSize {
        /// Position in the list.
        index: usize,
        /// The reason, with the text.
        source: QuantityError,
    },
}

impl LaunchTemplateInput<'_> {
    /// Returns the content of the template, with the rendered user data.
    pub fn content(&self) -> Result<LaunchTemplateData, LaunchTemplateContentError> {
        Ok(LaunchTemplateData {
            image_id: self.image_id.to_owned(),
            instance_profile: self.instance_profile.to_owned(),
            detailed_monitoring: self.class.detailed_monitoring.unwrap_or(false),
            user_data: STANDARD.encode(self.user_data()?),
            block_devices: self.block_devices()?,
            metadata_options: self.metadata_options(),
            nested_virtualization: self.class.cpu_options.as_ref().and_then(|cpu| cpu.nested_virtualization.clone()),
            network_interfaces: self.network_interfaces(),
            tags: self.tag_specifications(),
            placement: TemplatePlacement {
                tenancy: self.tenancy.to_owned(),
                group_id: self.placement_group_id.clone(),
                partition_number: self.partition,
            },
            enclave: self.needs_enclave,
            capacity_reservation: self.capacity_reservation(),
            market_type: self.market_type(),
        })
    }

    pub(super) fn family(&self) -> &'static AmiFamilyRules {
        AmiFamilyRules::of(&self.class.effective_ami_family())
    }

    fn user_data(&self) -> Result<String, UserDataError> {
        let input = UserDataInput {
            cluster_name: self.cluster_name,
            cluster: self.cluster,
            kubelet: self.class.kubelet.as_ref(),
            resolved_kubelet: self.kubelet,
            max_pods: self.max_pods,
            labels: &self.labels,
            taints: &self.taints,
            custom: self.class.user_data.as_deref(),
            uses_raid0: self.class.instance_store_policy == Some(InstanceStorePolicy::Raid0),
            bind_command: user_data::bind_command(&self.class.ami_selector_terms, self.amis),
        };
        let text = user_data::render(self.family(), &input)?;
        if let Some(message) = size_warning(text.len()) {
            tracing::info!(EC2NodeClass = self.class_name, bytes = text.len(), "{message}");
        }
        Ok(text)
    }

    fn block_devices(&self) -> Result<Vec<TemplateBlockDevice>, LaunchTemplateContentError> {
        let own = self.class.block_device_mappings.as_deref().unwrap_or_default();
        if !own.is_empty() {
            return own.iter().enumerate().map(|(index, mapping)| block_device(index, mapping)).collect();
        }
        let defaults = self.family().default_devices.iter();
        let defaults = defaults.map(|device| TemplateBlockDevice {
            device_name: Some(device.name.to_owned()),
            encrypted: Some(true),
            volume_size_gib: Some(device.size_gib),
            volume_type: Some("gp3".to_owned()),
            ..TemplateBlockDevice::default()
        });
        Ok(defaults.collect())
    }

    fn metadata_options(&self) -> TemplateMetadataOptions {
        let mut options = match &self.class.metadata_options {
            Some(options) => TemplateMetadataOptions {
                http_endpoint: options.http_endpoint.clone(),
                http_protocol_ipv6: options.http_protocol_ipv6.clone(),
                // The CRD sets a limit; one that is missing nevertheless is sent as zero.
                http_put_response_hop_limit: Some(options.http_put_response_hop_limit.map_or(0, saturated)),
                http_tokens: options.http_tokens.clone(),
                instance_metadata_tags: None,
            },
            // An object that was stored before its CRD had defaults.
            None => TemplateMetadataOptions {
                http_endpoint: Some("disabled".to_owned()),
                http_protocol_ipv6: Some(if self.cluster.is_ipv6() { "enabled" } else { "disabled" }.to_owned()),
                http_put_response_hop_limit: Some(2),
                http_tokens: Some("required".to_owned()),
                instance_metadata_tags: None,
            },
        };
        options.instance_metadata_tags = Some("disabled".to_owned());
        if REGIONS_WITHOUT_METADATA_IPV6.contains(&self.cluster.region.as_str()) {
            options.http_protocol_ipv6 = None;
        }
        options
    }

    fn network_interfaces(&self) -> Vec<TemplateNetworkInterface> {
        let listed = self.class.network_interfaces.as_deref().unwrap_or_default();
        if !listed.is_empty() {
            let interfaces = listed.iter().map(|interface| {
                let base = match &interface.interface_type {
                    InterfaceType::EfaOnly => TemplateNetworkInterface {
                        security_group_ids: self.security_group_ids.clone(),
                        ..TemplateNetworkInterface::default()
                    },
                    InterfaceType::Interface | InterfaceType::Unsupported(_) => self.network_interface(),
                };
                TemplateNetworkInterface {
                    network_card_index: Some(interface.network_card_index),
                    device_index: interface.device_index,
                    interface_type: Some(interface.interface_type.to_string()),
                    ..base
                }
            });
            return interfaces.collect();
        }
        if self.efa_count > 0 {
            let interfaces = (0..self.efa_count).map(|card| TemplateNetworkInterface {
                network_card_index: Some(card),
                device_index: i32::from(card > 0),
                interface_type: Some("efa".to_owned()),
                ..self.network_interface()
            });
            return interfaces.collect();
        }
        vec![self.network_interface()]
    }

    /// Returns an interface with everything but its position and type.
    fn network_interface(&self) -> TemplateNetworkInterface {
        let prefix_count = self.class.ip_prefix_count;
        let is_ipv6 = self.cluster.is_ipv6();
        let no_tracking = ConnectionTracking::default();
        let tracking = self.class.connection_tracking.as_ref().unwrap_or(&no_tracking);
        TemplateNetworkInterface {
            network_card_index: None,
            device_index: 0,
            interface_type: None,
            security_group_ids: self.security_group_ids.clone(),
            associate_public_ip: self.class.associate_public_ip_address,
            ipv4_prefix_count: if is_ipv6 { None } else { prefix_count },
            ipv6_prefix_count: if is_ipv6 { prefix_count } else { None },
            ipv6_address_count: is_ipv6.then_some(1),
            primary_ipv6: is_ipv6.then_some(true),
            tcp_established_timeout: tracking.tcp_established_timeout,
            udp_stream_timeout: tracking.udp_stream_timeout,
            udp_timeout: tracking.udp_timeout,
        }
    }

    fn tag_specifications(&self) -> Vec<TagSpecification> {
        let spot = (self.capacity_type == labels::CAPACITY_TYPE_SPOT).then_some("spot-instances-request");
        ["network-interface"]
            .into_iter()
            .chain(spot)
            .map(|resource_type| TagSpecification { resource_type, tags: self.tags.clone() })
            .collect()
    }

    fn capacity_reservation(&self) -> Option<TemplateCapacityReservation> {
        if !self.uses_reservations {
            return None;
        }
        let preference = if self.reservation.is_some() { "capacity-reservations-only" } else { "none" };
        let reservation_id = self.reservation.as_ref().map(|reservation| reservation.id.clone());
        Some(TemplateCapacityReservation { preference: preference.to_owned(), reservation_id })
    }

    fn market_type(&self) -> Option<String> {
        let reservation = self.reservation.as_ref().filter(|_| self.uses_reservations)?;
        if reservation.is_capacity_block {
            Some("capacity-block".to_owned())
        } else if reservation.is_interruptible {
            Some("interruptible-capacity-reservation".to_owned())
        } else {
            None
        }
    }
}

/// Returns the message to log about user data of this size. Returns `None` if it is small enough.
fn size_warning(bytes: usize) -> Option<&'static str> {
    if bytes > USER_DATA_MAX_BYTES {
        Some("user data exceeds EC2's limit of 16384 bytes")
    } else if bytes >= USER_DATA_WARN_BYTES {
        Some("user data approaches EC2's limit of 16384 bytes")
    } else {
        None
    }
}

fn block_device(index: usize, mapping: &BlockDeviceMapping) -> Result<TemplateBlockDevice, LaunchTemplateContentError> {
    let ebs = mapping.ebs.clone().unwrap_or_default();
    let size = ebs.volume_size.as_ref().map(|size| size.text().parse::<Quantity>()).transpose();
    let size = size.map_err(|source| LaunchTemplateContentError::VolumeSize { index, source })?;
    let not_zero = |value: Option<i64>| value.filter(|value| *value != 0).map(saturated);
    Ok(TemplateBlockDevice {
        device_name: mapping.device_name.clone(),
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: not_zero(ebs.iops),
        kms_key_id: ebs.kms_key_id,
        snapshot_id: ebs.snapshot_id,
        throughput: not_zero(ebs.throughput),
        volume_initialization_rate: ebs.volume_initialization_rate,
        volume_size_gib: size.map(gib_rounded_up),
        volume_type: ebs.volume_type,
    })
}

/// Returns a size in GiB, rounded up: EC2 takes whole GiB.
fn gib_rounded_up(size: Quantity) -> i32 {
    let bytes = size.value();
    saturated(bytes / BYTES_PER_GIB + i64::from(bytes % BYTES_PER_GIB > 0))
}

fn saturated(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 05 §14.1: EC2 takes 16 KiB of user data
    #[test]
    fn user_data_over_the_limit_is_not_called_close_to_it() {
        assert_eq!(size_warning(14_744), None);
        let message = |bytes| size_warning(bytes).unwrap_or_default().split(' ').nth(2).unwrap_or_default();
        assert_eq!((message(14_745), message(16_384)), ("approaches", "approaches"));
        assert_eq!((message(16_385), message(20_666)), ("exceeds", "exceeds"));
    }
}
