//! Subnets, security groups and images.

use jiff::Timestamp;

use super::super::{Filter, Tags};

/// A subnet of a VPC, in one availability zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subnet {
    /// ID, for example `subnet-0123`.
    pub id: String,
    /// Name of its availability zone, for example `us-west-2a`.
    pub zone: String,
    /// ID of its availability zone, for example `usw2-az1`; empty if unknown.
    pub zone_id: String,
    /// Number of free IPv4 addresses.
    pub available_ip_count: i32,
    /// The network that it belongs to, for example `vpc-0123`.
    pub vpc_id: String,
    /// Tags by key; selectors of node classes match them.
    pub tags: Tags,
}

/// A security group of a VPC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecurityGroup {
    /// ID, for example `sg-0123`.
    pub id: String,
    /// Name of the group.
    pub name: String,
    /// The network that it belongs to, for example `vpc-0123`.
    pub vpc_id: String,
    /// Tags by key; selectors of node classes match them.
    pub tags: Tags,
}

/// The request of `DescribeImages`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeImages {
    /// Filters, for example `image-id` or `name`.
    pub filters: Vec<Filter>,
    /// Owners: account IDs, `self` or `amazon`. Empty for all that the account may launch.
    pub owners: Vec<String>,
    /// True if deprecated images are returned.
    pub include_deprecated: bool,
}

/// A machine image (AMI).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// ID, for example `ami-0123`.
    pub id: String,
    /// Name of the image.
    pub name: String,
    /// `x86_64`, `arm64` or another architecture.
    pub architecture: String,
    /// Account that owns the image.
    pub owner_id: String,
    /// State, for example `available`.
    pub state: String,
    /// Time of creation; `None` if missing or unreadable.
    pub created_at: Option<Timestamp>,
    /// Time from which the image counts as deprecated; `None` if it has none.
    pub deprecated_at: Option<Timestamp>,
    /// Tags by key; selectors of node classes match them.
    pub tags: Tags,
}
