//! Leader election on a Lease object, compatible with client-go: the holder renews the lease, and a
//! candidate acquires it once it has not changed for its `leaseDurationSeconds`.
//!
//! Invariants: elapsed time is measured on the local clock and never computed from another
//! process's timestamps. A holder that cannot renew stops before a candidate may acquire the lease.
//! Every update carries the resource version that was read, so of two concurrent updates one fails.

use std::pin::pin;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams, WatchEvent, WatchParams};
use tokio::time::Instant;
use tracing::{debug, error};

use crate::causes::Causes;
use crate::clock::Clock;
use crate::rng::Rng;
use crate::write_gate::WriteGate;

/// Longest time for which a candidate keeps one watch on the Lease open.
const LEASE_WATCH_SECONDS: u32 = 240;

/// Name, identity and durations of a leader election.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Holder identity of this process; it must differ from that of every other candidate.
    pub identity: String,
    /// Time after the last renewal at which other candidates may acquire the lease.
    pub duration: Duration,
    /// Time after the last renewal at which the holder stops trying to renew and counts the lease
    /// as lost.
    pub renew_deadline: Duration,
    /// Time between two attempts to acquire or renew.
    pub retry_period: Duration,
    /// Seed of the random jitter between attempts.
    pub seed: u64,
}

/// Reason why the lease is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// Another process holds the lease.
    #[error("leader election lost, another process holds the lease")]
    Taken,
    /// No renewal succeeded within `renew_deadline`.
    #[error("leader election lost, the lease could not be renewed in time")]
    NotRenewed,
}

/// Candidate for a lease, or its holder.
pub struct Lease {
    api: Api<coordination::Lease>,
    settings: LeaseSettings,
    clock: Clock,
    rng: Rng,
    /// The Lease as last read or written, and the instant at which its current spec was first seen.
    observed: Option<(coordination::Lease, Instant)>,
    /// Called when a renewal has to read the Lease before it writes.
    on_slow_path: Box<dyn Fn() + Send + Sync>,
    /// Lets the writes of other clients pass while this process holds the lease.
    write_gate: WriteGate,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("settings", &self.settings)
            .field("observed", &self.observed)
            .finish_non_exhaustive()
    }
}

/// Result of one attempt to acquire or renew.
enum Attempt {
    /// This process holds the lease.
    Held,
    /// Another process holds the lease, at least until this instant.
    HeldByOther(Instant),
}

impl Lease {
    /// Creates a candidate that does not hold the lease yet.
    pub fn new(client: Client, settings: LeaseSettings, clock: Clock) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        let rng = Rng::new(settings.seed).fork(&settings.identity);
        Self {
            api,
            settings,
            clock,
            rng,
            observed: None,
            on_slow_path: Box::new(|| ()),
            write_gate: WriteGate::default(),
        }
    }

    /// Sets a callback for renewals that could not update the Lease as last written and had to read
    /// it first.
    #[must_use]
    pub fn with_slow_path_callback(self, on_slow_path: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_slow_path: Box::new(on_slow_path), ..self }
    }

    /// Sets the gate that is open for `renew_deadline` after each renewal.
    #[must_use]
    pub fn with_write_gate(self, write_gate: WriteGate) -> Self {
        Self { write_gate, ..self }
    }

    /// Returns once this process holds the lease.
    pub async fn acquire(&mut self) {
        // One watch on the Lease stays open for as long as another process holds it.
        let mut watch: Option<BoxFuture<'static, bool>> = None;
        loop {
            let pause = self.rng.jittered(self.settings.retry_period, 20);
            let started = Instant::now();
            let attempt = tokio::time::timeout(self.settings.renew_deadline, self.try_acquire_or_renew()).await;
            match attempt {
                Ok(Ok(Attempt::Held)) => {
                    self.write_gate.open_until(started + self.settings.renew_deadline);
                    return;
                }
                // The lease cannot be acquired before it expires, unless its holder releases it.
                Ok(Ok(Attempt::HeldByOther(until))) => {
                    let until = until.min(Instant::now() + pause);
                    let open_watch = watch.get_or_insert_with(|| self.watch_for_release());
                    tokio::select! {
                        biased;
                        is_released = open_watch => {
                            watch = None;
                            if !is_released {
                                tokio::time::sleep_until(until).await;
                            }
                        }
                        () = tokio::time::sleep_until(until) => {}
                    }
                }
                Ok(Err(cause)) => {
                    error!(error = %Causes(&cause), "cannot acquire the lease");
                    tokio::time::sleep(pause).await;
                }
                Err(_) => {
                    error!("cannot acquire the lease: the API server does not respond");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Renews the lease until it is lost, and returns the reason.
    pub async fn renew_until_lost(&mut self) -> LeaseLost {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.settings.retry_period).await;
            let deadline = renewed + self.settings.renew_deadline;
            let started = Instant::now();
            match tokio::time::timeout_at(deadline, self.try_acquire_or_renew()).await {
                Ok(Ok(Attempt::Held)) => {
                    renewed = started;
                    self.write_gate.open_until(renewed + self.settings.renew_deadline);
                }
                Ok(Ok(Attempt::HeldByOther(_))) => return LeaseLost::Taken,
                Ok(Err(cause)) if started < deadline => error!(error = %Causes(&cause), "cannot renew the lease"),
                Ok(Err(_)) | Err(_) => return LeaseLost::NotRenewed,
            }
        }
    }

    /// Releases the lease, so that another candidate can acquire it at once. If this fails, the
    /// next holder has to wait until the lease expires.
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
            Err(_) => debug!("releasing the lease timed out"),
        }
    }

    /// Acquires or renews the lease if no other process holds it.
    async fn try_acquire_or_renew(&mut self) -> Result<Attempt, kube::Error> {
        // A holder updates the Lease as last written. It reads the Lease only if that update fails.
        if let Some((lease, _)) = self.observed.clone()
            && self.is_held_by_us(&lease)
        {
            match self.write_as_holder(lease).await {
                Ok(written) => {
                    self.record_observed(written);
                    return Ok(Attempt::Held);
                }
                Err(_) => (self.on_slow_path)(),
            }
        }
        let Some(current) = self.api.get_opt(&self.settings.name).await? else {
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
        self.record_observed(current.clone());
        if !self.is_held_by_us(&current)
            && let Some(until) = self.valid_until(&current)
            && until > Instant::now()
        {
            return Ok(Attempt::HeldByOther(until));
        }
        let written = self.write_as_holder(current).await?;
        self.record_observed(written);
        Ok(Attempt::Held)
    }

    /// Updates the given Lease with this process as the holder. Fails if the Lease has changed
    /// since it was read.
    async fn write_as_holder(&self, mut lease: coordination::Lease) -> Result<coordination::Lease, kube::Error> {
        let mut spec = self.holder_spec(self.clock.now());
        let before = lease.spec.take().unwrap_or_default();
        let was_holder = before.holder_identity.as_deref() == Some(&self.settings.identity);
        let transitions = before.lease_transitions.unwrap_or_default();
        if was_holder {
            spec.acquire_time = before.acquire_time;
        }
        spec.lease_transitions = Some(if was_holder { transitions } else { transitions.saturating_add(1) });
        lease.spec = Some(spec);
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

    fn is_held_by_us(&self, lease: &coordination::Lease) -> bool {
        holder(lease) == self.settings.identity
    }

    fn record_observed(&mut self, lease: coordination::Lease) {
        if self.observed.as_ref().is_none_or(|(seen, _)| seen.spec != lease.spec) {
            self.observed = Some((lease, Instant::now()));
        } else if let Some((seen, _)) = &mut self.observed {
            *seen = lease;
        }
    }

    /// Returns the instant until which the lease of another holder is valid. Returns `None` if the
    /// Lease has no holder.
    fn valid_until(&self, lease: &coordination::Lease) -> Option<Instant> {
        let (_, since) = self.observed.as_ref()?;
        let seconds = lease.spec.as_ref()?.lease_duration_seconds.unwrap_or_default();
        (!holder(lease).is_empty()).then(|| *since + Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
    }

    /// Watches the Lease. The future returns true once the Lease is released or deleted, and false
    /// when the watch ends before.
    fn watch_for_release(&self) -> BoxFuture<'static, bool> {
        let version = self.observed.as_ref().and_then(|(lease, _)| lease.metadata.resource_version.clone());
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.settings.name))
            .timeout(LEASE_WATCH_SECONDS);
        let api = self.api.clone();
        let watch = async move {
            match api.watch(&params, &version.unwrap_or_default()).await {
                Ok(events) => is_released_by(events).await,
                Err(_) => false,
            }
        };
        // The server ends the watch; the time limit is for a server that does not.
        let limit = Duration::from_secs(u64::from(LEASE_WATCH_SECONDS) + 30);
        async move { tokio::time::timeout(limit, watch).await.unwrap_or(false) }.boxed()
    }
}

/// Returns true at the first event that releases or deletes the Lease, and false if the watch ends
/// before.
async fn is_released_by(events: impl Stream<Item = Result<WatchEvent<coordination::Lease>, kube::Error>>) -> bool {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) if holder(&lease).is_empty() => return true,
            Ok(WatchEvent::Deleted(_)) => return true,
            Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_)) => {}
            Ok(WatchEvent::Error(_)) | Err(_) => return false,
        }
    }
    false
}

fn holder(lease: &coordination::Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}
