//! Instance types and the zones in which they are offered.

use serde_json::Value;

use super::super::Content;
use super::super::query::Parameters;
use super::super::xml::Xml;
use super::{filter_by_id, read, read_dry_run, read_filters, read_page};
use crate::memory::{Account, AwsFailure, MemoryAws};
use crate::ports::Ec2 as _;
use crate::ports::ec2::{DescribeInstanceTypes, InstanceTypeInfo};

const AVAILABILITY_ZONE: &str = "availability-zone";

pub(super) async fn describe(aws: &MemoryAws, parameters: Parameters) -> Content {
    let (names, mut request) = parameters.read(|query| {
        let filters = read_filters(query);
        let request = DescribeInstanceTypes { filters, is_dry_run: read_dry_run(query), page: read_page(query) };
        (query.texts("InstanceType"), request)
    })?;
    let exists = |account: &Account, name: &str| account.has_instance_type(name);
    request.filters.extend(filter_by_id(aws, "instance-type", names, "InvalidInstanceType", exists)?);
    let page = aws.describe_instance_types(request).await?;
    let mut items = Vec::new();
    for info in &page.items {
        items.push(
            serde_json::to_value(info).map_err(|error| AwsFailure::new(500, "InternalError", error.to_string()))?,
        );
    }
    Ok(Xml::fragment(|xml| {
        xml.items("instanceTypeSet", page.items.iter().zip(&items), |xml, (info, value)| {
            write_members(xml, value);
            write_derived(xml, info);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

pub(super) async fn describe_offerings(aws: &MemoryAws, parameters: Parameters) -> Content {
    let page = read(parameters, |query| {
        let location_type = query.text("LocationType").unwrap_or_else(|| "region".to_owned());
        if location_type != AVAILABILITY_ZONE {
            query.add_wrong_value("LocationType", &location_type, AVAILABILITY_ZONE);
        }
        read_page(query)
    })?;
    let page = aws.describe_instance_type_offerings(page).await?;
    Ok(Xml::fragment(|xml| {
        xml.items("instanceTypeOfferingSet", &page.items, |xml, offering| {
            xml.text("instanceType", &offering.instance_type);
            xml.text("locationType", AVAILABILITY_ZONE);
            xml.text("location", &offering.zone);
        });
        xml.text_if_some("nextToken", page.next_token);
    }))
}

/// Writes the members of an object. [`InstanceTypeInfo`] has EC2's names with a capital letter; the
/// elements begin with a small one. Facts that EC2 does not report are null or empty.
fn write_members(xml: &mut Xml, object: &Value) {
    for (name, value) in object.as_object().into_iter().flatten() {
        let element = with_small_letter(name);
        match value {
            Value::Null => {}
            Value::String(text) => xml.text_unless_empty(&element, text),
            Value::Bool(_) | Value::Number(_) => xml.text(&element, value),
            Value::Object(_) => xml.element(&element, |xml| write_members(xml, value)),
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) => {
                // The only list of EC2 whose items have this name.
                let item_name = if name == "Accelerators" { "member" } else { "item" };
                xml.element(&element, |xml| {
                    for item in items {
                        match item {
                            Value::Object(_) => xml.element(item_name, |xml| write_members(xml, item)),
                            Value::String(text) => xml.text(item_name, text),
                            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                                xml.text(item_name, item);
                            }
                        }
                    }
                });
            }
        }
    }
}

/// Writes facts that EC2 reports and [`InstanceTypeInfo`] has in another form.
fn write_derived(xml: &mut Xml, info: &InstanceTypeInfo) {
    xml.text("instanceStorageSupported", info.storage.is_some());
}

fn with_small_letter(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}
