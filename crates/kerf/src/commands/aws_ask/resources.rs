//! The AWS resources of a document, in the shapes of AWS's command line (spec 11 §1.2).

use std::collections::BTreeMap;

use jiff::Timestamp;
use kerf_aws::ports::ec2::{
    Ec2CapacityReservation, Ec2Instance, Image, InstanceStateName, PlacementGroup, SecurityGroup, Subnet,
};
use kerf_aws::ports::{ClusterInfo, Tags};
use serde::Deserialize;
use serde_json::Value;

use super::QuestionError;
use super::document::{Document, PlacementGroupEntry};

/// The resources of a document.
pub(super) struct DescribedResources {
    pub(super) account_id: String,
    /// Time at which the clock stands.
    pub(super) now: Timestamp,
    pub(super) subnets: Vec<Subnet>,
    pub(super) security_groups: Vec<SecurityGroup>,
    pub(super) images: Vec<DescribedImage>,
    pub(super) capacity_reservations: Vec<Ec2CapacityReservation>,
    pub(super) placement_groups: Vec<PlacementGroup>,
    pub(super) instances: Vec<Ec2Instance>,
    /// Parameters of Systems Manager by name.
    pub(super) parameters: BTreeMap<String, String>,
    /// Role by instance profile; `None` or empty for none.
    pub(super) profiles: BTreeMap<String, Option<String>>,
    pub(super) cluster: ClusterInfo,
}

/// An image with the alias of its owner.
pub(super) struct DescribedImage {
    pub(super) image: Image,
    owner_alias: String,
}

impl DescribedImage {
    /// Returns true if one of the owners is that of the image. No owners are all owners.
    pub(super) fn is_owned_by(&self, owners: &[String], account_id: &str) -> bool {
        let own = &self.image.owner_id;
        let is_own =
            |owner: &String| owner == own || *owner == self.owner_alias || (owner == "self" && own == account_id);
        owners.is_empty() || owners.iter().any(is_own)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedTag {
    key: Option<String>,
    value: Option<String>,
}

fn tags(list: Option<Vec<DescribedTag>>) -> Tags {
    let pair = |tag: DescribedTag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
    list.into_iter().flatten().map(pair).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SubnetEntry {
    subnet_id: Option<String>,
    availability_zone: Option<String>,
    availability_zone_id: Option<String>,
    available_ip_address_count: Option<i32>,
    vpc_id: Option<String>,
    tags: Option<Vec<DescribedTag>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SecurityGroupEntry {
    group_id: Option<String>,
    group_name: Option<String>,
    vpc_id: Option<String>,
    tags: Option<Vec<DescribedTag>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ImageEntry {
    image_id: Option<String>,
    name: Option<String>,
    architecture: Option<String>,
    owner_id: Option<String>,
    image_owner_alias: Option<String>,
    state: Option<String>,
    creation_date: Option<String>,
    deprecation_time: Option<String>,
    tags: Option<Vec<DescribedTag>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CapacityReservationEntry {
    capacity_reservation_id: Option<String>,
    owner_id: Option<String>,
    instance_type: Option<String>,
    availability_zone: Option<String>,
    availability_zone_id: Option<String>,
    state: Option<String>,
    instance_match_criteria: Option<String>,
    reservation_type: Option<String>,
    interruptible: Option<bool>,
    total_instance_count: Option<i32>,
    available_instance_count: Option<i32>,
    start_date: Option<Timestamp>,
    end_date: Option<Timestamp>,
    tags: Option<Vec<DescribedTag>>,
}

impl DescribedResources {
    pub(super) fn of(document: &Document) -> Result<Self, QuestionError> {
        let options = document.options();
        let cidr = options.cluster_facts().service_cidr;
        let (ipv6, ipv4) = cidr.into_iter().partition::<Vec<String>, _>(|cidr| cidr.contains(':'));
        Ok(Self {
            account_id: options.account_id().to_owned(),
            now: options.now()?,
            subnets: entries("subnets", document.subnets.as_deref())?.into_iter().map(subnet).collect(),
            security_groups: entries("securityGroups", document.security_groups.as_deref())?
                .into_iter()
                .map(security_group)
                .collect(),
            images: entries("images", document.images.as_deref())?.into_iter().map(image).collect(),
            capacity_reservations: entries("capacityReservations", document.capacity_reservations.as_deref())?
                .into_iter()
                .map(capacity_reservation)
                .collect(),
            placement_groups: document.placement_groups.iter().flatten().map(PlacementGroupEntry::to_group).collect(),
            instances: instances("instances", document.instances.as_deref())?,
            parameters: document.parameters.clone().unwrap_or_default(),
            profiles: document.profiles.clone().unwrap_or_default(),
            cluster: ClusterInfo {
                version: Some(options.cluster_facts().kubernetes_version),
                service_ipv4_cidr: ipv4.into_iter().next(),
                service_ipv6_cidr: ipv6.into_iter().next(),
                ..ClusterInfo::default()
            },
        })
    }
}

/// Returns the instances of a member of a document.
pub(super) fn instances(member: &str, list: Option<&[Value]>) -> Result<Vec<Ec2Instance>, QuestionError> {
    Ok(entries(member, list)?.into_iter().map(instance).collect())
}

fn entries<T: for<'de> Deserialize<'de>>(member: &str, list: Option<&[Value]>) -> Result<Vec<T>, QuestionError> {
    let read =
        |entry: &Value| T::deserialize(entry).map_err(|error| QuestionError::other(format!("{member}: {error}")));
    list.unwrap_or_default().iter().map(read).collect()
}

fn subnet(entry: SubnetEntry) -> Subnet {
    Subnet {
        id: entry.subnet_id.unwrap_or_default(),
        zone: entry.availability_zone.unwrap_or_default(),
        zone_id: entry.availability_zone_id.unwrap_or_default(),
        available_ip_count: entry.available_ip_address_count.unwrap_or(0),
        vpc_id: entry.vpc_id.unwrap_or_default(),
        tags: tags(entry.tags),
    }
}

fn security_group(entry: SecurityGroupEntry) -> SecurityGroup {
    SecurityGroup {
        id: entry.group_id.unwrap_or_default(),
        name: entry.group_name.unwrap_or_default(),
        vpc_id: entry.vpc_id.unwrap_or_default(),
        tags: tags(entry.tags),
    }
}

fn image(entry: ImageEntry) -> DescribedImage {
    let time = |text: Option<String>| text.and_then(|text| text.parse::<Timestamp>().ok());
    let state = entry.state.filter(|state| !state.is_empty()).unwrap_or_else(|| "available".to_owned());
    let image = Image {
        id: entry.image_id.unwrap_or_default(),
        name: entry.name.unwrap_or_default(),
        architecture: entry.architecture.unwrap_or_default(),
        owner_id: entry.owner_id.unwrap_or_default(),
        state,
        created_at: time(entry.creation_date),
        deprecated_at: time(entry.deprecation_time),
        tags: tags(entry.tags),
    };
    DescribedImage { image, owner_alias: entry.image_owner_alias.unwrap_or_default() }
}

fn capacity_reservation(entry: CapacityReservationEntry) -> Ec2CapacityReservation {
    Ec2CapacityReservation {
        id: entry.capacity_reservation_id.unwrap_or_default(),
        owner_id: entry.owner_id.unwrap_or_default(),
        instance_type: entry.instance_type.unwrap_or_default(),
        zone: entry.availability_zone.unwrap_or_default(),
        zone_id: entry.availability_zone_id.unwrap_or_default(),
        state: entry.state.filter(|state| !state.is_empty()).unwrap_or_else(|| "active".to_owned()),
        instance_match_criteria: entry.instance_match_criteria.unwrap_or_default(),
        reservation_type: entry.reservation_type.unwrap_or_default(),
        is_interruptible: entry.interruptible.unwrap_or(false),
        total_instance_count: entry.total_instance_count.unwrap_or(0),
        available_instance_count: entry.available_instance_count.unwrap_or(0),
        starts_at: entry.start_date,
        ends_at: entry.end_date,
        tags: tags(entry.tags),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InstanceEntry {
    instance_id: Option<String>,
    instance_type: Option<String>,
    image_id: Option<String>,
    placement: Option<PlacementEntry>,
    subnet_id: Option<String>,
    security_groups: Option<Vec<InstanceGroupEntry>>,
    state: Option<StateEntry>,
    launch_time: Option<Timestamp>,
    private_dns_name: Option<String>,
    spot_instance_request_id: Option<String>,
    instance_lifecycle: Option<String>,
    capacity_reservation_id: Option<String>,
    capacity_reservation_specification: Option<ReservationSpecificationEntry>,
    network_interfaces: Option<Vec<InterfaceEntry>>,
    tags: Option<Vec<DescribedTag>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct PlacementEntry {
    availability_zone: Option<String>,
    availability_zone_id: Option<String>,
    tenancy: Option<String>,
    partition_number: Option<i32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InstanceGroupEntry {
    group_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StateEntry {
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReservationSpecificationEntry {
    capacity_reservation_preference: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InterfaceEntry {
    interface_type: Option<String>,
}

/// Converts an instance. One without a state, or with a state that EC2 does not have, is running.
fn instance(entry: InstanceEntry) -> Ec2Instance {
    let placement = entry.placement.unwrap_or_default();
    let state = entry.state.and_then(|state| InstanceStateName::from_name(state.name.as_deref()?));
    let groups = entry.security_groups.into_iter().flatten().filter_map(|group| group.group_id);
    let interfaces = entry.network_interfaces.into_iter().flatten();
    let preference = entry.capacity_reservation_specification;
    Ec2Instance {
        id: entry.instance_id.unwrap_or_default(),
        instance_type: entry.instance_type.unwrap_or_default(),
        image_id: entry.image_id.unwrap_or_default(),
        zone: placement.availability_zone.unwrap_or_default(),
        zone_id: placement.availability_zone_id.unwrap_or_default(),
        subnet_id: entry.subnet_id.unwrap_or_default(),
        security_group_ids: groups.collect(),
        state: state.unwrap_or(InstanceStateName::Running),
        state_reason: None,
        state_message: None,
        launched_at: entry.launch_time,
        private_dns_name: entry.private_dns_name.unwrap_or_default(),
        spot_request_id: entry.spot_instance_request_id,
        lifecycle: entry.instance_lifecycle,
        capacity_reservation_id: entry.capacity_reservation_id,
        capacity_reservation_preference: preference.and_then(|own| own.capacity_reservation_preference),
        tenancy: placement.tenancy.unwrap_or_default(),
        partition_number: placement.partition_number.unwrap_or(0),
        interface_types: interfaces.map(|interface| interface.interface_type.unwrap_or_default()).collect(),
        tags: tags(entry.tags),
    }
}
