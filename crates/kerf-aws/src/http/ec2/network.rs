//! Subnets and security groups.

use super::super::Content;
use super::super::query::{Parameters, QueryReader};
use super::super::xml::Xml;
use super::{filter_by_id, read, read_filters, read_page, write_tags};
use crate::memory::{Account, MemoryAws};
use crate::ports::{Ec2 as _, Filter, PageRequest};

pub(super) async fn describe_subnets(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (ids, (mut filters, page)) = read(parameters, |query| (query.texts("SubnetId"), read_filters_and_page(query)))?;
    let exists = |account: &Account, id: &str| account.subnets.contains_key(id);
    filters.extend(filter_by_id(aws, "subnet-id", ids, "InvalidSubnetID.NotFound", exists)?);
    let page = aws.describe_subnets(filters, page).await?;
    let owner = aws.change_account(|account| account.account_id.clone());
    Ok(Xml::fragment(|xml| {
        xml.items("subnetSet", &page.items, |xml, subnet| {
            xml.text("subnetId", &subnet.id);
            xml.text("state", "available");
            xml.text("ownerId", &owner);
            xml.text_unless_empty("vpcId", &subnet.vpc_id);
            xml.text("availableIpAddressCount", subnet.available_ip_count);
            xml.text("availabilityZone", &subnet.zone);
            xml.text_unless_empty("availabilityZoneId", &subnet.zone_id);
            write_tags(xml, &subnet.tags);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

pub(super) async fn describe_security_groups(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (ids, (mut filters, page)) = read(parameters, |query| (query.texts("GroupId"), read_filters_and_page(query)))?;
    let exists = |account: &Account, id: &str| account.security_groups.contains_key(id);
    filters.extend(filter_by_id(aws, "group-id", ids, "InvalidGroup.NotFound", exists)?);
    let page = aws.describe_security_groups(filters, page).await?;
    let owner = aws.change_account(|account| account.account_id.clone());
    Ok(Xml::fragment(|xml| {
        xml.items("securityGroupInfo", &page.items, |xml, group| {
            xml.text("ownerId", &owner);
            xml.text("groupId", &group.id);
            xml.text("groupName", &group.name);
            xml.text("groupDescription", &group.name);
            xml.text_unless_empty("vpcId", &group.vpc_id);
            write_tags(xml, &group.tags);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

fn read_filters_and_page(query: &mut QueryReader<'_>) -> (Vec<Filter>, PageRequest) {
    (read_filters(query), read_page(query))
}
