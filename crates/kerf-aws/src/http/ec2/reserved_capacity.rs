//! Capacity reservations and placement groups.

use super::super::Content;
use super::super::names::{partition, time_text};
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::{read, read_filters, read_page, write_tags};
use crate::memory::MemoryAws;
use crate::ports::Ec2 as _;
use crate::ports::ec2::{DescribeCapacityReservations, DescribePlacementGroups};

pub(super) async fn describe_reservations(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (request, page) = read(parameters, |query| {
        let ids = query.texts("CapacityReservationId");
        (DescribeCapacityReservations { ids, filters: read_filters(query) }, read_page(query))
    })?;
    let page = aws.describe_capacity_reservations(request, page).await?;
    let region = aws.region();
    Ok(Xml::fragment(|xml| {
        xml.items("capacityReservationSet", &page.items, |xml, reservation| {
            let (id, owner) = (&reservation.id, &reservation.owner_id);
            xml.text("capacityReservationId", id);
            xml.text("ownerId", owner);
            let partition = partition(&region);
            xml.text(
                "capacityReservationArn",
                format!("arn:{partition}:ec2:{region}:{owner}:capacity-reservation/{id}"),
            );
            xml.text_unless_empty("availabilityZoneId", &reservation.zone_id);
            xml.text("instanceType", &reservation.instance_type);
            xml.text("instancePlatform", "Linux/UNIX");
            xml.text("availabilityZone", &reservation.zone);
            xml.text("tenancy", "default");
            xml.text("totalInstanceCount", reservation.total_instance_count);
            xml.text("availableInstanceCount", reservation.available_instance_count);
            xml.text_unless_empty("state", &reservation.state);
            xml.text_if_some("startDate", reservation.starts_at.map(time_text));
            xml.text_if_some("endDate", reservation.ends_at.map(time_text));
            xml.text("endDateType", if reservation.ends_at.is_some() { "limited" } else { "unlimited" });
            xml.text_unless_empty("instanceMatchCriteria", &reservation.instance_match_criteria);
            write_tags(xml, &reservation.tags);
            xml.text_unless_empty("reservationType", &reservation.reservation_type);
            xml.text("interruptible", reservation.is_interruptible);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

pub(super) async fn describe_placement_groups(aws: &MemoryAws, parameters: Parameters) -> Content {
    let request = read(parameters, |query| DescribePlacementGroups {
        ids: query.texts("GroupId"),
        names: query.texts("GroupName"),
        filters: read_filters(query),
    })?;
    let groups = aws.describe_placement_groups(request).await?;
    let (region, owner) = aws.change_account(|account| (account.region.clone(), account.account_id.clone()));
    Ok(Xml::fragment(|xml| {
        xml.items("placementGroupSet", &groups, |xml, group| {
            xml.text("groupName", &group.name);
            xml.text_unless_empty("state", &group.state);
            xml.text_unless_empty("strategy", &group.strategy);
            xml.text_if_some("partitionCount", group.partition_count);
            xml.text("groupId", &group.id);
            write_tags(xml, &group.tags);
            let arn = format!("arn:{}:ec2:{region}:{owner}:placement-group/{}", partition(&region), group.name);
            xml.text("groupArn", arn);
            xml.text_if_some("spreadLevel", group.spread_level.as_ref());
        });
    }))
}
