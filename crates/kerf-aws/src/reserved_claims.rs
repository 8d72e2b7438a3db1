//! Claims whose instances use capacity reservations: what happens to them when a capacity block
//! ends or an instance leaves its reservation (spec 06 §11.4, §11.5).

mod capacity_type;
mod expiration;

use std::sync::Arc;

use kerf_api::labels::{self, aws};
use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::ProviderSetup;
use kerf_operator::Concurrency;
use kerf_state::TrackedClaim;

use self::capacity_type::CapacityTypeUpdate;
use self::expiration::CapacityBlockExpiration;
use crate::context::AwsContext;

/// Adds both controllers.
pub(crate) fn add_controllers(context: &Arc<AwsContext>, setup: &mut ProviderSetup<'_>) {
    let settings = || Concurrency { cores: 1 }.single_worker();
    let expiration = CapacityBlockExpiration::new(context.clone());
    setup.set.add_singleton::<CapacityBlockExpiration>("capacityreservation.expiration", expiration, settings());
    let capacity_type = CapacityTypeUpdate::new(context.clone());
    setup.set.add_singleton::<CapacityTypeUpdate>("capacityreservation.capacitytype", capacity_type, settings());
}

/// Returns the claims that are labelled with a reservation or as reserved. Claims that are being
/// deleted are left out.
fn reserved_claims(context: &AwsContext) -> Vec<Arc<TrackedClaim>> {
    let cluster = context.cluster.lock();
    let claims = cluster.all::<TrackedClaim>().values();
    let is_reserved = |claim: &&Arc<TrackedClaim>| {
        !claim.is_terminating()
            && (reservation_of(&claim.object).is_some() || is_labelled_reserved(claim.object.metadata.labels.as_ref()))
    };
    claims.filter(is_reserved).cloned().collect()
}

/// Returns the reservation that a claim is labelled with.
fn reservation_of(claim: &NodeClaim) -> Option<&str> {
    let id = claim.metadata.labels.as_ref()?.get(aws::CAPACITY_RESERVATION_ID)?;
    Some(id.as_str()).filter(|id| !id.is_empty())
}

fn is_labelled_reserved(labels: Option<&std::collections::BTreeMap<String, String>>) -> bool {
    labels
        .and_then(|labels| labels.get(labels::CAPACITY_TYPE))
        .is_some_and(|value| value == labels::CAPACITY_TYPE_RESERVED)
}

#[cfg(test)]
mod tests;
