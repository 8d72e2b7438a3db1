//! EC2: the query protocol with EC2's names, answers in XML.

mod fleet;
mod images;
mod instance_status;
mod instance_types;
mod instances;
mod launch_templates;
mod network;
mod reserved_capacity;
mod run_instances;
mod spot_prices;
pub(super) mod template_data;
mod zones;

use super::Content;
use super::query::{Parameters, QueryReader};
use super::xml::Xml;
use crate::memory::{Account, AwsFailure, EC2_OPERATIONS, MemoryAws};
use crate::ports::ec2::TagSpecification;
use crate::ports::{Filter, PageRequest, Tags};

pub(super) const VERSION: &str = "2016-11-15";
pub(super) const NAMESPACE: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";

/// Types of resources that tags of a request may be for.
const TAGGED_RESOURCES: [&str; 6] =
    ["fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume"];

pub(super) fn operation(action: &str) -> Option<&'static str> {
    EC2_OPERATIONS.into_iter().find(|name| *name == action)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, parameters: Parameters) -> Content {
    match operation {
        "CreateFleet" => fleet::create(aws, parameters).await,
        "CreateLaunchTemplate" => launch_templates::create(aws, parameters).await,
        "CreateTags" => instances::create_tags(aws, parameters).await,
        "DeleteLaunchTemplate" => launch_templates::delete(aws, parameters).await,
        "DescribeAvailabilityZones" => zones::describe_zones(aws, parameters).await,
        "DescribeCapacityReservations" => reserved_capacity::describe_reservations(aws, parameters).await,
        "DescribeImages" => images::describe(aws, parameters).await,
        "DescribeInstanceStatus" => instance_status::describe(aws, parameters).await,
        "DescribeInstanceTypeOfferings" => instance_types::describe_offerings(aws, parameters).await,
        "DescribeInstanceTypes" => instance_types::describe(aws, parameters).await,
        "DescribeInstances" => instances::describe(aws, parameters).await,
        "DescribeLaunchTemplates" => launch_templates::describe(aws, parameters).await,
        "DescribePlacementGroups" => reserved_capacity::describe_placement_groups(aws, parameters).await,
        "DescribeRegions" => zones::describe_regions(aws, parameters).await,
        "DescribeSecurityGroups" => network::describe_security_groups(aws, parameters).await,
        "DescribeSpotPriceHistory" => spot_prices::describe(aws, parameters).await,
        "DescribeSubnets" => network::describe_subnets(aws, parameters).await,
        "RunInstances" => run_instances::run(aws, parameters).await,
        "TerminateInstances" => instances::terminate(aws, parameters).await,
        name => Err(AwsFailure::bad_request("InvalidAction", format!("The action {name} is not valid.")).into()),
    }
}

/// Reads the parameters of an operation whose port has no dry run. A dry run of a request that can
/// be read passes.
fn read<T>(parameters: Parameters, read: impl FnOnce(&mut QueryReader<'_>) -> T) -> Result<T, AwsFailure> {
    let (is_dry_run, request) = parameters.read(|query| (read_dry_run(query), read(query)))?;
    if is_dry_run { Err(AwsFailure::dry_run()) } else { Ok(request) }
}

fn read_dry_run(query: &mut QueryReader<'_>) -> bool {
    query.boolean("DryRun").unwrap_or(false)
}

fn read_filters(query: &mut QueryReader<'_>) -> Vec<Filter> {
    query.objects("Filter", |filter| Filter { name: filter.required_text("Name"), values: filter.texts("Value") })
}

/// Returns a filter for the IDs of a request, or `None` if it has none. Fails with `code` if an ID
/// does not exist: EC2 then returns none of the others either.
fn filter_by_id(
    aws: &MemoryAws,
    filter: &str,
    ids: Vec<String>,
    code: &str,
    exists: impl Fn(&Account, &str) -> bool,
) -> Result<Option<Filter>, AwsFailure> {
    let missing = aws.change_account(|account| ids.iter().find(|id| !exists(account, id)).cloned());
    match missing {
        Some(id) => Err(AwsFailure::bad_request(code, format!("The {filter} '{id}' does not exist"))),
        None => Ok((!ids.is_empty()).then(|| Filter::any_of(filter, ids))),
    }
}

fn read_page(query: &mut QueryReader<'_>) -> PageRequest {
    PageRequest { max_results: query.number("MaxResults"), token: query.text("NextToken") }
}

fn read_tags(query: &mut QueryReader<'_>) -> Tags {
    let read_tag = |tag: &mut QueryReader<'_>| (tag.required_text("Key"), tag.text("Value").unwrap_or_default());
    query.objects("Tag", read_tag).into_iter().collect()
}

fn read_tag_specifications(query: &mut QueryReader<'_>) -> Vec<TagSpecification> {
    query.objects("TagSpecification", |specification| {
        let name = specification.required_text("ResourceType");
        let resource_type = TAGGED_RESOURCES.into_iter().find(|known| *known == name).unwrap_or_else(|| {
            specification.add_wrong_value("ResourceType", &name, &format!("one of {}", TAGGED_RESOURCES.join(", ")));
            ""
        });
        TagSpecification { resource_type, tags: read_tags(specification) }
    })
}

fn write_tags(xml: &mut Xml, tags: &Tags) {
    if tags.is_empty() {
        return;
    }
    xml.items("tagSet", tags, |xml, (key, value)| {
        xml.text("key", key);
        xml.text("value", value);
    });
}
