//! Status checks and scheduled events of instances.

use jiff::Timestamp;

/// The status of one instance in the answer of `DescribeInstanceStatus`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceStatus {
    /// For example `i-0123`.
    pub instance_id: String,
    /// Details of the instance status check.
    pub instance_checks: Vec<StatusCheck>,
    /// Details of the system status check.
    pub system_checks: Vec<StatusCheck>,
    /// Details of the status check of attached EBS volumes.
    pub ebs_checks: Vec<StatusCheck>,
    /// Scheduled events, also those that are over.
    pub events: Vec<ScheduledEvent>,
}

/// One detail of a status check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusCheck {
    /// Name of the check, for example `reachability`.
    pub name: String,
    /// `passed`, `failed`, `insufficient-data` or `initializing`.
    pub status: String,
    /// Time since which the check fails; `None` if it passes or the time is unknown.
    pub impaired_since: Option<Timestamp>,
}

/// A scheduled event of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// Code, for example `instance-retirement`.
    pub code: String,
    /// Description. EC2 marks events that are over with `[Completed]` or `[Canceled]` in it.
    pub description: String,
}
