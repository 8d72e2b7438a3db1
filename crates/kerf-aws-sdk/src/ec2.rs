//! The calls of Amazon EC2. The submodules translate requests and answers.

mod fleet;
mod instance_status;
mod instance_types;
mod instances;
mod launch_templates;
mod network;
mod reserved_capacity;
mod run_instances;
mod spot_prices;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::LocationType;
use kerf_aws::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstanceTypes,
    DescribeInstances, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSpotPriceHistory,
    Ec2CapacityReservation, Ec2Instance, FleetAnswer, Image, InstanceStateChange, InstanceStatus, InstanceTypeInfo,
    InstanceTypeOffering, LaunchTemplate, LaunchTemplateRef, PlacementGroup, RunInstances, SecurityGroup, SpotPrice,
    Subnet,
};
use kerf_aws::ports::{AwsFuture, Ec2, Filter, Page, PageRequest, Tags};

use crate::calls::Calls;
use crate::convert::{list, page, sent_filters, sent_list, sent_tags, sent_text, sent_time};

/// Amazon EC2 through the SDK.
pub(crate) struct SdkEc2 {
    client: Client,
    calls: Calls,
}

impl SdkEc2 {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Calls::new("EC2") }
    }
}

impl Ec2 for SdkEc2 {
    fn describe_instance_types(&self, request: DescribeInstanceTypes) -> AwsFuture<'_, Page<InstanceTypeInfo>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_instance_types()
                .set_filters(sent_filters(request.filters))
                .set_dry_run(request.is_dry_run.then_some(true))
                .set_max_results(request.page.max_results)
                .set_next_token(request.page.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeInstanceTypes", send).await?;
            Ok(page(answer.instance_types, answer.next_token, instance_types::instance_type))
        })
    }

    fn describe_instance_type_offerings(&self, request: PageRequest) -> AwsFuture<'_, Page<InstanceTypeOffering>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_instance_type_offerings()
                .location_type(LocationType::AvailabilityZone)
                .set_max_results(request.max_results)
                .set_next_token(request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeInstanceTypeOfferings", send).await?;
            Ok(page(answer.instance_type_offerings, answer.next_token, instance_types::offering))
        })
    }

    fn describe_spot_price_history(
        &self,
        request: DescribeSpotPriceHistory,
        page_request: PageRequest,
    ) -> AwsFuture<'_, Page<SpotPrice>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_spot_price_history()
                .set_product_descriptions(sent_list(request.product_descriptions, |product| product))
                .set_start_time(request.start_time.map(sent_time))
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeSpotPriceHistory", send).await?;
            Ok(page(answer.spot_price_history, answer.next_token, spot_prices::spot_price))
        })
    }

    fn describe_subnets(&self, filters: Vec<Filter>, request: PageRequest) -> AwsFuture<'_, Page<Subnet>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_subnets()
                .set_filters(sent_filters(filters))
                .set_max_results(request.max_results)
                .set_next_token(request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeSubnets", send).await?;
            Ok(page(answer.subnets, answer.next_token, network::subnet))
        })
    }

    fn describe_security_groups(
        &self,
        filters: Vec<Filter>,
        request: PageRequest,
    ) -> AwsFuture<'_, Page<SecurityGroup>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_security_groups()
                .set_filters(sent_filters(filters))
                .set_max_results(request.max_results)
                .set_next_token(request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeSecurityGroups", send).await?;
            Ok(page(answer.security_groups, answer.next_token, network::security_group))
        })
    }

    fn describe_images(&self, request: DescribeImages, page_request: PageRequest) -> AwsFuture<'_, Page<Image>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_images()
                .set_filters(sent_filters(request.filters))
                .set_owners(sent_list(request.owners, |owner| owner))
                .include_deprecated(request.include_deprecated)
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeImages", send).await?;
            Ok(page(answer.images, answer.next_token, network::image))
        })
    }

    fn describe_capacity_reservations(
        &self,
        request: DescribeCapacityReservations,
        page_request: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2CapacityReservation>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_capacity_reservations()
                .set_capacity_reservation_ids(sent_list(request.ids, |id| id))
                .set_filters(sent_filters(request.filters))
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeCapacityReservations", send).await?;
            Ok(page(answer.capacity_reservations, answer.next_token, reserved_capacity::capacity_reservation))
        })
    }

    fn describe_placement_groups(&self, request: DescribePlacementGroups) -> AwsFuture<'_, Vec<PlacementGroup>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_placement_groups()
                .set_group_ids(sent_list(request.ids, |id| id))
                .set_group_names(sent_list(request.names, |name| name))
                .set_filters(sent_filters(request.filters))
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribePlacementGroups", send).await?;
            Ok(list(answer.placement_groups, reserved_capacity::placement_group))
        })
    }

    fn create_launch_template(&self, request: CreateLaunchTemplate) -> AwsFuture<'_, LaunchTemplate> {
        Box::pin(async move {
            let request = self
                .client
                .create_launch_template()
                .launch_template_name(request.name)
                .launch_template_data(launch_templates::sent_data(request.data))
                .set_tag_specifications(launch_templates::sent_template_tags(request.tags))
                .set_client_token(sent_text(request.client_token))
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("CreateLaunchTemplate", send).await?;
            Ok(answer.launch_template.map(launch_templates::launch_template).unwrap_or_default())
        })
    }

    fn describe_launch_templates(
        &self,
        request: DescribeLaunchTemplates,
        page_request: PageRequest,
    ) -> AwsFuture<'_, Page<LaunchTemplate>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_launch_templates()
                .set_launch_template_names(sent_list(request.names, |name| name))
                .set_filters(sent_filters(request.filters))
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeLaunchTemplates", send).await?;
            Ok(page(answer.launch_templates, answer.next_token, launch_templates::launch_template))
        })
    }

    fn delete_launch_template(&self, template: LaunchTemplateRef) -> AwsFuture<'_, ()> {
        Box::pin(async move {
            let request = self.client.delete_launch_template();
            let request = match template {
                LaunchTemplateRef::Id(id) => request.launch_template_id(id),
                LaunchTemplateRef::Name(name) => request.launch_template_name(name),
            };
            let send = |recorder| request.customize().interceptor(recorder).send();
            self.calls.run("DeleteLaunchTemplate", send).await.map(drop)
        })
    }

    fn create_fleet(&self, request: CreateFleet) -> AwsFuture<'_, FleetAnswer> {
        Box::pin(async move {
            let request = fleet::sent_fleet(self.client.create_fleet(), request).customize();
            let answer = self.calls.run("CreateFleet", |recorder| request.interceptor(recorder).send()).await?;
            Ok(fleet::answer(answer))
        })
    }

    fn run_instances(&self, request: RunInstances) -> AwsFuture<'_, String> {
        Box::pin(async move {
            let request = run_instances::sent_instances(self.client.run_instances(), request).customize();
            let answer = self.calls.run("RunInstances", |recorder| request.interceptor(recorder).send()).await?;
            let first = answer.instances.unwrap_or_default().into_iter().next();
            Ok(first.and_then(|instance| instance.instance_id).unwrap_or_default())
        })
    }

    fn describe_instances(
        &self,
        request: DescribeInstances,
        page_request: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2Instance>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_instances()
                .set_instance_ids(sent_list(request.ids, |id| id))
                .set_filters(sent_filters(request.filters))
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeInstances", send).await?;
            let reservations = answer.reservations.unwrap_or_default().into_iter();
            let instances = reservations.flat_map(|reservation| reservation.instances.unwrap_or_default());
            Ok(page(Some(instances.collect()), answer.next_token, instances::instance))
        })
    }

    fn describe_instance_status(
        &self,
        filters: Vec<Filter>,
        page_request: PageRequest,
    ) -> AwsFuture<'_, Page<InstanceStatus>> {
        Box::pin(async move {
            let request = self
                .client
                .describe_instance_status()
                .set_filters(sent_filters(filters))
                .set_max_results(page_request.max_results)
                .set_next_token(page_request.token)
                .customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("DescribeInstanceStatus", send).await?;
            Ok(page(answer.instance_statuses, answer.next_token, instance_status::instance_status))
        })
    }

    fn terminate_instances(&self, ids: Vec<String>) -> AwsFuture<'_, Vec<InstanceStateChange>> {
        Box::pin(async move {
            let request = self.client.terminate_instances().set_instance_ids(Some(ids)).customize();
            let send = |recorder| request.interceptor(recorder).send();
            let answer = self.calls.run("TerminateInstances", send).await?;
            Ok(list(answer.terminating_instances, instances::state_change))
        })
    }

    fn create_tags(&self, ids: Vec<String>, tags: Tags) -> AwsFuture<'_, ()> {
        Box::pin(async move {
            let request = self.client.create_tags().set_resources(Some(ids)).set_tags(sent_tags(tags)).customize();
            let send = |recorder| request.interceptor(recorder).send();
            self.calls.run("CreateTags", send).await.map(drop)
        })
    }
}
