//! Subnets of a node class (spec 06 §4.4).

use std::time::Duration;

use kerf_api::ec2nodeclass::Subnet;
use kerf_runtime::ReconcileAction;

use super::error::NodeClassError;
use super::reconcile::{ClassReconcile, SUBNETS_READY};
use crate::change_log::ChangeLog;
use crate::discovery::subnets::Subnets;

/// Time until subnets are resolved again.
const REFRESH_AFTER: Duration = Duration::from_mins(1);

/// Writes the subnets into the status, those with the most free addresses first. After an error,
/// status and condition keep their values.
pub(super) async fn resolve(
    subnets: &Subnets,
    logged: &ChangeLog,
    work: &mut ClassReconcile,
) -> Result<ReconcileAction, NodeClassError> {
    let listed = subnets.list(&work.class).await.map_err(NodeClassError::Subnets)?;
    if listed.is_empty() {
        work.status_mut().subnets = None;
        work.set_false(SUBNETS_READY, "SubnetsNotFound", "SubnetSelector did not match any Subnets");
        return Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER));
    }
    let ids = listed.iter().map(|subnet| subnet.id.as_str()).collect::<Vec<_>>().join(", ");
    if logged.is_new(&format!("subnets/{}", work.name()), &ids) {
        tracing::debug!(subnets = ids, "discovered subnets");
    }
    let mut sorted: Vec<_> = listed.iter().collect();
    sorted.sort_by(|a, b| b.available_ip_count.cmp(&a.available_ip_count).then_with(|| a.id.cmp(&b.id)));
    let subnets = sorted.into_iter().map(|subnet| Subnet {
        id: subnet.id.clone(),
        zone: subnet.zone.clone(),
        zone_id: Some(subnet.zone_id.clone()).filter(|id| !id.is_empty()),
    });
    work.status_mut().subnets = Some(subnets.collect());
    work.set_true(SUBNETS_READY);
    Ok(ReconcileAction::RequeueAfter(REFRESH_AFTER))
}
