//! Conditions that a node class must meet before anything is launched from it (spec 05 §15.1).

use kerf_api::conditions::{ConditionStatus, READY};
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_cloud::CreateError;

/// Checks that a class is ready for its current generation.
pub(super) fn check_ready(class: &EC2NodeClass) -> Result<(), CreateError> {
    let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions.iter().find(|condition| condition.condition_type == READY);
    let unknown = || CreateError::Rejected {
        reason: "NodeClassReadinessUnknown".to_owned(),
        message: "NodeClass is in Ready=Unknown".to_owned(),
        cause: "resolving NodeClass readiness, NodeClass is in Ready=Unknown".into(),
    };
    let Some(ready) = ready else { return Err(unknown()) };
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
