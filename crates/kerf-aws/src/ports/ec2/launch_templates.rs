//! Launch templates.

use super::super::{Filter, Tags};
use super::fleet::TagSpecification;

/// Largest size of user data before base64, in bytes.
pub const USER_DATA_MAX_BYTES: usize = 16_384;

/// The request of `CreateLaunchTemplate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateLaunchTemplate {
    /// Name of the template.
    pub name: String,
    /// Content of its first version.
    pub data: LaunchTemplateData,
    /// Tags of the template itself.
    pub tags: Tags,
    /// Token that makes a repeated request create nothing twice.
    pub client_token: String,
}

/// The request of `DescribeLaunchTemplates`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeLaunchTemplates {
    /// Names of templates; empty for all that the filters accept.
    pub names: Vec<String>,
    /// Filters, for example `tag:eks:eks-cluster-name`.
    pub filters: Vec<Filter>,
}

/// A launch template as the service lists it, without its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// ID, for example `lt-0123`.
    pub id: String,
    /// Name of the template.
    pub name: String,
    /// Tags of the template.
    pub tags: Tags,
}

/// A reference to a launch template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchTemplateRef {
    /// By ID.
    Id(String),
    /// By name.
    Name(String),
}

/// The content of a launch template (spec 05 §13.4). Fields that are `None` or empty are not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchTemplateData {
    /// Image of the instances, for example `ami-0123`.
    pub image_id: String,
    /// Name of the instance profile.
    pub instance_profile: String,
    /// True if detailed monitoring is enabled.
    pub detailed_monitoring: bool,
    /// User data, base64.
    pub user_data: String,
    /// Volumes of an instance; empty leaves them to the image.
    pub block_devices: Vec<TemplateBlockDevice>,
    /// Options of the instance metadata service.
    pub metadata_options: TemplateMetadataOptions,
    /// Value of nested virtualization of the CPU options.
    pub nested_virtualization: Option<String>,
    /// Network interfaces; security groups are listed in them.
    pub network_interfaces: Vec<TemplateNetworkInterface>,
    /// Tags of resources that an instance launched from the template gets.
    pub tags: Vec<TagSpecification>,
    /// Tenancy and placement group.
    pub placement: TemplatePlacement,
    /// True if Nitro Enclaves are enabled.
    pub enclave: bool,
    /// Capacity reservation specification.
    pub capacity_reservation: Option<TemplateCapacityReservation>,
    /// Market type, for example `capacity-block`.
    pub market_type: Option<String>,
}

/// A block device of a launch template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateBlockDevice {
    /// Name, for example `/dev/xvda`.
    pub device_name: Option<String>,
    /// True if the volume is deleted with the instance.
    pub delete_on_termination: Option<bool>,
    /// True if the volume is encrypted.
    pub encrypted: Option<bool>,
    /// Operations per second.
    pub iops: Option<i32>,
    /// KMS key of the encryption.
    pub kms_key_id: Option<String>,
    /// Snapshot from which the volume is created.
    pub snapshot_id: Option<String>,
    /// MiB per second.
    pub throughput: Option<i32>,
    /// MiB per second at which the volume is initialized from its snapshot.
    pub volume_initialization_rate: Option<i32>,
    /// Size in GiB; `None` takes the size of the snapshot.
    pub volume_size_gib: Option<i32>,
    /// Type, for example `gp3`.
    pub volume_type: Option<String>,
}

/// Options of the instance metadata service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateMetadataOptions {
    /// `enabled` or `disabled`.
    pub http_endpoint: Option<String>,
    /// `enabled` or `disabled`.
    pub http_protocol_ipv6: Option<String>,
    /// Number of network hops of the answer.
    pub http_put_response_hop_limit: Option<i32>,
    /// `required` or `optional`.
    pub http_tokens: Option<String>,
    /// `enabled` or `disabled`.
    pub instance_metadata_tags: Option<String>,
}

/// A network interface of a launch template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateNetworkInterface {
    /// Position of the card, from 0; `None` is the default card.
    pub network_card_index: Option<i32>,
    /// Index of the interface on its card.
    pub device_index: i32,
    /// `interface`, `efa` or `efa-only`.
    pub interface_type: Option<String>,
    /// Groups of the interface, for example `sg-0123`.
    pub security_group_ids: Vec<String>,
    /// True if the interface gets a public address.
    pub associate_public_ip: Option<bool>,
    /// Number of IPv4 prefixes.
    pub ipv4_prefix_count: Option<i32>,
    /// Number of IPv6 prefixes.
    pub ipv6_prefix_count: Option<i32>,
    /// Number of IPv6 addresses.
    pub ipv6_address_count: Option<i32>,
    /// True if the first IPv6 address is the primary one.
    pub primary_ipv6: Option<bool>,
    /// Seconds after which an idle TCP connection is no longer tracked.
    pub tcp_established_timeout: Option<i32>,
    /// Seconds after which a UDP stream is no longer tracked.
    pub udp_stream_timeout: Option<i32>,
    /// Seconds after which a single UDP exchange is no longer tracked.
    pub udp_timeout: Option<i32>,
}

/// Placement of instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplatePlacement {
    /// `default` or `dedicated`.
    pub tenancy: String,
    /// ID of the placement group.
    pub group_id: Option<String>,
    /// Partition of the placement group.
    pub partition_number: Option<i32>,
}

/// Capacity reservation specification of a launch template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateCapacityReservation {
    /// `capacity-reservations-only`, `open` or `none`.
    pub preference: String,
    /// The reservation to launch in, for example `cr-0123`; `None` targets none.
    pub reservation_id: Option<String>,
}
