//! Capacity reservations of a node class (spec 06 §4.2, §11.1).

use std::collections::BTreeMap;
use std::time::Duration;

use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{CAPACITY_RESERVATIONS_READY, ClassReconcile};
use crate::change_log::ChangeLog;
use crate::discovery::capacity_reservations::CapacityReservations;
use crate::discovery::reservation_status::to_status;

/// Time until reservations are listed again.
const REFRESH_AFTER: Duration = Duration::from_mins(1);

/// Resolves the reservations that the class selects. The condition is true also if there is none.
pub(super) async fn resolve(
    reservations: &CapacityReservations,
    logged: &ChangeLog,
    work: &mut ClassReconcile,
) -> Result<ReconcileAction, NodeClassError> {
    let terms = work.spec().capacity_reservation_selector_terms.unwrap_or_default();
    let listed = reservations.list(&terms).await.map_err(NodeClassError::CapacityReservations)?;
    if listed.is_empty() {
        work.status_mut().capacity_reservations = None;
        work.set_true(CAPACITY_RESERVATIONS_READY);
        return Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER));
    }
    let ids = listed.iter().map(|reservation| reservation.id.as_str()).collect::<Vec<_>>().join(", ");
    if logged.is_new(&format!("capacity-reservations/{}", work.name()), &ids) {
        tracing::debug!(ids, "discovered capacity reservations");
    }
    let (total_count, now) = (listed.len(), work.now);
    let next_end = listed.iter().filter_map(|reservation| reservation.ends_at).min();
    // The list is sorted by ID, and so is the status.
    let (mut converted, mut errors) = (Vec::with_capacity(listed.len()), BTreeMap::new());
    for reservation in listed {
        let id = reservation.id.clone();
        match to_status(reservation, now) {
            Ok(reservation) => converted.push(reservation),
            Err(error) => {
                errors.insert(id, error.to_string());
            }
        }
    }
    if !errors.is_empty() {
        let error = errors.values().cloned().collect::<Vec<_>>().join("; ");
        let message = "failed to parse discovered capacity reservations";
        tracing::error!(error, "error-count" = errors.len(), "total-count" = total_count, message);
    }
    work.status_mut().capacity_reservations = Some(converted);
    work.set_true(CAPACITY_RESERVATIONS_READY);
    let until_end = next_end.map(|end| Duration::try_from(end.duration_since(now)).unwrap_or_default());
    Ok(ReconcileAction::RequeueAfter(until_end.unwrap_or(REFRESH_AFTER).min(REFRESH_AFTER)))
}
