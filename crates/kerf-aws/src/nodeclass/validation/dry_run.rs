//! Checks with AWS calls that launches from a class are allowed (spec 06 §4.7.8): a real launch
//! template, a dry run of `CreateFleet`, and a dry run of `RunInstances`.

use std::sync::Arc;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;

use super::ValidationOutcome;
use super::type_choice::{ValidationTarget, choose_target};
use crate::aws_errors::failure_reason;
use crate::context::AwsContext;
use crate::instance_types::ami_family::AmiFamilyRules;
use crate::launch::launch_tags;
use crate::launch_templates::{LaunchTemplateError, LaunchTemplateInput};
use crate::nodeclass::dry_run_error::{DryRunError, TypeChoiceError};
use crate::ports::ec2::{
    CreateFleet, FleetConfig, FleetOverride, FleetTarget, PlacementGroup, RunInstances, RunNetworkInterface,
    TagSpecification,
};
use crate::ports::{AwsError, Tags};
use crate::user_data;

/// The end of a check that does not pass.
#[derive(Debug)]
pub(super) enum DryRunStop {
    /// AWS is overloaded or does not know a new resource yet; the class is validated again soon.
    Retry,
    /// EC2 does not know the instance profile that the class names.
    InstanceProfileNotFound,
    /// AWS rejects launches from the class. The outcome is remembered.
    Rejected(ValidationOutcome),
    /// The check itself failed.
    Failed(DryRunError),
}

/// Attempts to find the placement group of a class before its template is made without it.
/// Karpenter makes as many: two for the offerings and one for the template. The EC2 client backs
/// off in each.
const PLACEMENT_GROUP_ATTEMPTS: usize = 3;

fn failed(error: impl Into<DryRunError>) -> DryRunStop {
    DryRunStop::Failed(error.into())
}

/// A call whose permission is checked, with the reason of the condition if it is missing.
#[derive(Debug, Clone, Copy)]
struct CheckedCall {
    operation: &'static str,
    reason: &'static str,
}

const CREATE_LAUNCH_TEMPLATE: CheckedCall =
    CheckedCall { operation: "ec2:CreateLaunchTemplate", reason: "CreateLaunchTemplateAuthCheckFailed" };
const CREATE_FLEET: CheckedCall = CheckedCall { operation: "ec2:CreateFleet", reason: "CreateFleetAuthCheckFailed" };
const RUN_INSTANCES: CheckedCall = CheckedCall { operation: "ec2:RunInstances", reason: "RunInstancesAuthCheckFailed" };

impl CheckedCall {
    fn stop(self, cause: AwsError) -> DryRunStop {
        if cause.is_rate_limited() || cause.is_server_error() {
            return DryRunStop::Retry;
        }
        // Dry runs send no user data.
        if self.operation == CREATE_LAUNCH_TEMPLATE.operation && cause.is_user_data_too_large() {
            tracing::error!(
                error = %cause,
                "ec2:CreateLaunchTemplate rejected the rendered user data as exceeding the size limit"
            );
            let prefix = "ec2:CreateLaunchTemplate rejected the rendered user data as too large";
            return rejected("UserDataSizeLimitExceeded", prefix, &cause);
        }
        if cause.is_unauthorized() {
            tracing::error!(error = %cause, "unauthorized to call {}", self.operation);
            let prefix = format!("Controller isn't authorized to call {}", self.operation);
            return rejected(self.reason, &prefix, &cause);
        }
        DryRunStop::Failed(DryRunError::Call { operation: self.operation, cause })
    }
}

fn rejected(reason: &'static str, prefix: &str, cause: &AwsError) -> DryRunStop {
    let message = format!("{prefix}: {}", failure_reason(&cause.to_string()).message);
    DryRunStop::Rejected(ValidationOutcome::Failed { reason, message })
}

/// Makes all three checks. The template stays for a minute, so that the first launch can use it.
pub(super) async fn check(context: &AwsContext, class: &EC2NodeClass) -> Result<(), DryRunStop> {
    let placement_group = find_placement_group(context, class).await;
    let pools: Vec<_> = context.cluster.lock().all::<NodePool>().values().cloned().collect();
    let target = choose_target(&context.instance_types, class, &pools, &context.label_rules).map_err(failed)?;
    // A claim without labels: the tag of the NodePool is present and empty.
    let tags = launch_tags(class, &NodeClaim::default(), &context.settings.cluster_name).map_err(failed)?;
    let template_name = ensure_template(context, class, &target, &tags, placement_group).await?;
    check_fleet(context, class, &target, &tags, &template_name).await?;
    check_run_instances(context, class, &target, &tags, &template_name).await
}

/// Returns the placement group of a class. Instance types are listed after this call, so that their
/// offerings have the partitions of the group.
async fn find_placement_group(context: &AwsContext, class: &EC2NodeClass) -> Option<Arc<PlacementGroup>> {
    for _ in 1..PLACEMENT_GROUP_ATTEMPTS {
        if context.placement_groups.resolve(class).await.is_ok() {
            break;
        }
    }
    context.placement_group(class).await
}

async fn ensure_template(
    context: &AwsContext,
    class: &EC2NodeClass,
    target: &ValidationTarget,
    tags: &Tags,
    placement_group: Option<Arc<PlacementGroup>>,
) -> Result<String, DryRunStop> {
    let spec = class.spec.clone().unwrap_or_default();
    let status = class.status.clone().unwrap_or_default();
    let kubelet = context.instance_types.kubelet(class, &target.instance_type);
    let kubelet = kubelet.map_err(|error| failed(TypeChoiceError::from(error)))?;
    let family = AmiFamilyRules::of(&spec.effective_ami_family());
    let facts = context.discovery.facts().get();
    let input = LaunchTemplateInput {
        class_name: class.metadata.name.as_deref().unwrap_or_default(),
        class: &spec,
        amis: status.amis.as_deref().unwrap_or_default(),
        kubelet: &kubelet,
        cluster_name: &context.settings.cluster_name,
        cluster: &facts,
        instance_profile: status.instance_profile.as_deref().unwrap_or_default(),
        security_group_ids: status.security_groups.into_iter().flatten().map(|group| group.id).collect(),
        tags: tags.clone(),
        image_id: &target.image_id,
        max_pods: target.max_pods,
        efa_count: 0,
        capacity_type: labels::CAPACITY_TYPE_ON_DEMAND,
        reservation: None,
        uses_reservations: context.settings.reserved_capacity,
        tenancy: target.tenancy,
        placement_group_id: placement_group.map(|group| group.id.clone()),
        partition: None,
        needs_enclave: spec.enables_enclaves(),
        labels: user_data::node_labels(&std::collections::BTreeMap::new(), labels::CAPACITY_TYPE_ON_DEMAND, family),
        taints: user_data::node_taints(&[], &[]),
    };
    context.launch_templates.ensure(&input).await.map_err(|error| match error {
        LaunchTemplateError::Describe { source, .. } | LaunchTemplateError::Create { source, .. } => {
            CREATE_LAUNCH_TEMPLATE.stop(source)
        }
        LaunchTemplateError::Content(error) => DryRunStop::Failed(DryRunError::TemplateContent(error)),
        error @ LaunchTemplateError::Ambiguous { .. } => {
            DryRunStop::Failed(DryRunError::AmbiguousTemplate(error.to_string()))
        }
    })
}

async fn check_fleet(
    context: &AwsContext,
    class: &EC2NodeClass,
    target: &ValidationTarget,
    tags: &Tags,
    template_name: &str,
) -> Result<(), DryRunStop> {
    let overrides = subnet_ids(class).map(|subnet_id| FleetOverride {
        instance_type: target.instance_type.clone(),
        subnet_id,
        ..FleetOverride::default()
    });
    let request = CreateFleet {
        target_capacity: 1,
        target: FleetTarget::OnDemand { allocation_strategy: "lowest-price".to_owned() },
        configs: vec![FleetConfig { template_name: template_name.to_owned(), overrides: overrides.collect() }],
        tags: tagged(["instance", "volume", "fleet"], tags),
        context: None,
        client_token: String::new(),
        is_dry_run: true,
    };
    match context.ports.ec2.create_fleet(request).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_dry_run_passed() => Ok(()),
        Err(error) => Err(CREATE_FLEET.stop(error)),
    }
}

/// Tries all subnets; the first that passes is enough. If none passes, the first error counts.
async fn check_run_instances(
    context: &AwsContext,
    class: &EC2NodeClass,
    target: &ValidationTarget,
    tags: &Tags,
    template_name: &str,
) -> Result<(), DryRunStop> {
    let mut first_error = None;
    for subnet_id in subnet_ids(class) {
        let request = RunInstances {
            template_name: template_name.to_owned(),
            instance_type: target.instance_type.clone(),
            network_interfaces: network_interfaces(class, &subnet_id),
            tags: tagged(["instance", "volume", "network-interface"], tags),
            is_dry_run: true,
        };
        match context.ports.ec2.run_instances(request).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_dry_run_passed() => return Ok(()),
            Err(error) => _ = first_error.get_or_insert(error),
        }
    }
    match first_error {
        None => Ok(()),
        Some(error) if error.is_instance_profile_not_found() => {
            let is_of_user = class.spec.as_ref().is_some_and(|spec| spec.instance_profile.is_some());
            Err(if is_of_user { DryRunStop::InstanceProfileNotFound } else { DryRunStop::Retry })
        }
        Some(error) => Err(RUN_INSTANCES.stop(error)),
    }
}

fn subnet_ids(class: &EC2NodeClass) -> impl Iterator<Item = String> {
    let subnets = class.status.as_ref().and_then(|status| status.subnets.clone()).unwrap_or_default();
    subnets.into_iter().map(|subnet| subnet.id)
}

fn network_interfaces(class: &EC2NodeClass, subnet_id: &str) -> Vec<RunNetworkInterface> {
    let own = class.spec.as_ref().and_then(|spec| spec.network_interfaces.as_deref()).unwrap_or_default();
    if own.is_empty() {
        return vec![RunNetworkInterface { subnet_id: subnet_id.to_owned(), ..RunNetworkInterface::default() }];
    }
    let interface = |interface: &kerf_api::ec2nodeclass::NetworkInterface| RunNetworkInterface {
        network_card_index: interface.network_card_index,
        device_index: interface.device_index,
        interface_type: Some(interface.interface_type.as_str().to_owned()),
        subnet_id: subnet_id.to_owned(),
    };
    own.iter().map(interface).collect()
}

fn tagged(resource_types: [&'static str; 3], tags: &Tags) -> Vec<TagSpecification> {
    resource_types.map(|resource_type| TagSpecification { resource_type, tags: tags.clone() }).into()
}
