//! The launch templates of EC2 in memory, with a list of calls and planned failures.

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

use futures::FutureExt as _;

use super::*;
use crate::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstanceTypes,
    DescribeInstances, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSpotPriceHistory,
    Ec2CapacityReservation, Ec2Instance, FleetAnswer, Image, InstanceStateChange, InstanceStatus, InstanceTypeInfo,
    InstanceTypeOffering, LaunchTemplate, LaunchTemplateRef, PlacementGroup, RunInstances, SecurityGroup, SpotPrice,
    Subnet,
};
use crate::ports::{AwsFuture, Ec2, Filter, Page, PageRequest};

#[derive(Debug, Default)]
pub(super) struct FakeEc2(Mutex<FakeState>);

#[derive(Debug, Default)]
pub(super) struct FakeState {
    pub(super) created: Vec<CreateLaunchTemplate>,
    templates: Vec<LaunchTemplate>,
    calls: Vec<&'static str>,
    failures: VecDeque<(&'static str, AwsError)>,
}

impl FakeEc2 {
    pub(super) fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the calls so far: `describe`, `create`, `delete`.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        self.lock().calls.clone()
    }

    /// Returns the names of all templates.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().templates.iter().map(|template| template.name.clone()).collect()
    }

    /// Makes the next call of this kind fail.
    pub(super) fn fail_next(&self, call: &'static str, error: AwsError) {
        self.lock().failures.push_back((call, error));
    }

    /// Answers a call after other tasks have run, as a real service does.
    fn answer<T: Send + 'static>(
        &self,
        call: &'static str,
        answer: impl FnOnce(&mut FakeState) -> Result<T, AwsError> + Send,
    ) -> AwsFuture<'_, T> {
        let mut state = self.lock();
        state.calls.push(call);
        let planned = state.failures.front().is_some_and(|(planned, _)| *planned == call);
        let failure = if planned { state.failures.pop_front() } else { None };
        let result = match failure {
            Some((_, error)) => Err(error),
            None => answer(&mut state),
        };
        async move {
            tokio::task::yield_now().await;
            result
        }
        .boxed()
    }

    fn unexpected<T: Send + 'static>(&self) -> AwsFuture<'_, T> {
        self.answer("unexpected", |_| Err(AwsError::no_answer("EC2", "other", "not a call about launch templates")))
    }
}

fn has_tags(template: &LaunchTemplate, filters: &[Filter]) -> bool {
    filters.iter().all(|filter| {
        let key = filter.name.strip_prefix("tag:").unwrap_or_default();
        template.tags.get(key).is_some_and(|value| filter.values.contains(value))
    })
}

impl Ec2 for FakeEc2 {
    fn create_launch_template(&self, request: CreateLaunchTemplate) -> AwsFuture<'_, LaunchTemplate> {
        self.answer("create", |state| {
            let id = format!("lt-{}", state.created.len());
            let template = LaunchTemplate { id, name: request.name.clone(), tags: request.tags.clone() };
            state.created.push(request);
            state.templates.push(template.clone());
            Ok(template)
        })
    }

    fn describe_launch_templates(
        &self,
        request: DescribeLaunchTemplates,
        _page: PageRequest,
    ) -> AwsFuture<'_, Page<LaunchTemplate>> {
        self.answer("describe", |state| {
            let is_named =
                |template: &&LaunchTemplate| request.names.is_empty() || request.names.contains(&template.name);
            let matching = state.templates.iter().filter(is_named).filter(|item| has_tags(item, &request.filters));
            let matching: Vec<LaunchTemplate> = matching.cloned().collect();
            if matching.is_empty() && !request.names.is_empty() {
                let code = "InvalidLaunchTemplateName.NotFoundException";
                return Err(AwsError::api("EC2", "DescribeLaunchTemplates", 400, code, "not found"));
            }
            Ok(Page::last(matching))
        })
    }

    fn delete_launch_template(&self, template: LaunchTemplateRef) -> AwsFuture<'_, ()> {
        self.answer("delete", |state| {
            state.templates.retain(|known| match &template {
                LaunchTemplateRef::Id(id) => known.id != *id,
                LaunchTemplateRef::Name(name) => known.name != *name,
            });
            Ok(())
        })
    }

    fn describe_instance_types(&self, _: DescribeInstanceTypes) -> AwsFuture<'_, Page<InstanceTypeInfo>> {
        self.unexpected()
    }

    fn describe_instance_type_offerings(&self, _: PageRequest) -> AwsFuture<'_, Page<InstanceTypeOffering>> {
        self.unexpected()
    }

    fn describe_spot_price_history(
        &self,
        _: DescribeSpotPriceHistory,
        _: PageRequest,
    ) -> AwsFuture<'_, Page<SpotPrice>> {
        self.unexpected()
    }

    fn describe_subnets(&self, _: Vec<Filter>, _: PageRequest) -> AwsFuture<'_, Page<Subnet>> {
        self.unexpected()
    }

    fn describe_security_groups(&self, _: Vec<Filter>, _: PageRequest) -> AwsFuture<'_, Page<SecurityGroup>> {
        self.unexpected()
    }

    fn describe_images(&self, _: DescribeImages, _: PageRequest) -> AwsFuture<'_, Page<Image>> {
        self.unexpected()
    }

    fn describe_capacity_reservations(
        &self,
        _: DescribeCapacityReservations,
        _: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2CapacityReservation>> {
        self.unexpected()
    }

    fn describe_placement_groups(&self, _: DescribePlacementGroups) -> AwsFuture<'_, Vec<PlacementGroup>> {
        self.unexpected()
    }

    fn create_fleet(&self, _: CreateFleet) -> AwsFuture<'_, FleetAnswer> {
        self.unexpected()
    }

    fn run_instances(&self, _: RunInstances) -> AwsFuture<'_, String> {
        self.unexpected()
    }

    fn describe_instances(&self, _: DescribeInstances, _: PageRequest) -> AwsFuture<'_, Page<Ec2Instance>> {
        self.unexpected()
    }

    fn describe_instance_status(&self, _: Vec<Filter>, _: PageRequest) -> AwsFuture<'_, Page<InstanceStatus>> {
        self.unexpected()
    }

    fn terminate_instances(&self, _: Vec<String>) -> AwsFuture<'_, Vec<InstanceStateChange>> {
        self.unexpected()
    }

    fn create_tags(&self, _: Vec<String>, _: Tags) -> AwsFuture<'_, ()> {
        self.unexpected()
    }
}
