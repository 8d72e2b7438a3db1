//! Claims whose instances use capacity reservations: what happens to them when a capacity block
//! ends or an instance leaves its reservation (spec 06 §11.4, §11.5).

mod capacity_type;
mod expiration;

use std::sync::Arc;

use kerf_cloud::ProviderSetup;
use kerf_operator::Concurrency;

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

#[cfg(test)]
mod tests;
