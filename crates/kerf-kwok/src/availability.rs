//! Simulated stock-outs. By default every offering is available. Tests and the sandbox replace
//! [`InstanceAvailability`] to make offerings unavailable; the provider notices only when it tries
//! to launch, as with a real cloud.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::Str;
use kerf_engine::catalogue::{InstanceTypes, OfferingState};

/// Time for which an unavailable offering is not tried again.
const UNAVAILABLE_OFFERING_TTL: Duration = Duration::from_mins(3);

/// Reason why an instance cannot be launched, with the cloud's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AvailabilityError {
    /// The offering has no capacity left. Another offering may have.
    #[error("{0}")]
    InsufficientCapacity(String),
    /// The cloud rejects all requests at the moment. A later retry may succeed.
    #[error("{0}")]
    Throttled(String),
}

/// Decides which offerings can be launched now. Implement it to simulate stock-outs and throttling.
pub trait InstanceAvailability: Send + Sync {
    /// Returns `Ok` if an instance of this offering can be launched now.
    fn check(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Result<(), AvailabilityError>;
}

/// Makes every offering available at any time.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnlimitedAvailability;

impl InstanceAvailability for UnlimitedAvailability {
    fn check(&self, _: &str, _: &str, _: &str) -> Result<(), AvailabilityError> {
        Ok(())
    }
}

/// Key of an offering: instance type, zone, capacity type.
pub(crate) type OfferingKey = (Str, Str, Str);

/// Offerings that had no capacity, with the time until which they are not tried again.
#[derive(Debug, Default)]
pub(crate) struct UnavailableOfferings(BTreeMap<OfferingKey, Timestamp>);

impl UnavailableOfferings {
    pub(crate) fn mark_unavailable(&mut self, key: OfferingKey, now: Timestamp) {
        self.0.insert(key, now.saturating_add(UNAVAILABLE_OFFERING_TTL).unwrap_or(Timestamp::MAX));
    }

    pub(crate) fn is_unavailable(&self, key: &OfferingKey, now: Timestamp) -> bool {
        self.0.get(key).is_some_and(|until| now < *until)
    }

    /// Returns the instance types with unavailable offerings marked. Copies no instance type. If
    /// every offering is available, the result is the same list.
    pub(crate) fn mark_instance_types(&mut self, types: &InstanceTypes, now: Timestamp) -> InstanceTypes {
        self.0.retain(|_, until| now < *until);
        if self.0.is_empty() {
            return types.clone();
        }
        types.with_states(|instance_type, offering| {
            let key = crate::node::offering_key(&instance_type.name, &offering);
            let is_marked = key.is_some_and(|key| self.0.contains_key(&key));
            OfferingState { is_available: offering.is_available() && !is_marked, ..offering.state() }
        })
    }
}
