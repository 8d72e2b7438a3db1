//! `capacityreservation.expiration`: deletes the claims in a capacity block that is about to end,
//! so that their nodes are drained before EC2 reclaims the block (spec 06 §11.4).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kerf_api::ec2nodeclass::{CapacityReservationSelectorTerm, ReservationState};
use kerf_api::labels::aws;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_operator::{Reconcile, ReconcileError, delete_claim};
use kerf_runtime::{ApiError, Causes, ReconcileAction};
use kerf_state::TrackedClaim;
use tracing::{error, info};

use crate::context::AwsContext;
use crate::discovery::reservation_status::to_status;
use crate::ports::AwsError;

/// Time between two runs.
const INTERVAL: Duration = Duration::from_mins(1);
/// Number of claims that are deleted at the same time.
const CONCURRENT_DELETIONS_MAX: usize = 10;

/// The controller.
pub(super) struct CapacityBlockExpiration {
    context: Arc<AwsContext>,
}

/// Failure to list reservations or to delete claims. All other claims are deleted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExpirationError {
    #[error("listing capacity reservations, {0}")]
    List(#[source] AwsError),
    #[error("deleting nodeclaims, {}", .0.join("; "))]
    Delete(Vec<String>),
}

impl ReconcileError for ExpirationError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        match self {
            Self::List(cause) => cause.log_fields(),
            Self::Delete(_) => Vec::new(),
        }
    }
}

impl CapacityBlockExpiration {
    pub(super) fn new(context: Arc<AwsContext>) -> Self {
        Self { context }
    }

    /// Returns which of the reservations are about to end.
    async fn expiring(&self, ids: BTreeSet<String>) -> Result<BTreeSet<String>, AwsError> {
        let term = |id| CapacityReservationSelectorTerm { id: Some(id), ..CapacityReservationSelectorTerm::default() };
        let terms: Vec<CapacityReservationSelectorTerm> = ids.into_iter().map(term).collect();
        let now = self.context.clock.now();
        let mut expiring = BTreeSet::new();
        for reservation in self.context.reservations.list(&terms).await? {
            match to_status(reservation, now) {
                Ok(status) if status.state == Some(ReservationState::Expiring) => {
                    expiring.insert(status.id);
                }
                Ok(_) => {}
                Err(cause) => error!(error = %cause, "failed to parse capacity reservation"),
            }
        }
        Ok(expiring)
    }

    /// Deletes a claim. Returns the text of a failure, which names the claim.
    async fn delete(&self, claim: Arc<TrackedClaim>) -> Option<String> {
        let name = claim.object.metadata.name.as_deref().unwrap_or_default();
        match delete_claim(&self.context.client, &self.context.cluster, &claim.object).await {
            Ok(()) => {
                info!(
                    NodeClaim = name,
                    "capacity-reservation-id" = reservation_of(&claim.object),
                    "initiating delete for capacity block expiration"
                );
                None
            }
            // A conflict means that the name belongs to another claim by now.
            Err(ApiError::NotFound | ApiError::Conflict) => None,
            Err(cause) => Some(format!("{name}: {}", Causes(&cause))),
        }
    }
}

/// Returns the claims that are labelled with a reservation. Claims that are being deleted are left
/// out.
fn claims_in_reservations(context: &AwsContext) -> Vec<Arc<TrackedClaim>> {
    let cluster = context.cluster.lock();
    let claims = cluster.all::<TrackedClaim>().values();
    let is_included = |claim: &&Arc<TrackedClaim>| !claim.is_terminating() && reservation_of(&claim.object).is_some();
    claims.filter(is_included).cloned().collect()
}

/// Returns the reservation that a claim is labelled with.
fn reservation_of(claim: &NodeClaim) -> Option<&str> {
    let id = claim.metadata.labels.as_ref()?.get(aws::CAPACITY_RESERVATION_ID)?;
    Some(id.as_str()).filter(|id| !id.is_empty())
}

impl Reconcile for CapacityBlockExpiration {
    type Error = ExpirationError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, ExpirationError> {
        let claims = claims_in_reservations(&self.context);
        let ids = claims.iter().filter_map(|claim| reservation_of(&claim.object)).map(str::to_owned).collect();
        let expiring = self.expiring(ids).await.map_err(ExpirationError::List)?;
        let is_expiring = |claim: &&Arc<TrackedClaim>| {
            reservation_of(&claim.object).is_some_and(|reservation| expiring.contains(reservation))
        };
        let deletions = claims.iter().filter(is_expiring).map(|claim| self.delete(claim.clone())).collect::<Vec<_>>();
        let deletions = futures::stream::iter(deletions);
        let results: Vec<Option<String>> = deletions.buffer_unordered(CONCURRENT_DELETIONS_MAX).collect().await;
        let errors: Vec<String> = results.into_iter().flatten().collect();
        if errors.is_empty() {
            Ok(ReconcileAction::RequeueAfter(INTERVAL))
        } else {
            Err(ExpirationError::Delete(errors))
        }
    }
}
