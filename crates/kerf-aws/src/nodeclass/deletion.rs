//! Deletion of a node class (spec 06 §4.8).

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_operator::{Event, EventType};
use kerf_runtime::ReconcileAction;

use super::claims_of_class;
use super::error::NodeClassError;
use crate::context::AwsContext;

/// Time after which a class with claims is reconciled again. The deletion of a claim enqueues its
/// class before.
const CLAIMS_RETRY_AFTER: Duration = Duration::from_mins(10);
/// Number of claims that an Event names.
const CLAIMS_NAMED: usize = 5;

/// Returns when to run again if claims use the class, and publishes an Event that names them.
/// Returns `None` if no claim uses it.
pub(super) fn wait_for_claims(context: &AwsContext, class: &EC2NodeClass) -> Option<ReconcileAction> {
    let claims = claims_of_class(&context.cluster, class.metadata.name.as_deref().unwrap_or_default());
    if claims.is_empty() {
        return None;
    }
    let names: Vec<&str> = claims.iter().map(|claim| claim.name().as_str()).collect();
    let message = format!("Waiting on NodeClaim termination for {}", first_names(&names));
    context.events.publish(Event::new(
        object_reference(class),
        EventType::Normal,
        "WaitingOnNodeClaimTermination",
        message,
    ));
    Some(ReconcileAction::RequeueAfter(CLAIMS_RETRY_AFTER))
}

/// Deletes the instance profiles and launch templates of a class.
pub(super) async fn delete_resources(context: &AwsContext, class: &EC2NodeClass) -> Result<(), NodeClassError> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    if !context.settings.isolated_vpc {
        let profiles = &context.instance_profiles;
        for profile in profiles.list(&profiles.class_path(class)).await? {
            profiles.delete(&profile).await?;
        }
        match profiles.legacy_name(name) {
            Some(legacy) => profiles.delete(&legacy).await?,
            None => tracing::debug!("skipping the legacy instance profile, its name is not valid"),
        }
    }
    context.launch_templates.delete_all(name).await.map_err(NodeClassError::LaunchTemplates)
}

fn first_names(names: &[&str]) -> String {
    let named = names[..names.len().min(CLAIMS_NAMED)].join(", ");
    match names.len().saturating_sub(CLAIMS_NAMED) {
        0 => named,
        others => format!("{named} and {others} other(s)"),
    }
}

/// Returns the reference to a class for an Event.
pub(super) fn object_reference(class: &EC2NodeClass) -> ObjectReference {
    ObjectReference {
        api_version: Some("karpenter.k8s.aws/v1".to_owned()),
        kind: Some("EC2NodeClass".to_owned()),
        name: class.metadata.name.clone(),
        uid: class.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_five_names_are_listed() {
        assert_eq!(first_names(&["a"]), "a");
        assert_eq!(first_names(&["a", "b", "c", "d", "e"]), "a, b, c, d, e");
        assert_eq!(first_names(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 other(s)");
    }
}
