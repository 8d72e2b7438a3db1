//! Instances.

use jiff::Timestamp;

use super::super::{Filter, Tags};

/// The request of `DescribeInstances`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeInstances {
    /// IDs of instances; empty for all that the filters accept.
    pub ids: Vec<String>,
    /// Filters, for example `instance-state-name`.
    pub filters: Vec<Filter>,
}

/// The states that EC2 reports for an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceStateName {
    /// The instance is starting.
    #[default]
    Pending,
    /// The instance runs.
    Running,
    /// The instance is stopping.
    Stopping,
    /// The instance is stopped and can be started again.
    Stopped,
    /// The instance is being terminated.
    ShuttingDown,
    /// The instance is terminated and is shown for about an hour.
    Terminated,
}

impl InstanceStateName {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Running, Self::Stopping, Self::Stopped, Self::ShuttingDown, Self::Terminated];

    /// Returns EC2's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
        }
    }

    /// Returns true for an instance that is or will be usable: pending or running.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }

    /// Returns true for an instance whose termination has begun: shutting down or terminated.
    pub fn is_terminating(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }

    /// Returns EC2's numeric code of the state.
    pub fn code(self) -> u16 {
        match self {
            Self::Pending => 0,
            Self::Running => 16,
            Self::ShuttingDown => 32,
            Self::Terminated => 48,
            Self::Stopping => 64,
            Self::Stopped => 80,
        }
    }

    /// Returns the state with EC2's name. Returns `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// An instance of EC2. Empty texts stand for facts that the answer does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ec2Instance {
    /// ID, for example `i-0123`.
    pub id: String,
    /// Name of the instance type.
    pub instance_type: String,
    /// Image that the instance was launched from, for example `ami-0123`.
    pub image_id: String,
    /// Name of the availability zone.
    pub zone: String,
    /// ID of the availability zone.
    pub zone_id: String,
    /// Subnet of the first network interface.
    pub subnet_id: String,
    /// Groups of the first network interface, for example `sg-0123`.
    pub security_group_ids: Vec<String>,
    /// Current state.
    pub state: InstanceStateName,
    /// Code of the reason of the last change of state, for example
    /// `Client.InvalidKMSKey.InvalidState`.
    pub state_reason: Option<String>,
    /// EC2's message about that reason; `None` if missing.
    pub state_message: Option<String>,
    /// Time of the launch; `None` if missing.
    pub launched_at: Option<Timestamp>,
    /// Private DNS name, which is the name of the Node on EKS.
    pub private_dns_name: String,
    /// ID of the spot request; `None` if the instance is not a spot instance.
    pub spot_request_id: Option<String>,
    /// `spot`, `scheduled`, `capacity-block` or `interruptible-capacity-reservation`; `None` for
    /// on-demand.
    pub lifecycle: Option<String>,
    /// ID of the capacity reservation that the instance uses.
    pub capacity_reservation_id: Option<String>,
    /// Preference of the capacity reservation specification, for example
    /// `capacity-reservations-only`.
    pub capacity_reservation_preference: Option<String>,
    /// `default`, `dedicated` or `host`; empty if missing.
    pub tenancy: String,
    /// Partition of the placement group; 0 if unknown.
    pub partition_number: i32,
    /// Types of the network interfaces, for example `interface`, `efa` or `efa-only`.
    pub interface_types: Vec<String>,
    /// Tags of the instance itself, not of its volumes.
    pub tags: Tags,
}

/// The state of one instance in the answer of `TerminateInstances`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceStateChange {
    /// ID of the instance.
    pub id: String,
    /// State before the call.
    pub previous: InstanceStateName,
    /// State after the call.
    pub current: InstanceStateName,
}
