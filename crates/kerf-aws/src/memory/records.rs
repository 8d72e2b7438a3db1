//! The resources and calls that the account's state stores.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use jiff::Timestamp;

use crate::ports::InstanceProfile;
use crate::ports::ec2::{Ec2Instance, LaunchTemplate, LaunchTemplateData};

/// A recorded call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Name of the service, for example `EC2`.
    pub service: &'static str,
    /// Name of the operation, for example `CreateFleet`.
    pub operation: &'static str,
    /// Short text of the request.
    pub request: String,
    /// Error code of the answer, or `no answer`; `None` if the call succeeded.
    pub error: Option<String>,
    /// HTTP status of the answer; `None` if the caller got no answer.
    pub status: Option<u16>,
    /// Time at which the call took effect or failed.
    pub at: Timestamp,
    /// ID that an answer carries, for support cases.
    pub request_id: String,
}

/// An instance profile with the time from which EC2 knows it.
#[derive(Debug, Clone)]
pub(super) struct StoredProfile {
    pub(super) profile: InstanceProfile,
    pub(super) created_at: Timestamp,
    pub(super) visible_from: Timestamp,
}

/// An instance with what it was launched from, for components that simulate its boot.
#[derive(Debug, Clone)]
pub struct LaunchedInstance {
    /// The instance as `DescribeInstances` returns it.
    pub instance: Ec2Instance,
    /// Name of its launch template.
    pub template_name: String,
    /// Content of its launch template, with user data.
    pub template: Arc<LaunchTemplateData>,
    /// Address in the subnet, from which the private DNS name is made.
    pub private_address: Ipv4Addr,
    /// The network of its subnet, for example `vpc-0123`.
    pub vpc_id: String,
    pub(super) visible_from: Timestamp,
    pub(super) address_count: u32,
    /// State reason with which the instance ends instead of running; `None` if it starts.
    pub(super) fails_with: Option<String>,
    /// True if EC2 has announced that it takes the instance back.
    pub(super) is_reclaimed: bool,
}

impl LaunchedInstance {
    /// Returns true for an instance that is or will be usable: pending or running.
    pub fn is_live(&self) -> bool {
        self.instance.state.is_live()
    }

    /// Returns the capacity type as NodeClaims have it: `reserved`, `spot` or `on-demand`.
    pub fn capacity_type(&self) -> &'static str {
        match (&self.instance.capacity_reservation_id, &self.instance.spot_request_id) {
            (Some(_), _) => "reserved",
            (None, Some(_)) => "spot",
            (None, None) => "on-demand",
        }
    }
}

/// A launch template with the content of its only version.
#[derive(Debug, Clone)]
pub(crate) struct StoredTemplate {
    pub(crate) template: LaunchTemplate,
    pub(crate) created_at: Timestamp,
    pub(crate) data: Arc<LaunchTemplateData>,
}

/// Addresses of one subnet that instances use.
#[derive(Debug, Clone)]
pub(super) struct SubnetAddresses {
    /// Position of the subnet's range.
    pub(super) range: u32,
    pub(super) used: BTreeSet<u32>,
    /// Number of used addresses that pods have (prefixes).
    pub(super) used_by_prefixes: u32,
    pub(super) next: u32,
}
