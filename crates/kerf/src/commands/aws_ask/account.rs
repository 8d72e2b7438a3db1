//! The AWS account that a document describes (spec 11 §1.2): it serves the document's resources,
//! fails where the document says so, and records every call.

mod instances;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::ready;
use kerf_aws::ports::ec2::{
    CreateFleet, CreateLaunchTemplate, DescribeCapacityReservations, DescribeImages, DescribeInstanceTypes,
    DescribeInstances, DescribeLaunchTemplates, DescribePlacementGroups, DescribeSpotPriceHistory, Ec2,
    Ec2CapacityReservation, Ec2Instance, FleetAnswer, Image, InstanceStateChange, InstanceStatus, InstanceTypeInfo,
    InstanceTypeOffering, LaunchTemplate, LaunchTemplateRef, PlacementGroup, RunInstances, SecurityGroup, SpotPrice,
    Subnet,
};
use kerf_aws::ports::{
    AwsError, AwsFuture, ClusterInfo, CreateInstanceProfile, Eks, Filter, GetProducts, Iam, InstanceProfile,
    ManagedResource, Page, PageRequest, PriceList, QueueMessage, ReceiveMessages, Sqs, Ssm, Tags, ZonalShift,
};
use serde_json::Value;

use super::calls::{self, RecordedCall};
use super::document::{FailureScript, FleetRule, ScriptedFailure};
use super::filters::matches;
use super::resources::DescribedResources;

/// An AWS account with the resources that a document lists.
pub(super) struct DocumentAccount {
    resources: DescribedResources,
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    calls: Vec<RecordedCall>,
    failures: BTreeMap<String, VecDeque<Option<ScriptedFailure>>>,
    templates: BTreeMap<String, CreateLaunchTemplate>,
    profiles: BTreeMap<String, InstanceProfile>,
    /// Overrides that fleets cannot launch.
    rules: Vec<FleetRule>,
    instances: Vec<Ec2Instance>,
    /// Number of fleets so far.
    fleets: usize,
    /// Number of instances that fleets have launched.
    launched: usize,
    queue: StoredMessage,
}

/// The only message of the interruption queue.
#[derive(Default)]
struct StoredMessage {
    /// The message that the next receive call returns.
    waiting: Option<QueueMessage>,
    is_deleted: bool,
}

const EC2: &str = "EC2";
const IAM: &str = "IAM";

impl DocumentAccount {
    pub(super) fn new(resources: DescribedResources, failures: FailureScript) -> Self {
        let profile = |(name, role): (&String, &Option<String>)| {
            let roles = role.iter().filter(|role| !role.is_empty()).cloned().collect();
            let profile = InstanceProfile { name: name.clone(), path: "/".to_owned(), roles, tags: Tags::new() };
            (name.clone(), profile)
        };
        let state = AccountState {
            failures: failure_queues(failures),
            instances: resources.instances.clone(),
            profiles: resources.profiles.iter().map(profile).collect(),
            ..AccountState::default()
        };
        Self { resources, state: Mutex::new(state) }
    }

    /// Makes the calls with which a process starts: it reads the version of the cluster.
    pub(super) async fn start(&self, cluster_name: &str) -> Result<(), AwsError> {
        self.describe_cluster(cluster_name).await?;
        self.state().calls.clear();
        Ok(())
    }

    /// Returns all calls, oldest first.
    pub(super) fn calls(&self) -> Vec<RecordedCall> {
        self.state().calls.clone()
    }

    /// Returns the calls since the last time.
    pub(super) fn take_calls(&self) -> Vec<RecordedCall> {
        std::mem::take(&mut self.state().calls)
    }

    /// Replaces the rules of fleets.
    pub(super) fn set_fleet_rules(&self, rules: Vec<FleetRule>) {
        self.state().rules = rules;
    }

    /// Replaces the scripted failures.
    pub(super) fn set_failures(&self, failures: FailureScript) {
        self.state().failures = failure_queues(failures);
    }

    /// Puts a message into the empty interruption queue.
    pub(super) fn send_message(&self, body: Option<String>) {
        let message = QueueMessage { receipt_handle: "handle".to_owned(), body, ..QueueMessage::default() };
        self.state().queue = StoredMessage { waiting: Some(message), is_deleted: false };
    }

    /// Returns true if the last message has been deleted.
    pub(super) fn is_message_deleted(&self) -> bool {
        self.state().queue.is_deleted
    }

    fn state(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call. Fails if the document scripts a failure of it.
    fn record(&self, service: &'static str, operation: &'static str, input: Value) -> Result<(), AwsError> {
        let mut state = self.state();
        state.calls.push(RecordedCall { operation, input });
        let failure = state.failures.get_mut(operation).and_then(VecDeque::pop_front).flatten();
        match failure {
            None => Ok(()),
            Some(ScriptedFailure { code, message, server }) => {
                let status = if server == Some(true) { 500 } else { 400 };
                Err(AwsError::api(service, api_name(operation), status, code, message.unwrap_or_default()))
            }
        }
    }

    fn profile(&self, name: &str, operation: &'static str) -> Result<InstanceProfile, AwsError> {
        self.state().profiles.get(name).cloned().ok_or_else(|| {
            let message = format!("Instance Profile {name} cannot be found.");
            AwsError::api(IAM, operation, 404, "NoSuchEntity", message)
        })
    }

    fn set_roles(&self, name: &str, operation: &'static str, roles: Vec<String>) -> Result<(), AwsError> {
        let profile = InstanceProfile { roles, ..self.profile(name, operation)? };
        self.state().profiles.insert(name.to_owned(), profile);
        Ok(())
    }
}

fn failure_queues(script: FailureScript) -> BTreeMap<String, VecDeque<Option<ScriptedFailure>>> {
    script.into_iter().map(|(operation, list)| (operation, list.unwrap_or_default().into())).collect()
}

/// Returns the name of the operation without a note such as `(dry run)`.
fn api_name(operation: &'static str) -> &'static str {
    operation.split_once('(').map_or(operation, |(name, _)| name)
}

fn template(request: &CreateLaunchTemplate) -> LaunchTemplate {
    let CreateLaunchTemplate { name, tags, .. } = request;
    LaunchTemplate { id: format!("lt-{name}"), name: name.clone(), tags: tags.clone() }
}

fn answered<'a, T: Send + 'a>(result: Result<T, AwsError>) -> AwsFuture<'a, T> {
    Box::pin(ready(result))
}

/// Returns the error of a call that no question makes.
fn not_described<'a, T: Send + 'a>(service: &'static str, operation: &'static str) -> AwsFuture<'a, T> {
    answered(Err(AwsError::api(service, operation, 400, "NotDescribed", "a document does not describe this call")))
}

fn dry_run_passed<T>(operation: &'static str) -> Result<T, AwsError> {
    Err(AwsError::api(EC2, operation, 412, "DryRunOperation", ""))
}

impl Ec2 for DocumentAccount {
    fn describe_instance_types(&self, _: DescribeInstanceTypes) -> AwsFuture<'_, Page<InstanceTypeInfo>> {
        not_described(EC2, "DescribeInstanceTypes")
    }

    fn describe_instance_type_offerings(&self, _: PageRequest) -> AwsFuture<'_, Page<InstanceTypeOffering>> {
        not_described(EC2, "DescribeInstanceTypeOfferings")
    }

    fn describe_subnets(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<Subnet>> {
        let recorded = self.record(EC2, "DescribeSubnets", calls::filtered(&filters, &page));
        let is_found = |subnet: &&Subnet| matches(&filters, &[("subnet-id", &subnet.id)], &subnet.tags);
        let found = self.resources.subnets.iter().filter(is_found).cloned().collect();
        answered(recorded.map(|()| Page::last(found)))
    }

    fn describe_security_groups(&self, filters: Vec<Filter>, page: PageRequest) -> AwsFuture<'_, Page<SecurityGroup>> {
        let recorded = self.record(EC2, "DescribeSecurityGroups", calls::filtered(&filters, &page));
        let is_found = |group: &&SecurityGroup| {
            matches(&filters, &[("group-id", &group.id), ("group-name", &group.name)], &group.tags)
        };
        let found = self.resources.security_groups.iter().filter(is_found).cloned().collect();
        answered(recorded.map(|()| Page::last(found)))
    }

    fn describe_images(&self, request: DescribeImages, page: PageRequest) -> AwsFuture<'_, Page<Image>> {
        let recorded = self.record(EC2, "DescribeImages", calls::describe_images(&request, &page));
        let images = self.resources.images.iter().filter(|described| {
            let image = &described.image;
            let attributes = [("image-id", &*image.id), ("name", &*image.name), ("state", &*image.state)];
            described.is_owned_by(&request.owners, &self.resources.account_id)
                && matches(&request.filters, &attributes, &image.tags)
        });
        let found = images.map(|described| described.image.clone()).collect();
        answered(recorded.map(|()| Page::last(found)))
    }

    fn create_launch_template(&self, request: CreateLaunchTemplate) -> AwsFuture<'_, LaunchTemplate> {
        let recorded = self.record(EC2, "CreateLaunchTemplate", calls::create_launch_template(&request));
        answered(recorded.map(|()| {
            let LaunchTemplate { id, name, tags } = template(&request);
            self.state().templates.insert(name.clone(), request);
            LaunchTemplate { id, name, tags }
        }))
    }

    /// Templates are found by name only, as in the oracle.
    fn describe_launch_templates(
        &self,
        request: DescribeLaunchTemplates,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<LaunchTemplate>> {
        let recorded = self.record(EC2, "DescribeLaunchTemplates", calls::describe_launch_templates(&request, &page));
        let find = |name: &String| {
            let state = self.state();
            state.templates.get(name).map(template).ok_or_else(|| {
                let message = "At least one of the launch templates specified in the request does not exist.";
                let code = "InvalidLaunchTemplateName.NotFoundException";
                AwsError::api(EC2, "DescribeLaunchTemplates", 400, code, message)
            })
        };
        let found = recorded.and_then(|()| request.names.iter().map(find).collect::<Result<Vec<_>, _>>());
        answered(found.map(Page::last))
    }

    fn delete_launch_template(&self, template: LaunchTemplateRef) -> AwsFuture<'_, ()> {
        answered(self.record(EC2, "DeleteLaunchTemplate", calls::delete_launch_template(&template)))
    }

    fn create_fleet(&self, request: CreateFleet) -> AwsFuture<'_, FleetAnswer> {
        let operation = if request.is_dry_run { "CreateFleet(dry run)" } else { "CreateFleet" };
        let recorded = self.record(EC2, operation, calls::create_fleet(&request));
        answered(recorded.and_then(|()| {
            if request.is_dry_run {
                return dry_run_passed("CreateFleet");
            }
            self.state().launch_fleet(&request, self.resources.now)
        }))
    }

    fn run_instances(&self, request: RunInstances) -> AwsFuture<'_, String> {
        let recorded = self.record(EC2, "RunInstances(dry run)", calls::run_instances(&request));
        answered(recorded.and_then(|()| dry_run_passed("RunInstances")))
    }

    fn describe_instances(&self, request: DescribeInstances, page: PageRequest) -> AwsFuture<'_, Page<Ec2Instance>> {
        let recorded = self.record(EC2, "DescribeInstances", calls::describe_instances(&request, &page));
        answered(recorded.and_then(|()| self.state().describe(&request)).map(Page::last))
    }

    fn describe_instance_status(&self, _: Vec<Filter>, _: PageRequest) -> AwsFuture<'_, Page<InstanceStatus>> {
        not_described(EC2, "DescribeInstanceStatus")
    }

    fn describe_spot_price_history(
        &self,
        _: DescribeSpotPriceHistory,
        _: PageRequest,
    ) -> AwsFuture<'_, Page<SpotPrice>> {
        not_described(EC2, "DescribeSpotPriceHistory")
    }

    fn describe_capacity_reservations(
        &self,
        request: DescribeCapacityReservations,
        page: PageRequest,
    ) -> AwsFuture<'_, Page<Ec2CapacityReservation>> {
        const OPERATION: &str = "DescribeCapacityReservations";
        let recorded = self.record(EC2, OPERATION, calls::describe_capacity_reservations(&request, &page));
        let all = &self.resources.capacity_reservations;
        let unknown = request.ids.iter().find(|id| all.iter().all(|reservation| reservation.id != **id));
        let unknown =
            unknown.map(|id| AwsError::api(EC2, OPERATION, 400, "InvalidCapacityReservationId.NotFound", id.clone()));
        let is_found = |reservation: &&Ec2CapacityReservation| {
            let attributes = [
                ("state", reservation.state.as_str()),
                ("owner-id", &reservation.owner_id),
                ("instance-match-criteria", &reservation.instance_match_criteria),
            ];
            (request.ids.is_empty() || request.ids.contains(&reservation.id))
                && matches(&request.filters, &attributes, &reservation.tags)
        };
        let found = all.iter().filter(is_found).cloned().collect();
        answered(recorded.and_then(|()| unknown.map_or(Ok(Page::last(found)), Err)))
    }

    /// Finds nothing for an unknown ID or name, as in the oracle.
    fn describe_placement_groups(&self, request: DescribePlacementGroups) -> AwsFuture<'_, Vec<PlacementGroup>> {
        let recorded = self.record(EC2, "DescribePlacementGroups", Value::Null);
        let is_found = |group: &&PlacementGroup| {
            (request.ids.is_empty() || request.ids.contains(&group.id))
                && (request.names.is_empty() || request.names.contains(&group.name))
                && matches(&request.filters, &[("state", &group.state)], &group.tags)
        };
        let found = self.resources.placement_groups.iter().filter(is_found).cloned().collect();
        answered(recorded.map(|()| found))
    }

    fn terminate_instances(&self, ids: Vec<String>) -> AwsFuture<'_, Vec<InstanceStateChange>> {
        let recorded = self.record(EC2, "TerminateInstances", calls::terminate_instances(&ids));
        answered(recorded.map(|()| self.state().terminate(&ids)))
    }

    fn create_tags(&self, _: Vec<String>, _: Tags) -> AwsFuture<'_, ()> {
        not_described(EC2, "CreateTags")
    }
}

impl Ssm for DocumentAccount {
    /// A value `!Code` is a failure with that code.
    fn get_parameter<'a>(&'a self, name: &'a str) -> AwsFuture<'a, String> {
        let failure = |code: &str| Err(AwsError::api("SSM", "GetParameter", 400, code, ""));
        let recorded = self.record("SSM", "GetParameter", Value::String(name.to_owned()));
        answered(recorded.and_then(|()| match self.resources.parameters.get(name) {
            None => failure("ParameterNotFound"),
            Some(value) => match value.strip_prefix('!') {
                Some(code) => failure(code),
                None => Ok(value.clone()),
            },
        }))
    }
}

impl Eks for DocumentAccount {
    fn describe_cluster<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ClusterInfo> {
        let recorded = self.record("EKS", "DescribeCluster", Value::String(name.to_owned()));
        answered(recorded.map(|()| self.resources.cluster.clone()))
    }
}

impl Iam for DocumentAccount {
    fn get_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, InstanceProfile> {
        let recorded = self.record(IAM, "GetInstanceProfile", calls::profile(name));
        answered(recorded.and_then(|()| self.profile(name, "GetInstanceProfile")))
    }

    fn create_instance_profile(&self, request: CreateInstanceProfile) -> AwsFuture<'_, InstanceProfile> {
        let recorded = self.record(IAM, "CreateInstanceProfile", calls::create_profile(&request));
        answered(recorded.map(|()| {
            let path = request.path.unwrap_or_else(|| "/".to_owned());
            let profile = InstanceProfile { name: request.name, path, roles: Vec::new(), tags: request.tags };
            self.state().profiles.insert(profile.name.clone(), profile.clone());
            profile
        }))
    }

    fn add_role_to_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()> {
        let operation = "AddRoleToInstanceProfile";
        let recorded = self.record(IAM, operation, calls::profile_role(profile, role));
        answered(recorded.and_then(|()| self.set_roles(profile, operation, vec![role.to_owned()])))
    }

    fn remove_role_from_instance_profile<'a>(&'a self, profile: &'a str, role: &'a str) -> AwsFuture<'a, ()> {
        let operation = "RemoveRoleFromInstanceProfile";
        let recorded = self.record(IAM, operation, calls::profile_role(profile, role));
        answered(recorded.and_then(|()| self.set_roles(profile, operation, Vec::new())))
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> AwsFuture<'a, ()> {
        let recorded = self.record(IAM, "DeleteInstanceProfile", calls::profile(name));
        answered(recorded.map(|()| {
            self.state().profiles.remove(name);
        }))
    }

    fn list_instance_profiles<'a>(
        &'a self,
        path_prefix: &'a str,
        _: PageRequest,
    ) -> AwsFuture<'a, Page<InstanceProfile>> {
        let recorded = self.record(IAM, "ListInstanceProfiles", Value::String(path_prefix.to_owned()));
        let found = || {
            let state = self.state();
            state.profiles.values().filter(|profile| profile.path.starts_with(path_prefix)).cloned().collect()
        };
        answered(recorded.map(|()| Page::last(found())))
    }
}

impl ZonalShift for DocumentAccount {
    fn get_managed_resource<'a>(&'a self, _: &'a str) -> AwsFuture<'a, ManagedResource> {
        not_described("ARC Zonal Shift", "GetManagedResource")
    }
}

impl PriceList for DocumentAccount {
    fn get_products(&self, _: GetProducts, _: PageRequest) -> AwsFuture<'_, Page<String>> {
        not_described("Pricing", "GetProducts")
    }
}

impl Sqs for DocumentAccount {
    fn get_queue_url<'a>(&'a self, name: &'a str) -> AwsFuture<'a, String> {
        answered(Ok(format!("https://sqs/{name}")))
    }

    fn receive_messages(&self, _: ReceiveMessages) -> AwsFuture<'_, Vec<QueueMessage>> {
        answered(Ok(self.state().queue.waiting.take().into_iter().collect()))
    }

    fn delete_message<'a>(&'a self, _: &'a str, _: &'a str) -> AwsFuture<'a, ()> {
        self.state().queue.is_deleted = true;
        answered(Ok(()))
    }
}
