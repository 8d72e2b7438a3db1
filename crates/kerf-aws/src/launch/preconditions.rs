//! Conditions that must hold before anything is launched from a node class (spec 05 §15.1).

use kerf_api::conditions::{ConditionStatus, READY};
use kerf_api::ec2nodeclass::{AmiFamily, EC2NodeClass, EC2NodeClassSpec};
use kerf_cloud::CreateError;

use crate::cluster_facts::ClusterFactsError;
use crate::context::AwsContext;

/// Checks that a class is ready for its current generation. A class without one of the
/// `dependents`, the conditions that `Ready` depends on, was last reconciled by another version.
pub(super) fn check_ready(class: &EC2NodeClass, dependents: &[&str]) -> Result<(), CreateError> {
    let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions.iter().find(|condition| condition.condition_type == READY);
    let unknown = || CreateError::Rejected {
        reason: "NodeClassReadinessUnknown".to_owned(),
        message: "NodeClass is in Ready=Unknown".to_owned(),
        cause: "resolving NodeClass readiness, NodeClass is in Ready=Unknown".into(),
    };
    let has = |dependent: &&str| conditions.iter().any(|condition| condition.condition_type == *dependent);
    let Some(ready) = ready.filter(|_| dependents.iter().all(has)) else { return Err(unknown()) };
    match &ready.status {
        ConditionStatus::False => Err(CreateError::NodeClassNotReady(ready.message.clone().into())),
        ConditionStatus::Unknown | ConditionStatus::Unsupported(_) => Err(unknown()),
        ConditionStatus::True if ready.observed_generation != class.metadata.generation => {
            let message = "nodeclass status has not been reconciled against the latest spec";
            Err(CreateError::NodeClassNotReady(message.into()))
        }
        ConditionStatus::True => Ok(()),
    }
}

/// Finds the range of Service addresses, which nodes of AL2023 need. A process that has just
/// started may launch from a class that its predecessor validated. An error is temporary: the claim
/// stays, and its launch is repeated. If EKS reports no range, user data cannot be made, which is
/// an error of its own.
pub(super) async fn resolve_cluster_facts(context: &AwsContext, class: &EC2NodeClass) -> Result<(), CreateError> {
    let family = class.spec.as_ref().map(EC2NodeClassSpec::effective_ami_family);
    if family != Some(AmiFamily::Al2023) {
        return Ok(());
    }
    match context.discovery.resolve_service_cidr().await {
        Ok(()) | Err(ClusterFactsError::NoServiceCidr) => Ok(()),
        Err(error) => Err(CreateError::Other(format!("creating instance, resolving cluster CIDR, {error}").into())),
    }
}
