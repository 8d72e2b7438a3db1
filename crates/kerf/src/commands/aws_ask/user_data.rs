//! The question `userdata` (spec 11 §2.2): the user data of one type without accelerators.

use kerf_api::ec2nodeclass::InstanceStorePolicy;
use kerf_aws::instance_types::ami_family::AmiFamilyRules;
use kerf_aws::instance_types::kubelet::KubeletSettings;
use kerf_aws::user_data::{self, UserDataError, UserDataInput, bind_command, node_labels, node_taints};
use serde_json::{Value, json};

use super::QuestionError;
use super::document::Document;

/// Returns the decoded user data.
pub(super) fn answer(document: &Document) -> Result<Value, QuestionError> {
    let class = document.node_class()?;
    let claim = document.node_claim()?;
    let options = document.options();
    let spec = class.spec.unwrap_or_default();
    let amis = class.status.and_then(|status| status.amis).unwrap_or_default();
    let family = AmiFamilyRules::of(&spec.effective_ami_family());
    let kubelet = KubeletSettings::parse(spec.kubelet.as_ref()).map_err(QuestionError::other)?.without_expressions();
    let claim_labels = claim.metadata.labels.unwrap_or_default();
    let taints = claim.spec.taints.unwrap_or_default();
    let startup_taints = claim.spec.startup_taints.unwrap_or_default();
    let input = UserDataInput {
        cluster_name: &options.settings().cluster_name,
        cluster: &options.cluster_facts(),
        kubelet: spec.kubelet.as_ref(),
        resolved_kubelet: &kubelet,
        max_pods: document.max_pods.unwrap_or(0),
        labels: &node_labels(&claim_labels, document.capacity_type(), family),
        taints: &node_taints(&taints, &startup_taints),
        custom: spec.user_data.as_deref(),
        uses_raid0: spec.instance_store_policy == Some(InstanceStorePolicy::Raid0),
        bind_command: bind_command(&spec.ami_selector_terms, &amis),
    };
    let text = user_data::render(family, &input).map_err(|error| match error {
        UserDataError::UnknownServiceCidr => QuestionError::of("NodeClassNotReady", error),
        UserDataError::Archive(_) | UserDataError::Yaml(_) | UserDataError::Settings(_) => QuestionError::other(error),
    })?;
    Ok(json!({ "userData": text }))
}
