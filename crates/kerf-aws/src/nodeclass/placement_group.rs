//! Placement group of a node class (spec 06 §4.3). A class without a selector has none; a selector
//! is not supported yet.

use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{ClassReconcile, PLACEMENT_GROUP_READY};

/// Sets the condition of a class without a selector.
pub(super) fn resolve(work: &mut ClassReconcile) -> Result<ReconcileAction, NodeClassError> {
    if work.spec().placement_group_selector.is_some() {
        let message = "Failed to resolve placement group";
        work.set_false(PLACEMENT_GROUP_READY, "PlacementGroupResolutionFailed", message);
        return Err(NodeClassError::Unsupported("spec.placementGroupSelector"));
    }
    work.set_true(PLACEMENT_GROUP_READY);
    Ok(ReconcileAction::Done)
}
