//! The calls of EC2.

use super::MemoryAws;
use super::calls::AwsOperation;
use crate::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstanceTypes,
    DescribeInstances, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSpotPriceHistory,
    Ec2CapacityReservation, Ec2Instance, FleetAnswer, Image, InstanceStateChange, InstanceStatus, InstanceTypeInfo,
    InstanceTypeOffering, LaunchTemplate, LaunchTemplateRef, PlacementGroup, RunInstances, SecurityGroup, SpotPrice,
    Subnet,
};
use crate::ports::{AwsFuture, Ec2, Filter, Page, PageRequest, Tags};

impl Ec2 for MemoryAws {
    fn describe_instance_types(&self, request: DescribeInstanceTypes) -> AwsFuture<'_, Page<InstanceTypeInfo>> {
        let dry_run = if request.is_dry_run { "dry run " } else { "" };
        let text = format!("{dry_run}{}{}", filters_text(&request.filters), page_text(&request.page));
        Box::pin(self.call(AwsOperation::ec2("DescribeInstanceTypes"), text, move |state, _| {
            state.describe_instance_types(&request)
        }))
    }

    fn describe_instance_type_offerings(&self, page: PageRequest) -> AwsFuture<'_, Page<InstanceTypeOffering>> {
        Box::pin(self.call(AwsOperation::ec2("DescribeInstanceTypeOfferings"), page_text(&page), move |state, _| {
            state.describe_offerings(&page)
        }))
    }

    fn describe_spot_price_history(
        &self,
        request: DescribeSpotPriceHistory,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<SpotPrice>> {
        let since = request.start_time.map(|time| format!(" since {time}")).unwrap_or_default();
        let text = format!("{}{since}{}", request.product_descriptions.join("|"), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeSpotPriceHistory"), text, move |state, now| {
            state.describe_spot_prices(&request, &page, now)
        }))
    }

    fn describe_subnets(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<Subnet>> {
        let text = format!("{}{}", filters_text(&filters), page_text(&page));
        Box::pin(
            self.call(AwsOperation::ec2("DescribeSubnets"), text, move |state, _| {
                state.describe_subnets(&filters, &page)
            }),
        )
    }

    fn describe_security_groups(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<SecurityGroup>> {
        let text = format!("{}{}", filters_text(&filters), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeSecurityGroups"), text, move |state, _| {
            state.describe_security_groups(&filters, &page)
        }))
    }

    fn describe_images(&self, request: DescribeImages, page: PageRequest) -> AwsFuture<'_, Page<Image>> {
        let owners =
            if request.owners.is_empty() { String::new() } else { format!("owners {} ", request.owners.join(",")) };
        let text = format!("{owners}{}{}", filters_text(&request.filters), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeImages"), text, move |state, now| {
            state.describe_images(&request, &page, now)
        }))
    }

    fn describe_capacity_reservations(
        &self,
        request: DescribeCapacityReservations,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2CapacityReservation>> {
        let text = format!("{} {}{}", request.ids.join(","), filters_text(&request.filters), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeCapacityReservations"), text, move |state, _| {
            state.describe_capacity_reservations(&request, &page)
        }))
    }

    fn describe_placement_groups(&self, request: DescribePlacementGroups) -> AwsFuture<'_, Vec<PlacementGroup>> {
        let named = request.ids.iter().chain(&request.names).cloned().collect::<Vec<_>>().join(",");
        let text = format!("{named} {}", filters_text(&request.filters));
        Box::pin(self.call(AwsOperation::ec2("DescribePlacementGroups"), text, move |state, _| {
            state.describe_placement_groups(&request)
        }))
    }

    fn create_launch_template(&self, request: CreateLaunchTemplate) -> AwsFuture<'_, LaunchTemplate> {
        let text = format!("{} image {}", request.name, request.data.image_id);
        Box::pin(self.call(AwsOperation::ec2("CreateLaunchTemplate"), text, move |state, now| {
            state.create_launch_template(request, now)
        }))
    }

    fn describe_launch_templates(
        &self,
        request: DescribeLaunchTemplates,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<LaunchTemplate>> {
        let text = format!("{} {}{}", request.names.join(","), filters_text(&request.filters), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeLaunchTemplates"), text, move |state, _| {
            state.describe_launch_templates(&request, &page)
        }))
    }

    fn delete_launch_template(&self, template: LaunchTemplateRef) -> AwsFuture<'_, ()> {
        let (LaunchTemplateRef::Id(text) | LaunchTemplateRef::Name(text)) = &template;
        Box::pin(self.call(AwsOperation::ec2("DeleteLaunchTemplate"), text.clone(), move |state, _| {
            state.delete_launch_template(&template).map(drop)
        }))
    }

    fn create_fleet(&self, request: CreateFleet) -> AwsFuture<'_, FleetAnswer> {
        let templates: Vec<&str> = request.configs.iter().map(|config| config.template_name.as_str()).collect();
        let text = format!(
            "{}{} x {:?} from {} with {} overrides",
            if request.is_dry_run { "dry run " } else { "" },
            request.target_capacity,
            request.target,
            templates.join(","),
            request.configs.iter().map(|config| config.overrides.len()).sum::<usize>()
        );
        Box::pin(self.call(AwsOperation::ec2("CreateFleet"), text, move |state, now| state.create_fleet(request, now)))
    }

    fn run_instances(&self, request: RunInstances) -> AwsFuture<'_, String> {
        let dry_run = if request.is_dry_run { "dry run " } else { "" };
        let subnets: Vec<&str> = request.network_interfaces.iter().map(|own| own.subnet_id.as_str()).collect();
        let text =
            format!("{dry_run}{} from {} in {}", request.instance_type, request.template_name, subnets.join(","));
        Box::pin(
            self.call(AwsOperation::ec2("RunInstances"), text, move |state, now| state.run_instances(&request, now)),
        )
    }

    fn describe_instances(&self, request: DescribeInstances, page: PageRequest) -> AwsFuture<'_, Page<Ec2Instance>> {
        let text = format!("{} {}{}", request.ids.join(","), filters_text(&request.filters), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeInstances"), text, move |state, now| {
            state.describe_instances(&request, &page, now)
        }))
    }

    fn describe_instance_status(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<InstanceStatus>> {
        let text = format!("{}{}", filters_text(&filters), page_text(&page));
        Box::pin(self.call(AwsOperation::ec2("DescribeInstanceStatus"), text, move |state, _| {
            state.describe_instance_status(&filters, &page)
        }))
    }

    fn terminate_instances(&self, ids: Vec<String>) -> AwsFuture<'_, Vec<InstanceStateChange>> {
        Box::pin(self.call(AwsOperation::ec2("TerminateInstances"), ids.join(","), move |state, now| {
            state.terminate_instances(&ids, now)
        }))
    }

    fn create_tags(&self, ids: Vec<String>, tags: Tags) -> AwsFuture<'_, ()> {
        let pairs: Vec<String> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = format!("{} {}", ids.join(","), pairs.join(" "));
        Box::pin(self.call(AwsOperation::ec2("CreateTags"), text, move |state, _| state.create_tags(&ids, &tags)))
    }
}

fn filters_text(filters: &[Filter]) -> String {
    let texts = filters.iter().map(|filter| format!("{}={}", filter.name, filter.values.join("|")));
    texts.collect::<Vec<_>>().join(" ")
}

pub(super) fn page_text(page: &PageRequest) -> String {
    let size = page.max_results.map(|size| format!(" max {size}")).unwrap_or_default();
    let token = page.token.as_deref().map(|token| format!(" token {token}")).unwrap_or_default();
    format!("{size}{token}")
}
