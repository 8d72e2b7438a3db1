//! One attempt to launch, and its repetition (spec 05 §15.6).

use std::collections::BTreeSet;

use futures::future::try_join_all;
use kerf_api::ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec};
use kerf_cloud::CreateError;
use kerf_engine::catalogue::{InstanceType, InstanceTypeRef, InstanceTypes};
use kerf_engine::requirement::Requirements;

use super::answer::{self, AnsweredLaunch};
use super::capacity::{choose_capacity_type, choose_tenancy, log_on_demand_fallback, narrowed};
use super::claim::LaunchClaim;
use super::error::AttemptError;
use super::fleet_request::{FleetInput, NamedTemplate, fleet_request};
use super::placement::LaunchPlacement;
use super::template_groups::{TemplateGroup, template_groups};
use crate::context::AwsContext;
use crate::instance_types::ami_family::AmiFamilyRules;
use crate::instances::InstanceRecord;
use crate::launch_templates::LaunchTemplateInput;
use crate::ports::Tags;
use crate::user_data;

/// Resources with which a claim requests Nitro Enclaves; the second is that of Karpenter 1.14.
const ENCLAVE_RESOURCES: [&str; 2] = ["eks.amazonaws.com/nitro-sandbox", "eks.amazonaws.com/nip-slots"];

/// The choices of a launch that do not depend on EC2.
struct LaunchPlan<'a> {
    context: &'a AwsContext,
    claim: &'a LaunchClaim<'a>,
    class: &'a EC2NodeClass,
    tags: &'a Tags,
    types: InstanceTypes,
    capacity_type: &'static str,
    tenancy: &'static str,
    /// The claim's requirements with the capacity type of the launch.
    narrowed: Requirements,
    placement: LaunchPlacement,
}

/// Launches an instance of one of the types, which the filters have left, and returns it with its
/// type.
pub(super) async fn launch_instance(
    context: &AwsContext,
    claim: &LaunchClaim<'_>,
    class: &EC2NodeClass,
    types: InstanceTypes,
    tags: &Tags,
) -> Result<(InstanceRecord, InstanceType), CreateError> {
    let capacity_type = choose_capacity_type(&types, &claim.requirements, &context.label_rules);
    log_on_demand_fallback(&types, &claim.requirements, capacity_type);
    let plan = LaunchPlan {
        context,
        claim,
        class,
        tags,
        types,
        capacity_type,
        tenancy: choose_tenancy(&claim.requirements),
        narrowed: narrowed(&claim.requirements, capacity_type),
        placement: LaunchPlacement::new(context, class, &claim.requirements),
    };
    let first = plan.attempt().await;
    let result = match first {
        Err(ref error) if error.is_template_not_found() => plan.attempt().await,
        Ok(_) | Err(_) => first,
    };
    Ok(result?)
}

impl LaunchPlan<'_> {
    async fn attempt(&self) -> Result<(InstanceRecord, InstanceType), AttemptError> {
        let context = self.context;
        let types: Vec<InstanceTypeRef<'_>> = self.types.iter().collect();
        let subnets = context.subnets.choose_for_launch(self.class, &types, self.capacity_type);
        let subnets = subnets.map_err(|error| AttemptError::Subnets(Box::new(error)))?;
        let amis = self.class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
        let kubelet_of = |name: &str| context.instance_types.kubelet(self.class, name);
        let groups = template_groups(&types, amis, self.claim, &self.narrowed, &context.label_rules, kubelet_of)
            .map_err(|error| AttemptError::Templates(Box::new(error)))?;
        let templates = self.ensure_templates(&groups).await?;
        let input = FleetInput {
            claim: self.claim,
            narrowed: &self.narrowed,
            capacity_type: self.capacity_type,
            subnets: &subnets,
            tags: self.tags,
            context: self.class.spec.as_ref().and_then(|spec| spec.context.as_deref()),
            rules: &context.label_rules,
        };
        let request = fleet_request(input, &templates).map_err(|error| AttemptError::Templates(Box::new(error)))?;
        let overrides = request.configs.iter().flat_map(|config| &config.overrides);
        let requested_subnets: BTreeSet<String> = overrides.map(|choice| choice.subnet_id.clone()).collect();
        let requested_templates: Vec<String> =
            request.configs.iter().map(|config| config.template_name.clone()).collect();
        let began_at = context.clock.now();
        let result = context.fleets.launch_one(request).await;
        let launched = result.as_ref().ok().and_then(|launch| launch.instance.as_ref());
        let launched_subnets = launched.map(|instance| instance.subnet_id.clone()).into_iter().collect();
        context.subnets.record_launch(&subnets, &requested_subnets, &launched_subnets);
        match result {
            Ok(launch) => answer::read_answer(AnsweredLaunch {
                context,
                claim: self.claim,
                class: self.class,
                tags: self.tags,
                types: &self.types,
                groups: &groups,
                capacity_type: self.capacity_type,
                tenancy: self.tenancy,
                narrowed: &self.narrowed,
                subnets: &subnets,
                placement: &self.placement,
                began_at,
                launch,
            }),
            Err(error) if error.is_launch_template_not_found() => {
                context.launch_templates.forget(requested_templates.iter().map(String::as_str));
                Err(AttemptError::TemplateNotFound(error))
            }
            Err(error) => Err(AttemptError::Fleet(error)),
        }
    }

    async fn ensure_templates<'g, 't>(
        &self,
        groups: &'g [TemplateGroup<'t>],
    ) -> Result<Vec<NamedTemplate<'g, 't>>, AttemptError> {
        let status = self.class.status.clone().unwrap_or_default();
        let security_group_ids: Vec<String> =
            status.security_groups.into_iter().flatten().map(|group| group.id).collect();
        if security_group_ids.is_empty() {
            return Err(AttemptError::Templates("no security groups are present in the status".into()));
        }
        let spec = self.class.spec.clone().unwrap_or_default();
        let facts = self.context.discovery.facts().get();
        let family = AmiFamilyRules::of(&spec.effective_ami_family());
        let claim = self.claim.claim;
        let claim_labels = claim.metadata.labels.clone().unwrap_or_default();
        let taints = user_data::node_taints(
            claim.spec.taints.as_deref().unwrap_or_default(),
            claim.spec.startup_taints.as_deref().unwrap_or_default(),
        );
        let inputs: Vec<LaunchTemplateInput<'_>> = groups
            .iter()
            .map(|group| LaunchTemplateInput {
                class_name: self.class.metadata.name.as_deref().unwrap_or_default(),
                class: &spec,
                amis: status.amis.as_deref().unwrap_or_default(),
                kubelet: &group.kubelet,
                cluster_name: &self.context.settings.cluster_name,
                cluster: &facts,
                instance_profile: status.instance_profile.as_deref().unwrap_or_default(),
                security_group_ids: security_group_ids.clone(),
                tags: self.tags.clone(),
                image_id: &group.image_id,
                max_pods: group.max_pods,
                efa_count: group.efa_count,
                capacity_type: self.capacity_type,
                reservation: group.reservation.clone(),
                uses_reservations: self.context.settings.reserved_capacity,
                tenancy: self.tenancy,
                placement_group_id: self.placement.group_id().map(str::to_owned),
                partition: self.placement.partition,
                needs_enclave: needs_enclave(&spec, self.claim),
                labels: user_data::node_labels(&claim_labels, self.capacity_type, family),
                taints: taints.clone(),
            })
            .collect();
        let names = try_join_all(inputs.iter().map(|input| self.context.launch_templates.ensure(input))).await?;
        Ok(names.into_iter().zip(groups).map(|(name, group)| NamedTemplate { name, group }).collect())
    }
}

/// Returns true if the class enables Nitro Enclaves or the claim requests them.
fn needs_enclave(class: &EC2NodeClassSpec, claim: &LaunchClaim<'_>) -> bool {
    class.enables_enclaves() || ENCLAVE_RESOURCES.iter().any(|name| claim.requests_resource(name))
}
