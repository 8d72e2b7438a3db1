//! An EC2 that records fleet requests, can answer them by hand, and can split descriptions of
//! instances into pages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;

use crate::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstanceTypes,
    DescribeInstances, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSpotPriceHistory, Ec2,
    Ec2CapacityReservation, Ec2Instance, FleetAnswer, Image, InstanceStateChange, InstanceStatus, InstanceTypeInfo,
    InstanceTypeOffering, LaunchTemplate, LaunchTemplateRef, PlacementGroup, RunInstances, SecurityGroup, SpotPrice,
    Subnet,
};
use crate::ports::{AwsError, AwsFuture, Filter, Page, PageRequest, Tags};

/// Passes all calls on, except fleet requests that have a prepared answer.
pub(crate) struct FleetRecorder {
    inner: Arc<dyn Ec2>,
    requests: Mutex<Vec<CreateFleet>>,
    answers: Mutex<VecDeque<Result<FleetAnswer, AwsError>>>,
    instances_page_size: Mutex<Option<usize>>,
    hides_partitions: AtomicBool,
}

impl FleetRecorder {
    pub(crate) fn new(inner: Arc<dyn Ec2>) -> Self {
        Self {
            inner,
            requests: Mutex::default(),
            answers: Mutex::default(),
            instances_page_size: Mutex::default(),
            hides_partitions: AtomicBool::new(false),
        }
    }

    /// Answers the next request.
    pub(crate) fn answer_next(&self, answer: Result<FleetAnswer, AwsError>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// Splits descriptions of instances by ID, which EC2 in memory returns at once, into pages.
    pub(crate) fn set_instances_page_size(&self, page_size: usize) {
        *self.instances_page_size.lock().unwrap() = Some(page_size);
    }

    /// Hides the partitions of instances, as EC2 does shortly after a launch.
    pub(crate) fn hide_partitions(&self, hides: bool) {
        self.hides_partitions.store(hides, Ordering::Relaxed);
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<CreateFleet> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

impl Ec2 for FleetRecorder {
    fn describe_instance_types(&self, request: DescribeInstanceTypes) -> AwsFuture<'_, Page<InstanceTypeInfo>> {
        self.inner.describe_instance_types(request)
    }

    fn describe_instance_type_offerings(&self, page: PageRequest) -> AwsFuture<'_, Page<InstanceTypeOffering>> {
        self.inner.describe_instance_type_offerings(page)
    }

    fn describe_spot_price_history(
        &self,
        request: DescribeSpotPriceHistory,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<SpotPrice>> {
        self.inner.describe_spot_price_history(request, page)
    }

    fn describe_subnets(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<Subnet>> {
        self.inner.describe_subnets(filters, page)
    }

    fn describe_security_groups(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<SecurityGroup>> {
        self.inner.describe_security_groups(filters, page)
    }

    fn describe_images(&self, request: DescribeImages, page: PageRequest) -> AwsFuture<'_, Page<Image>> {
        self.inner.describe_images(request, page)
    }

    fn describe_capacity_reservations(
        &self,
        request: DescribeCapacityReservations,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2CapacityReservation>> {
        self.inner.describe_capacity_reservations(request, page)
    }

    fn describe_placement_groups(&self, request: DescribePlacementGroups) -> AwsFuture<'_, Vec<PlacementGroup>> {
        self.inner.describe_placement_groups(request)
    }

    fn create_launch_template(&self, request: CreateLaunchTemplate) -> AwsFuture<'_, LaunchTemplate> {
        self.inner.create_launch_template(request)
    }

    fn describe_launch_templates(
        &self,
        request: DescribeLaunchTemplates,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<LaunchTemplate>> {
        self.inner.describe_launch_templates(request, page)
    }

    fn delete_launch_template(&self, template: LaunchTemplateRef) -> AwsFuture<'_, ()> {
        self.inner.delete_launch_template(template)
    }

    fn create_fleet(&self, request: CreateFleet) -> AwsFuture<'_, FleetAnswer> {
        self.requests.lock().unwrap().push(request.clone());
        match self.answers.lock().unwrap().pop_front() {
            Some(answer) => futures::future::ready(answer).boxed(),
            None => self.inner.create_fleet(request),
        }
    }

    fn run_instances(&self, request: RunInstances) -> AwsFuture<'_, String> {
        self.inner.run_instances(request)
    }

    fn describe_instances(&self, request: DescribeInstances, page: PageRequest) -> AwsFuture<'_, Page<Ec2Instance>> {
        let page_size = self.instances_page_size.lock().unwrap().unwrap_or(usize::MAX);
        if page_size == usize::MAX && !self.hides_partitions.load(Ordering::Relaxed) {
            return self.inner.describe_instances(request, page);
        }
        async move {
            let start: usize = page.token.as_deref().map_or(0, |token| token.parse().unwrap());
            let mut answer = self.inner.describe_instances(request, PageRequest::default()).await?;
            if self.hides_partitions.load(Ordering::Relaxed) {
                answer.items.iter_mut().for_each(|instance| instance.partition_number = 0);
            }
            let end = start.saturating_add(page_size);
            let next_token = (end < answer.items.len()).then(|| end.to_string());
            Ok(Page { items: answer.items.into_iter().skip(start).take(page_size).collect(), next_token })
        }
        .boxed()
    }

    fn describe_instance_status(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<InstanceStatus>> {
        self.inner.describe_instance_status(filters, page)
    }

    fn terminate_instances(&self, ids: Vec<String>) -> AwsFuture<'_, Vec<InstanceStateChange>> {
        self.inner.terminate_instances(ids)
    }

    fn create_tags(&self, ids: Vec<String>, tags: Tags) -> AwsFuture<'_, ()> {
        self.inner.create_tags(ids, tags)
    }
}
