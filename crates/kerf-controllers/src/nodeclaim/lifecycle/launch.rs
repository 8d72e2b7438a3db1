//! Launch (spec 04 §5.3): creates the instance of a claim, at most once.

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

use super::{ClaimUpdate, LAUNCHED, Lifecycle, LifecycleStep, truncated};
use crate::actions;
use crate::error::Error;
use crate::events;
use crate::logs::json;

/// Time for which a launched instance stays in the cache if its claim never records it.
const LAUNCH_CACHE_TTL: Duration = Duration::from_hours(1);

/// Launched instances whose claims may not have recorded them yet, by claim uid. Prevents a second
/// launch after a failed write.
#[derive(Debug, Default)]
pub(super) struct LaunchCache(Mutex<BTreeMap<String, (Instance, Timestamp)>>);

impl LaunchCache {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Instance, Timestamp)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, uid: &str, now: Timestamp) -> Option<Instance> {
        let mut launches = self.lock();
        launches
            .retain(|_, (_, at)| Duration::try_from(now.duration_since(*at)).unwrap_or_default() < LAUNCH_CACHE_TTL);
        launches.get(uid).map(|(machine, _)| machine.clone())
    }
}

impl Lifecycle {
    pub(super) async fn launch(&self, work: &mut ClaimUpdate) -> Result<LifecycleStep, Error> {
        let now = self.ctx.now();
        // A claim whose recorded provider ID was removed gets it again: the provider returns the
        // same instance for a repeated launch.
        if work.renew_if_settled(LAUNCHED, now) && !work.provider_id().is_empty() {
            self.launch_cache.lock().remove(work.uid());
            return Ok(LifecycleStep::Continue(ReconcileAction::Done));
        }
        let machine = match self.launch_cache.get(work.uid(), now) {
            Some(machine) => machine,
            None => match self.ctx.cloud.create(&work.claim).await {
                Ok(machine) if machine.provider_id.is_empty() => {
                    let nameless = CreateError::Other("the provider gave a machine without a provider ID".into());
                    return self.handle_create_error(work, nameless).await;
                }
                Ok(machine) => machine,
                Err(refusal) => return self.handle_create_error(work, refusal).await,
            },
        };
        let now = self.ctx.now();
        self.launch_cache.lock().insert(work.uid().to_owned(), (machine.clone(), now));
        record_instance(work, machine, now);
        Ok(LifecycleStep::Continue(ReconcileAction::Done))
    }

    /// Handles a failed launch, by the class of the error (spec 04 §2.2).
    async fn handle_create_error(&self, work: &mut ClaimUpdate, refusal: CreateError) -> Result<LifecycleStep, Error> {
        let now = self.ctx.now();
        match refusal {
            CreateError::InsufficientCapacity(_) => {
                let why = truncated(&refusal.to_string());
                self.ctx.publish(events::insufficient_capacity(&work.claim, &why));
                error!(error = %refusal, "failed launching nodeclaim");
                self.abandon_claim(work, "insufficient_capacity").await
            }
            CreateError::NodeClassNotReady(_) => {
                error!(error = %refusal, "failed launching nodeclaim");
                self.abandon_claim(work, "nodeclass_not_ready").await
            }
            CreateError::Refused { ref reason, ref message, .. } => {
                work.conditions.set_unknown(LAUNCHED, reason, message, now);
                Err(Error::Cloud { doing: "launching nodeclaim", cause: Box::new(refusal) })
            }
            CreateError::Other(_) => {
                work.conditions.set_unknown(LAUNCHED, "LaunchFailed", &truncated(&refusal.to_string()), now);
                Err(Error::Cloud { doing: "launching nodeclaim", cause: Box::new(refusal) })
            }
        }
    }

    /// Deletes a claim that can never be launched. Provisioning creates another one for its pods.
    async fn abandon_claim(&self, work: &ClaimUpdate, reason: &str) -> Result<LifecycleStep, Error> {
        match actions::claim::delete(&self.ctx, &work.claim).await {
            Ok(()) => {
                self.ctx.metrics.claim_disrupted(&work.claim, reason, 0);
                Ok(LifecycleStep::Deleted)
            }
            Err(ApiError::NotFound) => Ok(LifecycleStep::Deleted),
            Err(cause) => Err(Error::Api { doing: "deleting nodeclaim", cause }),
        }
    }
}

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

/// Records the launched instance on the claim. The claim's labels win over the instance's; the
/// instance's annotations win over the claim's.
pub(super) fn record_instance(work: &mut ClaimUpdate, machine: Instance, now: Timestamp) {
    let metadata = &mut work.claim.metadata;
    let mut labels = machine.labels;
    labels.extend(metadata.labels.take().unwrap_or_default());
    metadata.labels = Some(labels);
    metadata.annotations.get_or_insert_default().extend(machine.annotations);
    let status = work.claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id);
    status.image_id = machine.image_id;
    status.capacity = Some(valid_quantities(machine.capacity));
    status.allocatable = Some(valid_quantities(machine.allocatable));
    work.conditions.set_true(LAUNCHED, now);
}

/// Drops resources whose value is not a quantity, and logs them. The API server would reject the
/// whole write because of them. The Node reports its own resources later.
fn valid_quantities(mut resources: Resources) -> Resources {
    resources.retain(|name, amount| {
        let is_sound = amount.text().parse::<Quantity>().is_ok();
        if !is_sound {
            error!(resource = name.as_str(), value = %amount, "ignoring resource of instance, not a quantity");
        }
        is_sound
    });
    resources
}
