//! The AWS resources of a document, in the shapes of AWS's command line (spec 11 §1.2).

use std::collections::BTreeMap;

use jiff::Timestamp;
use kerf_aws::ports::ec2::{Image, SecurityGroup, Subnet};
use kerf_aws::ports::{ClusterInfo, Tags};
use serde::Deserialize;
use serde_json::Value;

use super::QuestionError;
use super::document::Document;

/// The resources of a document.
pub(super) struct DescribedResources {
    pub(super) account_id: String,
    pub(super) subnets: Vec<Subnet>,
    pub(super) security_groups: Vec<SecurityGroup>,
    pub(super) images: Vec<DescribedImage>,
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

impl DescribedResources {
    pub(super) fn of(document: &Document) -> Result<Self, QuestionError> {
        let options = document.options();
        let cidr = options.cluster_facts().service_cidr;
        let (ipv6, ipv4) = cidr.into_iter().partition::<Vec<String>, _>(|cidr| cidr.contains(':'));
        Ok(Self {
            account_id: options.account_id().to_owned(),
            subnets: entries("subnets", document.subnets.as_deref())?.into_iter().map(subnet).collect(),
            security_groups: entries("securityGroups", document.security_groups.as_deref())?
                .into_iter()
                .map(security_group)
                .collect(),
            images: entries("images", document.images.as_deref())?.into_iter().map(image).collect(),
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
