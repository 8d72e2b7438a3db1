//! Leader election on a Lease object, as client-go does it, so that the two respect each other: whoever holds the lease renews it, and
//! whoever wants it takes it once it has not changed for as long as it says it lasts.
//! Invariants: time that passes is measured on our own clock, never by comparing it with what another machine wrote; a holder that
//! could not renew gives up well before anybody else may take over; every write names the version that it was made from, so of
//! two that try at once one fails.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams, WatchParams};
use tokio::time::Instant;
use tracing::{debug, error};

use crate::backoff::Rng;
use crate::causes::Causes;
use crate::clock::Clock;

/// Which lease, who wants it, and how long things take.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; different for every process.
    pub identity: String,
    /// How long the lease lasts if nobody renews it.
    pub duration: Duration,
    /// How long a holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long between two tries.
    pub retry_period: Duration,
    /// Where jitter comes from.
    pub seed: u64,
}

/// Why a lease is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// Somebody else holds it.
    #[error("leader election lost, somebody else holds the lease")]
    Taken,
    /// It could not be renewed in time.
    #[error("leader election lost, the lease could not be renewed in time")]
    NotRenewed,
}

/// A lease that we want or hold.
pub struct Lease {
    api: Api<coordination::Lease>,
    settings: LeaseSettings,
    clock: Clock,
    rng: Rng,
    /// The object as last read or written, and when we first saw it so.
    observed: Option<(coordination::Lease, Instant)>,
    /// Is told when a renewal had to look first.
    on_slow_path: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("settings", &self.settings)
            .field("observed", &self.observed)
            .finish_non_exhaustive()
    }
}

/// What one try came to.
enum Attempt {
    /// The lease is ours.
    Held,
    /// Somebody else has it, until then at least.
    HeldByOther(Instant),
}

impl Lease {
    /// A lease that is not held yet.
    pub fn new(client: Client, settings: LeaseSettings, clock: Clock) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        let chance = Rng::new(settings.seed, &settings.identity);
        Self { api, settings, clock, rng: chance, observed: None, on_slow_path: Box::new(|| ()) }
    }

    /// Calls `slow` whenever a renewal cannot write on what it wrote last and has to look first.
    #[must_use]
    pub fn with_slow_path_callback(self, slow: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_slow_path: Box::new(slow), ..self }
    }

    /// Resolves once the lease is ours.
    pub async fn acquire(&mut self) {
        loop {
            let pause = self.rng.jittered(self.settings.retry_period, 20);
            match self.try_acquire_or_renew().await {
                Ok(Attempt::Held) => return,
                // Nobody needs to look before it runs out, but its holder may let go of it at any time.
                Ok(Attempt::HeldByOther(until)) => {
                    let until = until.min(Instant::now() + pause);
                    tokio::select! {
                        biased;
                        () = self.wait_until_released() => {}
                        () = tokio::time::sleep_until(until) => {}
                    }
                }
                Err(cause) => {
                    error!(error = %Causes(&cause), "cannot acquire the lease");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Renews the lease until it is lost, and says why it was.
    pub async fn renew_until_lost(&mut self) -> LeaseLost {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.settings.retry_period).await;
            let deadline = renewed + self.settings.renew_deadline;
            let started = Instant::now();
            match tokio::time::timeout_at(deadline, self.try_acquire_or_renew()).await {
                Ok(Ok(Attempt::Held)) => renewed = started,
                Ok(Ok(Attempt::HeldByOther(_))) => return LeaseLost::Taken,
                Ok(Err(cause)) if started < deadline => error!(error = %Causes(&cause), "cannot renew the lease"),
                Ok(Err(_)) | Err(_) => return LeaseLost::NotRenewed,
            }
        }
    }

    /// Lets go of the lease, so that another can take it at once. What goes wrong only costs the other the lease's duration.
    pub async fn release(&mut self) {
        let Some((mut lease, _)) = self.observed.take() else { return };
        let now = MicroTime(self.clock.now());
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.settings.identity) {
            return;
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(now.clone());
        spec.acquire_time = Some(now);
        let params = PostParams::default();
        let release = self.api.replace(&self.settings.name, &params, &lease);
        match tokio::time::timeout(self.settings.retry_period, release).await {
            Ok(Ok(_)) => {}
            Ok(Err(cause)) => debug!(error = %Causes(&cause), "cannot release the lease"),
            Err(_) => debug!("cannot release the lease in time"),
        }
    }

    /// Takes the lease, or renews it, if nobody else has it.
    async fn try_acquire_or_renew(&mut self) -> Result<Attempt, kube::Error> {
        // A holder writes on what it wrote last, and looks only if that failed.
        if let Some((lease, _)) = self.observed.clone()
            && self.is_ours(&lease)
        {
            match self.write_as_holder(lease).await {
                Ok(written) => {
                    self.record_observed(written);
                    return Ok(Attempt::Held);
                }
                Err(_) => (self.on_slow_path)(),
            }
        }
        let Some(found) = self.api.get_opt(&self.settings.name).await? else {
            let fresh = coordination::Lease {
                metadata: ObjectMeta { name: Some(self.settings.name.clone()), ..ObjectMeta::default() },
                spec: Some(coordination::LeaseSpec {
                    lease_transitions: Some(0),
                    ..self.holder_spec(self.clock.now())
                }),
            };
            let written = self.api.create(&PostParams::default(), &fresh).await?;
            self.record_observed(written);
            return Ok(Attempt::Held);
        };
        self.record_observed(found.clone());
        if !self.is_ours(&found)
            && let Some(until) = self.valid_until(&found)
            && until > Instant::now()
        {
            return Ok(Attempt::HeldByOther(until));
        }
        let written = self.write_as_holder(found).await?;
        self.record_observed(written);
        Ok(Attempt::Held)
    }

    /// Writes that the lease is ours from now, on the version that was read.
    async fn write_as_holder(&self, mut lease: coordination::Lease) -> Result<coordination::Lease, kube::Error> {
        let mut ours = self.holder_spec(self.clock.now());
        let before = lease.spec.take().unwrap_or_default();
        let was_ours = before.holder_identity.as_deref() == Some(&self.settings.identity);
        let transitions = before.lease_transitions.unwrap_or_default();
        if was_ours {
            ours.acquire_time = before.acquire_time;
        }
        ours.lease_transitions = Some(if was_ours { transitions } else { transitions.saturating_add(1) });
        lease.spec = Some(ours);
        self.api.replace(&self.settings.name, &PostParams::default(), &lease).await
    }

    fn holder_spec(&self, now: Timestamp) -> coordination::LeaseSpec {
        coordination::LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            ..coordination::LeaseSpec::default()
        }
    }

    fn is_ours(&self, lease: &coordination::Lease) -> bool {
        holder(lease) == self.settings.identity
    }

    fn record_observed(&mut self, lease: coordination::Lease) {
        if self.observed.as_ref().is_none_or(|(seen, _)| seen.spec != lease.spec) {
            self.observed = Some((lease, Instant::now()));
        } else if let Some((seen, _)) = &mut self.observed {
            *seen = lease;
        }
    }

    /// Until when another's lease must be respected; none if nobody has it.
    fn valid_until(&self, lease: &coordination::Lease) -> Option<Instant> {
        let (_, since) = self.observed.as_ref()?;
        let seconds = lease.spec.as_ref()?.lease_duration_seconds.unwrap_or_default();
        (!holder(lease).is_empty()).then(|| *since + Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
    }

    /// Resolves when the lease changes so that nobody holds it.
    async fn wait_until_released(&self) {
        let version = self.observed.as_ref().and_then(|(lease, _)| lease.metadata.resource_version.clone());
        let only_this = WatchParams::default().fields(&format!("metadata.name={}", self.settings.name)).timeout(60);
        let Ok(changes) = self.api.watch(&only_this, &version.unwrap_or_default()).await else {
            // The next try comes by itself.
            return std::future::pending().await;
        };
        let mut free = pin!(changes.into_stream().filter_map(|change| {
            let is_free = match change {
                Ok(kube::core::WatchEvent::Added(lease) | kube::core::WatchEvent::Modified(lease)) => {
                    holder(&lease).is_empty()
                }
                Ok(kube::core::WatchEvent::Deleted(_)) => true,
                Ok(kube::core::WatchEvent::Bookmark(_) | kube::core::WatchEvent::Error(_)) | Err(_) => false,
            };
            std::future::ready(is_free.then_some(()))
        }));
        if free.next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

fn holder(lease: &coordination::Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}
