//! Security groups of a node class (spec 06 §4.5).

use std::time::Duration;

use kerf_api::ec2nodeclass::SecurityGroup;
use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{ClassReconcile, SECURITY_GROUPS_READY};
use crate::change_log::ChangeLog;
use crate::discovery::security_groups::SecurityGroups;

/// Time until groups that were not found are looked for again.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// Time until groups are resolved again.
const REFRESH_AFTER: Duration = Duration::from_mins(5);

/// Writes the groups into the status, sorted by ID. After an error, status and condition keep their
/// values.
pub(super) async fn resolve(
    groups: &SecurityGroups,
    logged: &ChangeLog,
    work: &mut ClassReconcile,
) -> Result<ReconcileAction, NodeClassError> {
    let listed = groups.list(&work.class).await.map_err(NodeClassError::SecurityGroups)?;
    if listed.is_empty() {
        work.status_mut().security_groups = None;
        let message = "SecurityGroupSelector did not match any SecurityGroups";
        work.set_false(SECURITY_GROUPS_READY, "SecurityGroupsNotFound", message);
        return Ok(ReconcileAction::RequeueAfter(RETRY_AFTER));
    }
    let ids = listed.iter().map(|group| group.id.as_str()).collect::<Vec<_>>().join(", ");
    if logged.is_new(&format!("security groups/{}", work.name()), &ids) {
        tracing::debug!(security_groups = ids, "discovered security groups");
    }
    let groups = listed.iter().map(|group| SecurityGroup { id: group.id.clone(), name: Some(group.name.clone()) });
    work.status_mut().security_groups = Some(groups.collect());
    work.set_true(SECURITY_GROUPS_READY);
    Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER))
}
