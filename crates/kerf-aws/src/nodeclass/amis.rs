//! Images of a node class (spec 06 §4.1).

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_api::ec2nodeclass::Ami;
use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{AMIS_READY, ClassReconcile};
use crate::change_log::ChangeLog;
use crate::discovery::amis::{AmiError, Amis};

/// Time until the next attempt after no images were found.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// Time until images are resolved again.
const REFRESH_AFTER: Duration = Duration::from_mins(5);

/// Reason of the condition while the alias of the class names no image.
const ALIAS_NOT_FOUND: &str = "AliasNotFound";

/// Writes the images into the status. After an error of AWS, status and condition keep their
/// values, except that a class names an alias without images that was never resolved.
pub(super) async fn resolve(
    amis: &Amis,
    logged: &ChangeLog,
    work: &mut ClassReconcile,
) -> Result<ReconcileAction, NodeClassError> {
    let resolved = match amis.list(&work.class).await {
        Ok(resolved) => resolved,
        Err(error @ (AmiError::UnsupportedAlias(_) | AmiError::InvalidAlias(_))) => {
            work.set_false(AMIS_READY, "UnsupportedAlias", &error.to_string());
            return Err(error.into());
        }
        Err(error) => {
            // Images that the present spec has selected before stay in use: AWS may remove the
            // parameters of an old version.
            if let AmiError::NoneFound { alias, failure } = &error
                && !work.is_true_for_present_spec(AMIS_READY)
            {
                let message = match failure {
                    None => format!("Alias {alias:?} names no AMIs for the Kubernetes version of the cluster"),
                    Some(code) => format!("The parameters of alias {alias:?} cannot be read: {code}"),
                };
                work.conditions.set_unknown(AMIS_READY, ALIAS_NOT_FOUND, &message, work.now);
            }
            return Err(error.into());
        }
    };
    if resolved.is_empty() {
        work.status_mut().amis = None;
        work.set_false(AMIS_READY, "AMINotFound", "AMISelector did not match any AMIs");
        return Ok(ReconcileAction::RequeueAfter(RETRY_AFTER));
    }
    let ids: BTreeSet<&str> = resolved.iter().map(|ami| ami.id.as_str()).collect();
    let ids = ids.into_iter().collect::<Vec<_>>().join(", ");
    if logged.is_new(&format!("amis/{}", work.name()), &ids) {
        tracing::debug!(ids, "discovered amis");
    }
    let amis = resolved.into_iter().map(|ami| Ami {
        deprecated: ami.is_deprecated.then_some(true),
        id: ami.id,
        name: Some(ami.name).filter(|name| !name.is_empty()),
        requirements: ami.requirements,
    });
    work.status_mut().amis = Some(amis.collect());
    work.set_true(AMIS_READY);
    Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER))
}
