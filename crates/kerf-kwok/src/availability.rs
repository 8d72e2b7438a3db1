//! What can be had just now. The simulated cloud has everything unless somebody says otherwise: tests and the sandbox take offerings
//! out of stock here, and the provider finds out as it would at a real cloud, by trying.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::Str;
use kerf_engine::catalogue::InstanceType;

/// For how long an offering that was out of stock is not tried again.
const UNAVAILABLE_OFFERING_TTL: Duration = Duration::from_mins(3);

/// Why a machine cannot be had, in the cloud's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AvailabilityError {
    /// There is none of it. Another offering may do.
    #[error("{0}")]
    InsufficientCapacity(String),
    /// The cloud takes no requests at the moment, whatever they are for. Later may do.
    #[error("{0}")]
    Throttled(String),
}

/// Says what can be had; the place where stock-outs on demand come from.
pub trait InstanceAvailability: Send + Sync {
    /// Whether such a machine can be had now.
    fn check(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Result<(), AvailabilityError>;
}

/// There is always enough of everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnlimitedAvailability;

impl InstanceAvailability for UnlimitedAvailability {
    fn check(&self, _: &str, _: &str, _: &str) -> Result<(), AvailabilityError> {
        Ok(())
    }
}

/// An offering: instance type, zone, capacity type.
pub(crate) type OfferingKey = (Str, Str, Str);

/// Offerings that were found to be out of stock, each until it is tried again.
#[derive(Debug, Default)]
pub(crate) struct UnavailableOfferings(BTreeMap<OfferingKey, Timestamp>);

impl UnavailableOfferings {
    pub(crate) fn mark_unavailable(&mut self, offered: OfferingKey, now: Timestamp) {
        self.0.insert(offered, now.saturating_add(UNAVAILABLE_OFFERING_TTL).unwrap_or(Timestamp::MAX));
    }

    pub(crate) fn is_unavailable(&self, offered: &OfferingKey, now: Timestamp) -> bool {
        self.0.get(offered).is_some_and(|until| now < *until)
    }

    /// The instance types with what is out of stock marked so; the very same list if nothing is.
    pub(crate) fn mark_instance_types(
        &mut self,
        types: &Arc<Vec<InstanceType>>,
        now: Timestamp,
    ) -> Arc<Vec<InstanceType>> {
        self.0.retain(|_, until| now < *until);
        if self.0.is_empty() {
            return types.clone();
        }
        let mut types = types.as_ref().clone();
        for described in &mut types {
            for offering in &mut described.offerings {
                if let Some(offered) = crate::node::offering_key(&described.name, offering)
                    && self.0.contains_key(&offered)
                {
                    offering.available = false;
                }
            }
        }
        Arc::new(types)
    }
}
