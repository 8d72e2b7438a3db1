//! Launch (spec 04 §5.3): creates the instance of a claim, at most once per claim.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::quantity::Quantity;
use kerf_api::unparsed::Resources;
use kerf_cloud::{CreateError, Instance};
use kerf_runtime::{ApiError, ReconcileAction};
use tracing::{error, info};

use super::{ClaimUpdate, LAUNCHED, Lifecycle, LifecycleStep};
use crate::actions;
use crate::error::Error;
use crate::events;
use kerf_operator::logs::json;

/// Time for which a launched instance is kept in the cache.
const LAUNCH_CACHE_TTL: Duration = Duration::from_hours(1);

/// Launched instances that their claims may not have recorded yet, by the claim's UID. If the write
/// of the claim fails, the next attempt uses the cached instance and does not launch a second one.
#[derive(Debug, Default)]
pub(super) struct LaunchCache(Mutex<BTreeMap<String, (Instance, Timestamp)>>);

impl LaunchCache {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Instance, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, uid: &str, now: Timestamp) -> Option<Instance> {
        let mut cache = self.lock();
        cache.retain(|_, (_, at)| Duration::try_from(now.duration_since(*at)).unwrap_or_default() < LAUNCH_CACHE_TTL);
        cache.get(uid).map(|(instance, _)| instance.clone())
    }
}

impl Lifecycle {
    pub(super) async fn launch(&self, update: &mut ClaimUpdate) -> Result<LifecycleStep, Error> {
        let now = self.ctx.now();
        // If a user has removed the provider ID from a launched claim, launch again: the provider
        // returns the instance that exists for the claim.
        if update.renew_if_settled(LAUNCHED, now) && !update.provider_id().is_empty() {
            self.launch_cache.lock().remove(update.uid());
            return Ok(LifecycleStep::Continue(ReconcileAction::Done));
        }
        let instance = match self.launch_cache.get(update.uid(), now) {
            Some(instance) => instance,
            None => match self.ctx.cloud.create(&update.claim).await {
                Ok(instance) if instance.provider_id.is_empty() => {
                    let missing_id =
                        CreateError::Other("the provider returned an instance without a provider ID".into());
                    return self.handle_create_error(update, missing_id).await;
                }
                Ok(instance) => instance,
                Err(error) => return self.handle_create_error(update, error).await,
            },
        };
        let now = self.ctx.now();
        self.launch_cache.lock().insert(update.uid().to_owned(), (instance.clone(), now));
        record_instance(update, instance, now);
        Ok(LifecycleStep::Continue(ReconcileAction::Done))
    }

    /// Handles a failed launch: deletes the claim or sets its condition (spec 04 §2.2).
    async fn handle_create_error(&self, update: &mut ClaimUpdate, error: CreateError) -> Result<LifecycleStep, Error> {
        let now = self.ctx.now();
        match error {
            CreateError::InsufficientCapacity(_) => {
                self.ctx.publish(events::insufficient_capacity(&update.claim, &error.to_string()));
                error!(error = %error, "failed launching nodeclaim");
                self.abandon_claim(update, "insufficient_capacity").await
            }
            CreateError::NodeClassNotReady(_) => {
                error!(error = %error, "failed launching nodeclaim");
                self.abandon_claim(update, "nodeclass_not_ready").await
            }
            CreateError::Rejected { ref reason, ref message, .. } => {
                update.conditions.set_unknown(LAUNCHED, reason, message, now);
                self.ctx.publish(events::launch_failed(&update.claim, &error.to_string()));
                Err(Error::Cloud { operation: "launching nodeclaim", cause: Box::new(error) })
            }
            CreateError::Other(_) => {
                update.conditions.set_unknown(LAUNCHED, "LaunchFailed", &events::truncated(&error.to_string()), now);
                Err(Error::Cloud { operation: "launching nodeclaim", cause: Box::new(error) })
            }
        }
    }

    /// Deletes a claim that can never be launched. Provisioning creates another one for its pods.
    async fn abandon_claim(&self, update: &ClaimUpdate, reason: &str) -> Result<LifecycleStep, Error> {
        match actions::claim::delete(&self.ctx, &update.claim).await {
            Ok(()) => {
                self.ctx.metrics.claim_disrupted(&update.claim, reason, 0);
                Ok(LifecycleStep::Deleted)
            }
            Err(ApiError::NotFound) => Ok(LifecycleStep::Deleted),
            Err(cause) => Err(Error::Api { operation: "deleting nodeclaim", cause }),
        }
    }
}

/// Logs what a claim was launched as.
pub(super) fn log_launched(claim: &NodeClaim) {
    let label =
        |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str);
    let status = claim.status.as_ref();
    info!(
        "provider-id" = status.and_then(|status| status.provider_id.as_deref()).unwrap_or_default(),
        "instance-type" = label(labels::INSTANCE_TYPE),
        zone = label(labels::ZONE),
        "capacity-type" = label(labels::CAPACITY_TYPE),
        allocatable = %json(status.and_then(|status| status.allocatable.as_ref())),
        "launched nodeclaim"
    );
}

/// Records the launched instance in the claim. The claim's labels take precedence over the
/// instance's; the instance's annotations take precedence over the claim's.
pub(super) fn record_instance(update: &mut ClaimUpdate, instance: Instance, now: Timestamp) {
    let metadata = &mut update.claim.metadata;
    let mut labels = instance.labels;
    labels.extend(metadata.labels.take().unwrap_or_default());
    metadata.labels = Some(labels);
    metadata.annotations.get_or_insert_default().extend(instance.annotations);
    let status = update.claim.status.get_or_insert_default();
    status.provider_id = Some(instance.provider_id);
    status.image_id = instance.image_id;
    status.capacity = Some(valid_quantities(instance.capacity));
    status.allocatable = Some(valid_quantities(instance.allocatable));
    update.conditions.set_true(LAUNCHED, now);
}

/// Removes resources whose value is not a quantity. The API server would reject them, and with them
/// the whole write. The node reports its resources itself later.
fn valid_quantities(mut resources: Resources) -> Resources {
    resources.retain(|name, amount| {
        let is_valid = amount.text().parse::<Quantity>().is_ok();
        if !is_valid {
            error!(resource = name.as_str(), value = %amount, "ignoring resource of instance, value is not a quantity");
        }
        is_valid
    });
    resources
}
