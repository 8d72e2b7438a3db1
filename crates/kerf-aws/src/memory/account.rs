//! The resources of the account that no call creates: network, images, parameters, roles,
//! clusters, capacity reservations, placement groups, zonal shifts and instance types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ports::ec2::{
    Ec2CapacityReservation, Image, InstanceTypeInfo, InstanceTypeOffering, PlacementGroup, SecurityGroup, Subnet,
};
use crate::ports::{ClusterInfo, Tags, ZonalShiftRecord};

/// Account ID that AWS uses in its examples.
const ACCOUNT_ID: &str = "111122223333";

/// Free addresses of a subnet with a /19 range.
const SUBNET_ADDRESSES: i32 = 8187;

/// An availability zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Name, for example `us-west-2a`.
    pub name: String,
    /// ID, for example `usw2-az1`.
    pub id: String,
}

/// The resources of one account in one region that no call of [`crate::ports`] creates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Account {
    /// Number of the account, 12 digits, which owns its images.
    pub account_id: String,
    /// Region, for example `us-west-2`.
    pub region: String,
    /// Availability zones.
    pub zones: Vec<Zone>,
    /// ID of the VPC of [`Self::add_cluster_network`].
    pub vpc_id: String,
    /// Subnets by ID. Their number of free addresses counts without instances of this EC2.
    pub subnets: BTreeMap<String, Subnet>,
    /// Security groups by ID.
    pub security_groups: BTreeMap<String, SecurityGroup>,
    /// Images by ID, also those of other owners that the account may launch.
    pub images: BTreeMap<String, Image>,
    /// Parameters of Systems Manager by name.
    pub parameters: BTreeMap<String, String>,
    /// Names of IAM roles, without path.
    pub roles: BTreeSet<String>,
    /// Roles without an access entry of the cluster: nodes with them cannot join.
    pub unmapped_roles: BTreeSet<String>,
    /// Names of SQS queues.
    pub queues: BTreeSet<String>,
    /// EKS clusters by name.
    pub clusters: BTreeMap<String, ClusterInfo>,
    /// Capacity reservations by ID, also those that other accounts share. The number of free
    /// instances counts without those that this EC2 launched.
    pub capacity_reservations: BTreeMap<String, Ec2CapacityReservation>,
    /// Placement groups by ID.
    pub placement_groups: BTreeMap<String, PlacementGroup>,
    /// Actions that no policy of the caller allows, for example `ec2:CreateFleet`.
    pub denied_actions: BTreeSet<String>,
    /// Largest number of vCPUs of live instances, by `on-demand` or `spot`. A missing entry is no
    /// limit.
    pub vcpu_quotas: BTreeMap<String, u32>,
    /// Largest size of the volumes of all live instances in GiB; `None` for no limit.
    pub volume_gib_quota: Option<u64>,
    /// KMS keys that are disabled. Instances with a volume of such a key do not start.
    pub disabled_kms_keys: BTreeSet<String>,
    /// Zonal shifts of each resource that is enabled for them, by ARN.
    pub zonal_shifts: BTreeMap<String, Vec<ZonalShiftRecord>>,
    pub(super) instance_types: Arc<BTreeMap<String, InstanceTypeInfo>>,
    pub(super) offerings: Arc<BTreeSet<InstanceTypeOffering>>,
}

impl Account {
    /// Returns an account with three availability zones and nothing else.
    pub fn new(region: &str) -> Self {
        let zones = ["a", "b", "c"].into_iter().zip(1..).map(|(letter, number)| Zone {
            name: format!("{region}{letter}"),
            id: format!("{}-az{number}", region_abbreviation(region)),
        });
        Self {
            account_id: ACCOUNT_ID.to_owned(),
            region: region.to_owned(),
            zones: zones.collect(),
            vpc_id: "vpc-0a1b2c3d4e5f60001".to_owned(),
            ..Self::default()
        }
    }

    /// Returns an account in us-west-2 as Karpenter's getting-started guide sets it up: a cluster
    /// with network, node role, images of all families and a queue with the cluster's name. All
    /// types are offered in all zones.
    pub fn eks(cluster: &str, kubernetes_version: &str, types: Vec<InstanceTypeInfo>) -> Self {
        let mut account = Self::new("us-west-2");
        account.add_cluster_network(cluster);
        account.add_cluster(cluster, kubernetes_version);
        account.roles.insert(format!("KarpenterNodeRole-{cluster}"));
        account.queues.insert(cluster.to_owned());
        account.publish_eks_images(kubernetes_version, "20251120", "1.52.0");
        account.set_instance_types(types);
        account
    }

    /// Adds a private and a public subnet for each zone and the security group of the nodes. The
    /// private subnets and the group have the tag `karpenter.sh/discovery`.
    pub fn add_cluster_network(&mut self, cluster: &str) {
        let discovery = || ("karpenter.sh/discovery".to_owned(), cluster.to_owned());
        for (zone, number) in self.zones.clone().iter().zip(1..) {
            for (is_private, kind, name) in [(true, 1, "Private"), (false, 2, "Public")] {
                let id = format!("subnet-0{kind}00000000000000{number}");
                let mut tags =
                    Tags::from([("Name".to_owned(), format!("{cluster}/{name}{}", zone.name.replace('-', "")))]);
                if is_private {
                    tags.extend([discovery(), ("kubernetes.io/role/internal-elb".to_owned(), "1".to_owned())]);
                } else {
                    tags.insert("kubernetes.io/role/elb".to_owned(), "1".to_owned());
                }
                let subnet = Subnet {
                    id: id.clone(),
                    zone: zone.name.clone(),
                    zone_id: zone.id.clone(),
                    available_ip_count: SUBNET_ADDRESSES,
                    vpc_id: self.vpc_id.clone(),
                    tags,
                };
                self.subnets.insert(id, subnet);
            }
        }
        for (id, name, is_for_nodes) in
            [("sg-00000000000000001", "default", false), ("sg-00000000000000002", "node", true)]
        {
            let name = if is_for_nodes { format!("{cluster}-{name}") } else { name.to_owned() };
            let tags = if is_for_nodes { Tags::from([discovery()]) } else { Tags::new() };
            let group = SecurityGroup { id: id.to_owned(), name, vpc_id: self.vpc_id.clone(), tags };
            self.security_groups.insert(id.to_owned(), group);
        }
    }

    /// Adds an EKS cluster with IPv4 addresses. It is enabled for zonal shift, without any shift.
    pub fn add_cluster(&mut self, name: &str, kubernetes_version: &str) {
        let arn = format!("arn:aws:eks:{}:{}:cluster/{name}", self.region, self.account_id);
        self.zonal_shifts.entry(arn.clone()).or_default();
        let cluster = ClusterInfo {
            arn: Some(arn),
            endpoint: Some(format!("https://0123456789ABCDEF0123456789ABCDEF.gr7.{}.eks.amazonaws.com", self.region)),
            version: Some(kubernetes_version.to_owned()),
            service_ipv4_cidr: Some("10.100.0.0/16".to_owned()),
            service_ipv6_cidr: None,
            certificate_authority: None,
        };
        self.clusters.insert(name.to_owned(), cluster);
    }

    /// Replaces all instance types and offers each in all zones.
    pub fn set_instance_types(&mut self, types: Vec<InstanceTypeInfo>) {
        let offerings = types.iter().flat_map(|info| {
            self.zones
                .iter()
                .map(|zone| InstanceTypeOffering { instance_type: info.name.clone(), zone: zone.name.clone() })
        });
        self.offerings = Arc::new(offerings.collect());
        self.instance_types = Arc::new(types.into_iter().map(|info| (info.name.clone(), info)).collect());
    }

    /// Returns the description of an instance type. Returns `None` for an unknown name.
    pub fn instance_type(&self, name: &str) -> Option<&InstanceTypeInfo> {
        self.instance_types.get(name)
    }

    /// Returns true if the region has an instance type of this name.
    pub(crate) fn has_instance_type(&self, name: &str) -> bool {
        self.instance_types.contains_key(name)
    }

    /// Replaces the zones of all instance types. Offerings in zones that the account does not have
    /// are left out.
    pub fn set_offerings(&mut self, offerings: impl IntoIterator<Item = InstanceTypeOffering>) {
        let has_zone = |offering: &InstanceTypeOffering| self.zones.iter().any(|zone| zone.name == offering.zone);
        self.offerings = Arc::new(offerings.into_iter().filter(has_zone).collect());
    }
}

/// Returns the first part of the IDs of a region's zones, for example `usw2` for `us-west-2`.
fn region_abbreviation(region: &str) -> String {
    region
        .split('-')
        .enumerate()
        .map(|(position, part)| match part {
            _ if position == 0 => part,
            "northeast" => "ne",
            "northwest" => "nw",
            "southeast" => "se",
            "southwest" => "sw",
            _ => part.get(..1).unwrap_or_default(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_ids_are_those_of_the_region() {
        for (region, expected) in
            [("us-west-2", "usw2"), ("ap-southeast-1", "apse1"), ("eu-central-1", "euc1"), ("us-gov-west-1", "usgw1")]
        {
            assert_eq!(region_abbreviation(region), expected);
        }
    }
}
