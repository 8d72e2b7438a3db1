//! Amazon EC2: the calls, with small types for their requests and answers.

mod fleet;
mod instance_status;
mod instance_types;
mod instances;
mod launch_templates;
mod network;
mod reserved_capacity;
mod run_instances;
mod spot_prices;

pub use fleet::{
    CreateFleet, FleetAnswer, FleetConfig, FleetError, FleetInstance, FleetOverride, FleetTarget, TagSpecification,
};
pub use instance_status::{InstanceStatus, ScheduledEvent, StatusCheck};
pub use instance_types::{
    Accelerator, AcceleratorInfo, DescribeInstanceTypes, EbsInfo, EbsOptimizedInfo, EfaInfo, Gpu, GpuInfo,
    InstanceStorage, InstanceTypeInfo, InstanceTypeOffering, MemoryInfo, NetworkCard, NetworkInfo, NeuronCoreInfo,
    NeuronDevice, NeuronInfo, PlacementGroupInfo, ProcessorInfo, VcpuInfo,
};
pub use instances::{DescribeInstances, Ec2Instance, InstanceStateChange, InstanceStateName};
pub use launch_templates::{
    CreateLaunchTemplate, DescribeLaunchTemplates, LaunchTemplate, LaunchTemplateData, LaunchTemplateRef,
    TemplateBlockDevice, TemplateCapacityReservation, TemplateMetadataOptions, TemplateNetworkInterface,
    TemplatePlacement, USER_DATA_MAX_BYTES,
};
pub use network::{DescribeImages, Image, SecurityGroup, Subnet};
pub use reserved_capacity::{
    DescribeCapacityReservations, DescribePlacementGroups, Ec2CapacityReservation, PlacementGroup,
};
pub use run_instances::{RunInstances, RunNetworkInterface};
pub use spot_prices::{DescribeSpotPriceHistory, SpotPrice};

use super::{AwsFuture, Filter, Page, PageRequest, Tags};

/// The calls of Amazon EC2. Each method is one request.
pub trait Ec2: Send + Sync {
    /// `DescribeInstanceTypes`.
    fn describe_instance_types(&self, request: DescribeInstanceTypes) -> AwsFuture<'_, Page<InstanceTypeInfo>>;

    /// `DescribeInstanceTypeOfferings` by availability zone.
    fn describe_instance_type_offerings(&self, page: PageRequest) -> AwsFuture<'_, Page<InstanceTypeOffering>>;

    /// `DescribeSpotPriceHistory`.
    fn describe_spot_price_history(
        &self,
        request: DescribeSpotPriceHistory,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<SpotPrice>>;

    /// `DescribeSubnets`.
    fn describe_subnets(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<Subnet>>;

    /// `DescribeSecurityGroups`.
    fn describe_security_groups(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<SecurityGroup>>;

    /// `DescribeImages`.
    fn describe_images(&self, request: DescribeImages, page: PageRequest) -> AwsFuture<'_, Page<Image>>;

    /// `DescribeCapacityReservations`. EC2 rejects a page size together with IDs.
    fn describe_capacity_reservations(
        &self,
        request: DescribeCapacityReservations,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2CapacityReservation>>;

    /// `DescribePlacementGroups`, which has no pages.
    fn describe_placement_groups(&self, request: DescribePlacementGroups) -> AwsFuture<'_, Vec<PlacementGroup>>;

    /// `CreateLaunchTemplate`.
    fn create_launch_template(&self, request: CreateLaunchTemplate) -> AwsFuture<'_, LaunchTemplate>;

    /// `DescribeLaunchTemplates`.
    fn describe_launch_templates(
        &self,
        request: DescribeLaunchTemplates,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<LaunchTemplate>>;

    /// `DeleteLaunchTemplate`.
    fn delete_launch_template(&self, template: LaunchTemplateRef) -> AwsFuture<'_, ()>;

    /// `CreateFleet` of type `instant`.
    fn create_fleet(&self, request: CreateFleet) -> AwsFuture<'_, FleetAnswer>;

    /// `RunInstances` for one instance; returns its ID. EC2 answers a dry run always with an error:
    /// the code `DryRunOperation` means that the request would have succeeded.
    fn run_instances(&self, request: RunInstances) -> AwsFuture<'_, String>;

    /// `DescribeInstances`. The answer's reservations are flattened to their instances.
    fn describe_instances(&self, request: DescribeInstances, page: PageRequest) -> AwsFuture<'_, Page<Ec2Instance>>;

    /// `DescribeInstanceStatus` of running instances.
    fn describe_instance_status(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<InstanceStatus>>;

    /// `TerminateInstances`.
    fn terminate_instances(&self, ids: Vec<String>) -> AwsFuture<'_, Vec<InstanceStateChange>>;

    /// `CreateTags` on instances or other resources, by ID.
    fn create_tags(&self, ids: Vec<String>, tags: Tags) -> AwsFuture<'_, ()>;
}
