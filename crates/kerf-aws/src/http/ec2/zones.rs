//! Availability zones and regions, which people list first with the `aws` command line. Kerf does
//! not call these operations, so they have no port.

use super::super::Content;
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::read;
use crate::memory::{AwsOperation, MemoryAws};

pub(super) async fn describe_zones(aws: &MemoryAws, parameters: Parameters) -> Content {
    read(parameters, |query| query.boolean("AllAvailabilityZones"))?;
    let call = aws.call(AwsOperation::ec2("DescribeAvailabilityZones"), String::new(), |state, _| {
        let account = &state.account;
        Ok(Xml::fragment(|xml| {
            xml.items("availabilityZoneInfo", &account.zones, |xml, zone| {
                xml.text("optInStatus", "opt-in-not-required");
                xml.text("zoneState", "available");
                xml.text("regionName", &account.region);
                xml.text("zoneName", &zone.name);
                xml.text("zoneId", &zone.id);
                xml.text("zoneType", "availability-zone");
                xml.text("groupName", &account.region);
                xml.text("networkBorderGroup", &account.region);
            });
        }))
    });
    Ok(call.await?)
}

pub(super) async fn describe_regions(aws: &MemoryAws, parameters: Parameters) -> Content {
    read(parameters, |query| query.boolean("AllRegions"))?;
    let call = aws.call(AwsOperation::ec2("DescribeRegions"), String::new(), |state, _| {
        let region = &state.account.region;
        Ok(Xml::fragment(|xml| {
            xml.items("regionInfo", [region], |xml, region| {
                xml.text("regionName", region);
                xml.text("regionEndpoint", format!("ec2.{region}.amazonaws.com"));
                xml.text("optInStatus", "opt-in-not-required");
            });
        }))
    });
    Ok(call.await?)
}
