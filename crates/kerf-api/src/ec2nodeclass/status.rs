//! Status of an EC2NodeClass (spec 01 §7.6).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::selectors::InstanceMatchCriteria;
use crate::conditions::Condition;
use crate::open_enum::open_enum;
use crate::requirement::{self, NodeSelectorRequirement};

/// Resources that the selectors of the class matched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Images that the selector matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amis: Option<Vec<Ami>>,
    /// Capacity reservations that the selector matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_reservations: Option<Vec<CapacityReservation>>,
    /// Conditions of the class.
    // Karpenter's schema sets no list type here, so the list is atomic and may contain a type
    // twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Instance profile that the instances use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Security groups that the selector matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<SecurityGroup>>,
    /// Subnets that the selector matched, the one with the most free addresses first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<Subnet>>,
}

/// Image that the selector matched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ami {
    /// True if the owner of the image has deprecated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<bool>,
    /// ID of the image.
    pub id: String,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Requirements on instance types that can run the image.
    #[schemars(transform = requirement::of_status)]
    pub requirements: Vec<NodeSelectorRequirement>,
}

/// Subnet that the selector matched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// ID of the subnet.
    pub id: String,
    /// Availability zone of the subnet.
    pub zone: String,
    /// ID of the availability zone, which is the same in every account.
    #[serde(default, rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// Security group that the selector matched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurityGroup {
    /// ID of the security group.
    pub id: String,
    /// Name of the security group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

open_enum! {
    /// Type of a capacity reservation.
    pub enum ReservationType {
        /// On-demand capacity reservation.
        Default = "default",
        /// Group of instances reserved for a fixed period.
        CapacityBlock = "capacity-block",
    }
}

open_enum! {
    /// State of a capacity reservation.
    pub enum ReservationState {
        /// The reservation can be used.
        Active = "active",
        /// The reservation ends soon and accepts no more instances.
        Expiring = "expiring",
    }
}

/// Capacity reservation that the selector matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityReservation {
    /// Availability zone of the reserved capacity.
    pub availability_zone: String,
    /// Time at which the reservation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::schema::DateTime>")]
    pub end_time: Option<Time>,
    /// ID of the capacity reservation.
    #[schemars(extend("pattern" = "^cr-[0-9a-z]+$"))]
    pub id: String,
    /// Instances that the reservation accepts: any with matching attributes (open), or only those
    /// that target it explicitly (targeted).
    pub instance_match_criteria: InstanceMatchCriteria,
    /// Instance type of the reserved capacity.
    pub instance_type: String,
    /// True if EC2 may reclaim the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// ID of the account that owns the reservation.
    #[serde(rename = "ownerID")]
    #[schemars(extend("pattern" = "^[0-9]{12}$"))]
    pub owner_id: String,
    /// Type of the reservation: an on-demand capacity reservation (default) or a capacity block
    /// (capacity-block).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "default"))]
    pub reservation_type: Option<ReservationType>,
    /// State of the reservation: active, or expiring if it ends soon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "active"))]
    pub state: Option<ReservationState>,
}
