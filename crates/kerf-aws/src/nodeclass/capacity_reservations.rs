//! Capacity reservations of a node class (spec 06 §4.2). A class without selector terms has none;
//! terms are not supported yet.

use std::time::Duration;

use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{CAPACITY_RESERVATIONS_READY, ClassReconcile};

/// Time until reservations are listed again.
const REFRESH_AFTER: Duration = Duration::from_mins(1);

/// Clears the reservations of a class without selector terms.
pub(super) fn resolve(work: &mut ClassReconcile) -> Result<ReconcileAction, NodeClassError> {
    if work.spec().capacity_reservation_selector_terms.is_some_and(|terms| !terms.is_empty()) {
        return Err(NodeClassError::Unsupported("spec.capacityReservationSelectorTerms"));
    }
    work.status_mut().capacity_reservations = None;
    work.set_true(CAPACITY_RESERVATIONS_READY);
    Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER))
}
