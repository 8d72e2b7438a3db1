//! Capacity reservations and placement groups.

use jiff::Timestamp;

use super::super::{Filter, Tags};

/// The request of `DescribeCapacityReservations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeCapacityReservations {
    /// IDs of reservations; empty for all that the filters accept. EC2 rejects a page size together
    /// with IDs.
    pub ids: Vec<String>,
    /// Filters, for example `state`, `owner-id`, `instance-match-criteria` or `tag:team`.
    pub filters: Vec<Filter>,
}

/// An on-demand capacity reservation or a capacity block, as EC2 describes it. Empty texts stand
/// for facts that the answer does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ec2CapacityReservation {
    /// ID, for example `cr-0123`.
    pub id: String,
    /// Account that owns the reservation.
    pub owner_id: String,
    /// Instance type of the reserved capacity.
    pub instance_type: String,
    /// Name of the availability zone.
    pub zone: String,
    /// ID of the availability zone.
    pub zone_id: String,
    /// State, for example `active`, `scheduled` or `expired`.
    pub state: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    /// `default` or `capacity-block`; empty for `default`.
    pub reservation_type: String,
    /// True if the owner of the capacity may reclaim it.
    pub is_interruptible: bool,
    /// Number of instances that the reservation has capacity for.
    pub total_instance_count: i32,
    /// Number of instances that can still be launched into the reservation.
    pub available_instance_count: i32,
    /// Time from which the capacity can be used; `None` if missing.
    pub starts_at: Option<Timestamp>,
    /// Time at which the reservation ends; `None` if it has no end.
    pub ends_at: Option<Timestamp>,
    /// Tags by key; selectors of node classes match them.
    pub tags: Tags,
}

/// The request of `DescribePlacementGroups`. EC2 returns all groups at once. An ID or a name that
/// EC2 does not know fails with `InvalidPlacementGroup.Unknown`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribePlacementGroups {
    /// IDs of groups; empty for all.
    pub ids: Vec<String>,
    /// Names of groups; empty for all.
    pub names: Vec<String>,
    /// Filters, for example `state`.
    pub filters: Vec<Filter>,
}

/// A placement group, as EC2 describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementGroup {
    /// ID, for example `pg-0123`.
    pub id: String,
    /// Name, unique in the account and region.
    pub name: String,
    /// State: `pending`, `available`, `deleting` or `deleted`.
    pub state: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// Number of partitions; `None` if the strategy is not `partition`.
    pub partition_count: Option<i32>,
    /// `rack` or `host`; `None` if the strategy is not `spread`.
    pub spread_level: Option<String>,
    /// Tags by key.
    pub tags: Tags,
}
