//! A node class as a plan sees it: the checks of the controller `nodeclass` that need no AWS call
//! (spec 06 §4.7.2 to §4.7.8), and the instance types that a launch would keep (spec 05 §12.5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kerf_api::conditions::{ConditionStatus, VALIDATION_SUCCEEDED};
use kerf_api::ec2nodeclass::{Ami, EC2NodeClass};
use kerf_api::labels::{self, LabelRules, aws};
use kerf_api::nodepool::NodePool;
use kerf_engine::catalogue::{InstanceTypeRef, InstanceTypes, OfferingState};

use super::reconcile::ClassReconcile;
use super::validation;
use crate::discovery::amis::map_types_to_amis;
use crate::instance_types::ami_family::AmiFamilyRules;
use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeError};
use crate::launch_templates::{LaunchTemplateContentError, LaunchTemplateInput};
use crate::ports::Tags;
use crate::ports::ec2::USER_DATA_MAX_BYTES;
use crate::settings::ClusterFacts;
use crate::user_data;

/// Range of Service addresses in the user data of a plan; EKS's default.
const SERVICE_CIDR: &str = "10.100.0.0/16";

/// A node class as a plan sees it.
#[derive(Debug, Clone)]
pub struct PlannedClass {
    /// Reason why the controller would not make the class ready, with the field; `None` if no check
    /// fails that needs no AWS call.
    pub problem: Option<String>,
    /// The instance types of the class. Offerings of types for which `status.amis` has no image are
    /// unavailable.
    pub types: Result<InstanceTypes, InstanceTypeError>,
    /// Names of the NodePools of the class that have instance types, but none with an image.
    pub pools_without_image: Vec<String>,
}

/// Checks a class and resolves its instance types without AWS calls. `pools` are all NodePools; the
/// class must have subnets.
pub fn plan_class(
    catalogue: &InstanceTypeCatalogue,
    class: &EC2NodeClass,
    pools: &[Arc<NodePool>],
    cluster_name: &str,
) -> PlannedClass {
    let types = catalogue.list(class);
    let amis = class.status.as_ref().and_then(|status| status.amis.as_deref()).unwrap_or_default();
    let problem = spec_problem(catalogue, class);
    let (Ok(list), None) = (&types, &problem) else {
        return PlannedClass { problem, types, pools_without_image: Vec::new() };
    };
    let mut problem = list.iter().next().and_then(|first| user_data_problem(catalogue, class, first, cluster_name));
    if amis.is_empty() {
        return PlannedClass { problem, types, pools_without_image: Vec::new() };
    }
    let rules = LabelRules::aws();
    if problem.is_none() {
        let target = validation::choose_target(catalogue, class, pools, &rules);
        problem = target.err().map(|error| format!("status.amis: {error}"));
    }
    let with_image = types_with_image(list, amis);
    let has_image = |known: &InstanceTypeRef<'_>| with_image.contains(known.instance_type().name.as_str());
    let lacks_image = |pool: &&Arc<NodePool>| {
        let requirements = validation::pool_requirements(pool, &rules);
        let mut usable = list.iter().filter(|known| known.requirements.intersects(&requirements).is_ok()).peekable();
        usable.peek().is_some() && !usable.any(|known| has_image(&known))
    };
    let linked = validation::pools_of_class(class, pools);
    let pools_without_image: Vec<String> =
        linked.filter(lacks_image).filter_map(|pool| pool.metadata.name.clone()).collect();
    let types = list.with_states(|known, offering| match offering.state() {
        state if with_image.contains(known.name.as_str()) => state,
        state => OfferingState { is_available: false, ..state },
    });
    PlannedClass { problem, types: Ok(types), pools_without_image }
}

/// Returns the names of the types for which there is an image.
fn types_with_image<'t>(list: &'t InstanceTypes, amis: &[Ami]) -> BTreeSet<&'t str> {
    let types: Vec<InstanceTypeRef<'t>> = list.iter().collect();
    let matches = map_types_to_amis(&types, amis).unwrap_or_default();
    matches.into_iter().flat_map(|entry| entry.types).map(|known| known.instance_type().name.as_str()).collect()
}

/// Returns reason and message of `ValidationSucceeded` if the spec of the class makes it False.
fn spec_problem(catalogue: &InstanceTypeCatalogue, class: &EC2NodeClass) -> Option<String> {
    // Only the condition that the checks set counts.
    let class = EC2NodeClass { status: None, ..class.clone() };
    let mut work = ClassReconcile::new(class, false, Timestamp::UNIX_EPOCH);
    validation::check_spec(&mut work, catalogue);
    let condition = work.conditions.get(VALIDATION_SUCCEEDED)?;
    let is_false = condition.status == ConditionStatus::False;
    is_false.then(|| format!("{}: {}", condition.reason, condition.message))
}

/// Returns why no launch template of the class can be made, or why EC2 would reject it.
fn user_data_problem(
    catalogue: &InstanceTypeCatalogue,
    class: &EC2NodeClass,
    instance_type: InstanceTypeRef<'_>,
    cluster_name: &str,
) -> Option<String> {
    let spec = class.spec.clone().unwrap_or_default();
    let status = class.status.clone().unwrap_or_default();
    let kubelet = catalogue.kubelet(class, &instance_type.name).ok()?;
    let family = AmiFamilyRules::of(&spec.effective_ami_family());
    let cluster = ClusterFacts { service_cidr: Some(SERVICE_CIDR.to_owned()), ..ClusterFacts::default() };
    let input = LaunchTemplateInput {
        class_name: class.metadata.name.as_deref().unwrap_or_default(),
        class: &spec,
        amis: status.amis.as_deref().unwrap_or_default(),
        kubelet: &kubelet,
        cluster_name,
        cluster: &cluster,
        instance_profile: "",
        security_group_ids: Vec::new(),
        tags: Tags::default(),
        image_id: "",
        max_pods: 0,
        efa_count: 0,
        capacity_type: labels::CAPACITY_TYPE_ON_DEMAND,
        reservation: None,
        uses_reservations: false,
        tenancy: aws::TENANCY_DEFAULT,
        placement_group_id: None,
        partition: None,
        needs_enclave: spec.enables_enclaves(),
        labels: user_data::node_labels(&BTreeMap::new(), labels::CAPACITY_TYPE_ON_DEMAND, family),
        taints: user_data::node_taints(&[], &[]),
    };
    match input.content() {
        Err(error @ LaunchTemplateContentError::UserData(_)) => Some(format!("spec.userData: {error}")),
        Err(error @ LaunchTemplateContentError::VolumeSize { .. }) => Some(error.to_string()),
        Ok(content) => {
            // Endpoint and CA certificate of the cluster are unknown, so the real text is longer.
            let bytes = STANDARD.decode(content.user_data).map_or(0, |text| text.len());
            (bytes > USER_DATA_MAX_BYTES).then(|| {
                format!(
                    "UserDataSizeLimitExceeded: spec.userData: the rendered user data has at least {bytes} bytes, and \
                     EC2 takes at most {USER_DATA_MAX_BYTES}"
                )
            })
        }
    }
}
