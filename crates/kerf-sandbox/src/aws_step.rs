//! Changes of the AWS account of a sandbox, by scenarios and by hand: the market, instances,
//! images, reservations, quotas, permissions and what people delete. The attached cloud carries
//! them out ([`crate::SimulatedCloud::perform`]).

mod mistakes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::Error as _;

use crate::durations::{self, DurationText};
use crate::rates::parse_rate;

/// Changes of the AWS account. Each field is one action; several happen in the order below.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsStep {
    /// Pools that have no instances, for a time or until `restock`.
    #[serde(default)]
    pub stock_out: Option<StockOutStep>,
    /// Ends the stock-outs of exactly these pools.
    #[serde(default)]
    pub restock: Option<PoolSelector>,
    /// Price of pools from now on.
    #[serde(default)]
    pub price: Option<PriceStep>,
    /// Movement of all spot prices that no `price` has set.
    #[serde(default)]
    pub spot_market: Option<SpotMarketStep>,
    /// Instances that EC2 takes back: the two-minute notice now, the termination afterwards.
    #[serde(default)]
    pub reclaim: Option<InstanceSelector>,
    /// Spot instances that get a rebalance recommendation.
    #[serde(default)]
    pub rebalance: Option<InstanceSelector>,
    /// Instances for which AWS Health schedules a change.
    #[serde(default)]
    pub health_event: Option<InstanceSelector>,
    /// Instances that a person terminates.
    #[serde(default)]
    pub terminate: Option<InstanceSelector>,
    /// Instances that a person stops.
    #[serde(default)]
    pub stop: Option<InstanceSelector>,
    /// Instances that EC2 terminates without notice.
    #[serde(default)]
    pub fail: Option<FailStep>,
    /// New instances that EC2 terminates instead of starting them.
    #[serde(default)]
    pub launch_failure: Option<LaunchFailureStep>,
    /// Result of the status checks of instances from now on.
    #[serde(default)]
    pub status_check: Option<StatusCheckStep>,
    /// A new release of all images of EKS, to which the aliases `@latest` move.
    #[serde(default)]
    pub publish_images: Option<PublishImagesStep>,
    /// A capacity reservation that appears, or replaces the one with its ID.
    #[serde(default)]
    pub add_reservation: Option<ReservationStep>,
    /// ID of a capacity reservation that expires.
    #[serde(default)]
    pub expire_reservation: Option<String>,
    /// Tags that people add and remove by hand.
    #[serde(default)]
    pub tags: Option<TagsStep>,
    /// Instance profiles that a person deletes, by a pattern of their names.
    #[serde(default)]
    pub delete_instance_profiles: Option<String>,
    /// Number of free addresses of subnets.
    #[serde(default)]
    pub subnet_addresses: Option<SubnetAddressesStep>,
    /// Quotas of vCPUs and volumes.
    #[serde(default)]
    pub quota: Option<QuotaStep>,
    /// KMS keys that are disabled from now on.
    #[serde(default)]
    pub disable_kms_keys: Vec<String>,
    /// KMS keys that are enabled again.
    #[serde(default)]
    pub enable_kms_keys: Vec<String>,
    /// Name of a queue that a person deletes.
    #[serde(default)]
    pub delete_queue: Option<String>,
    /// Name of a queue that a person creates.
    #[serde(default)]
    pub create_queue: Option<String>,
    /// A message that arrives in the interruption queue as it is.
    #[serde(default)]
    pub send_message: Option<String>,
    /// Actions that Kerf's policies no longer allow, for example `ec2:CreateFleet`.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Actions that Kerf's policies allow again.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Role of nodes that loses its access entry of the cluster.
    #[serde(default)]
    pub unmap_role: Option<String>,
    /// Role of nodes that gets its access entry back.
    #[serde(default)]
    pub map_role: Option<String>,
    /// Calls of AWS that fail from now on.
    #[serde(default)]
    pub call_fault: Option<CallFaultStep>,
    /// Number of fleets that answer with neither an instance nor an error.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub empty_fleets: Option<u32>,
    /// Time for which `DescribeInstances` does not know instances that are launched from now on.
    #[serde(default, deserialize_with = "durations::optional")]
    #[schemars(with = "DurationText")]
    pub instances_visible_after: Option<Duration>,
    /// A zonal shift that begins.
    #[serde(default)]
    pub zonal_shift: Option<ZonalShiftStep>,
    /// Name of the zone whose zonal shift ends.
    #[serde(default)]
    pub end_zonal_shift: Option<String>,
}

/// Pools of instances, each field by a pattern with `*` and `?`; a missing field selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoolSelector {
    /// Instance types, for example `m5.*`.
    #[serde(default)]
    pub instance_type: String,
    /// Zones, for example `us-west-2a`.
    #[serde(default)]
    pub zone: String,
    /// Capacity types: `on-demand` or `spot`.
    #[serde(default)]
    pub capacity_type: String,
}

/// Pools without instances, for a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StockOutStep {
    /// Pattern of instance types; all if missing.
    #[serde(default)]
    pub instance_type: String,
    /// Pattern of zones; all if missing.
    #[serde(default)]
    pub zone: String,
    /// Pattern of capacity types; all if missing.
    #[serde(default)]
    pub capacity_type: String,
    /// Length of the stock-out. Without it, `restock` ends it.
    #[serde(default, rename = "for", deserialize_with = "durations::optional")]
    #[schemars(with = "DurationText")]
    pub duration: Option<Duration>,
}

/// A new price of pools.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceStep {
    /// Name of the instance type.
    pub instance_type: String,
    /// Name of the zone, for spot. All zones if missing.
    #[serde(default)]
    pub zone: Option<String>,
    /// `on-demand` or `spot`.
    pub capacity_type: CapacityTypeName,
    /// Dollars per hour in decimal, as a text, for example `"0.031"`.
    pub per_hour: String,
}

/// A capacity type with a price or a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityTypeName {
    /// Instances at the price of the price list.
    OnDemand,
    /// Instances that EC2 may take back.
    Spot,
}

impl CapacityTypeName {
    /// Returns the name as in the label of nodes.
    pub fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
        }
    }
}

/// Movement of spot prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpotMarketStep {
    /// Time for which a price stays. The seed of the run decides the prices.
    #[serde(deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub change_every: Duration,
}

/// Live instances, the oldest first. A missing field selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceSelector {
    /// ID of the instance.
    #[serde(default)]
    pub id: Option<String>,
    /// Name of its Node.
    #[serde(default)]
    pub node: Option<String>,
    /// Name of its NodePool.
    #[serde(default)]
    pub pool: Option<String>,
    /// Pattern of instance types.
    #[serde(default)]
    pub instance_type: Option<String>,
    /// Pattern of zones.
    #[serde(default)]
    pub zone: Option<String>,
    /// Capacity type: `on-demand`, `spot` or `reserved`.
    #[serde(default)]
    pub capacity_type: Option<String>,
    /// Largest number of instances; one if missing.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub count: Option<usize>,
}

/// Instances that end, with the reason that EC2 gives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailStep {
    /// Selects the instances that end.
    pub instances: InstanceSelector,
    /// Code of the state reason, for example `Server.InternalError`.
    pub reason: String,
}

/// Instances that end instead of starting.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LaunchFailureStep {
    /// The affected pools.
    #[serde(default)]
    pub pools: PoolSelector,
    /// Code of the state reason, for example `Client.InternalError`.
    pub reason: String,
    /// Number of affected instances; no limit if missing.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: Option<u32>,
}

/// Results of status checks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusCheckStep {
    /// Selects the instances whose checks change.
    pub instances: InstanceSelector,
    /// The check that fails; all checks pass if missing.
    #[serde(default)]
    pub fails: Option<StatusCheckName>,
    /// Code of an event that EC2 schedules, for example `instance-retirement`.
    #[serde(default)]
    pub scheduled_event: Option<String>,
}

/// A status check of EC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StatusCheckName {
    /// The check of the operating system.
    Instance,
    /// The check of the host.
    System,
    /// The check of the attached volumes.
    Ebs,
}

/// A release of images.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PublishImagesStep {
    /// Date of the release as in the names of images, for example `"20260115"`.
    pub release: String,
    /// Version of Bottlerocket without `v`, for example `1.53.0`.
    pub bottlerocket: String,
}

/// A capacity reservation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReservationStep {
    /// ID, for example `cr-0000000000000abcd`.
    pub id: String,
    /// Name of the instance type.
    pub instance_type: String,
    /// Name of the zone.
    pub zone: String,
    /// Number of instances.
    #[schemars(range(max = 100_000))]
    pub count: u32,
    /// True for a capacity block.
    #[serde(default)]
    pub is_capacity_block: bool,
    /// True if its owner may take the instances back.
    #[serde(default)]
    pub is_interruptible: bool,
    /// Time until its end; none if missing.
    #[serde(default, deserialize_with = "durations::optional")]
    #[schemars(with = "DurationText")]
    pub ends_in: Option<Duration>,
    /// Tags; the discovery tag of the cluster if empty.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// A change of tags by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TagsStep {
    /// Pattern of the IDs of resources, for example `subnet-*` or `i-*`.
    pub resources: String,
    /// Tags to add.
    #[serde(default)]
    pub add: BTreeMap<String, String>,
    /// Keys of tags to remove.
    #[serde(default)]
    pub remove: Vec<String>,
}

/// Free addresses of subnets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubnetAddressesStep {
    /// Pattern of the IDs of subnets.
    #[serde(default)]
    pub subnet: Option<String>,
    /// Pattern of zones.
    #[serde(default)]
    pub zone: Option<String>,
    /// Number of free addresses for instances that are launched from now on.
    #[schemars(range(max = 65_000))]
    pub free: u32,
}

/// Quotas of the account. A field that is missing stays as it is; 0 allows nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuotaStep {
    /// Number of vCPUs of on-demand instances.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub on_demand_vcpus: Option<u32>,
    /// Number of vCPUs of spot instances.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub spot_vcpus: Option<u32>,
    /// Size of all volumes in GiB.
    #[serde(default)]
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub volume_gib: Option<u64>,
}

/// Calls that fail.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallFaultStep {
    /// Name of the operation, for example `CreateFleet`; all operations if missing.
    #[serde(default)]
    pub operation: String,
    /// Effect on each affected call.
    pub fault: CallFaultName,
    /// Code of the error, for the fault `error`.
    #[serde(default)]
    pub code: Option<String>,
    /// Share of the calls, between 0 and 1 or per cent; all if missing.
    #[serde(default)]
    pub rate: Option<Share>,
    /// Number of calls that fail; no limit if missing.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub times: Option<u32>,
    /// Time for which calls fail; no end if missing.
    #[serde(default, rename = "for", deserialize_with = "durations::optional")]
    #[schemars(with = "DurationText")]
    pub duration: Option<Duration>,
}

/// Effect of a fault on the calls that it affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallFaultName {
    /// The service throttles.
    Throttled,
    /// The call takes effect, and its answer is lost.
    LostAnswer,
    /// The service answers with an error.
    Error,
}

/// A share of all calls: a number between 0 and 1, or per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    per_million: u32,
}

/// Forms of a share in a file.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum ShareForm {
    /// A number between 0 and 1.
    Number(#[schemars(range(min = 0, max = 1))] f64),
    /// The same as a text, or per cent, for example `5%`.
    Text(String),
}

impl Share {
    /// Returns the share in parts per million.
    pub fn per_million(self) -> u32 {
        self.per_million
    }

    /// Parses a number between 0 and 1, or per cent.
    fn parse(text: &str) -> Result<Self, String> {
        parse_rate(text).map(|per_million| Self { per_million })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let share = match ShareForm::deserialize(deserializer)? {
            ShareForm::Number(number) => Self::parse(&number.to_string()),
            ShareForm::Text(text) => Self::parse(&text),
        };
        share.map_err(D::Error::custom)
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ShareForm::json_schema(generator)
    }
}

/// A shift of the cluster away from one zone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ZonalShiftStep {
    /// Name of the zone.
    pub zone: String,
    /// Length of the shift.
    #[serde(rename = "for", deserialize_with = "durations::required")]
    #[schemars(with = "DurationText")]
    pub duration: Duration,
}
