//! Placement group of a node class (spec 06 §4.3).

use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{ClassReconcile, PLACEMENT_GROUP_READY};
use crate::change_log::ChangeLog;
use crate::placement_groups::{GroupSelector, PlacementGroups};

/// Resolves the group that the class selects. After a failure the last known group stays in use for
/// everything but launches, which the condition prevents.
pub(super) async fn resolve(
    groups: &PlacementGroups,
    logged: &ChangeLog,
    work: &mut ClassReconcile,
) -> Result<ReconcileAction, NodeClassError> {
    let Some(selector) = GroupSelector::of(&work.class) else {
        work.set_true(PLACEMENT_GROUP_READY);
        return Ok(ReconcileAction::Done);
    };
    match groups.resolve(&work.class).await {
        Ok(Some(group)) => {
            if logged.is_new(&format!("placement-group/{}", work.name()), &group.id) {
                tracing::debug!(
                    id = group.id,
                    name = group.name,
                    strategy = group.strategy,
                    "discovered placement group"
                );
            }
            work.set_true(PLACEMENT_GROUP_READY);
        }
        Ok(None) => {
            let message = format!("Placement group {:?} not found", selector.text());
            work.set_false(PLACEMENT_GROUP_READY, "PlacementGroupNotFound", &message);
        }
        Err(cause) => {
            let message = "Failed to resolve placement group";
            work.set_false(PLACEMENT_GROUP_READY, "PlacementGroupResolutionFailed", message);
            return Err(NodeClassError::PlacementGroup { group: selector.text().to_owned(), cause });
        }
    }
    Ok(ReconcileAction::Done)
}
