//! Images of a node class (spec 06 §4.1).

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_api::ec2nodeclass::Ami;
use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{AMIS_READY, ClassReconcile};
use crate::change_log::ChangeLog;
use crate::discovery::amis::{AmiError, Amis};

/// Time until images that were not found are looked for again.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// Time until images are resolved again.
const REFRESH_AFTER: Duration = Duration::from_mins(5);

/// Writes the images into the status. After an error of AWS, status and condition keep their
/// values.
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
        Err(error @ (AmiError::NoneFound(_) | AmiError::Parameter(_) | AmiError::Describe(_))) => {
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
        name: Some(ami.name),
        requirements: ami.requirements,
    });
    work.status_mut().amis = Some(amis.collect());
    work.set_true(AMIS_READY);
    Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER))
}
