//! Writes Kubernetes Events. Drops duplicates (spec 07 §8.1), and counts or combines repeated
//! Events (spec 07 §5).
//! Invariants: publishing never waits and never fails. Memory does not grow with the number of
//! Events. Writing an Event logs nothing.

mod correlate;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kerf_runtime::{ApiError, Clock, Rng, with_retries};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;

use crate::events::{Event, EventType, Publish};
use correlate::{Correlated, Correlator};

/// The largest number of Events waiting to be written. Further Events are lost: no controller
/// depends on them.
const QUEUED_EVENTS_MAX: usize = 1000;
/// Number of de-duplication keys at which expired ones are first removed.
const DEDUPE_KEYS_MIN: usize = 4096;
/// Average number of rate-limited Events per second, for all objects together.
const RATE_LIMIT_PER_SECOND: f64 = 5.0;
/// Number of rate-limited Events that may be published at once.
const RATE_LIMIT_BURST: f64 = 10.0;
/// Source and reporting component of all Events.
const COMPONENT: &str = "karpenter";

/// Queues published Events. They are written while `Recorder::run` is polled.
pub struct Recorder {
    clock: Clock,
    dedupe: Mutex<DedupeState>,
    queue: mpsc::Sender<Event>,
    writer: Mutex<Option<EventWriter>>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// State of de-duplication and rate limiting.
#[derive(Debug)]
struct DedupeState {
    /// De-duplication key to the time until which an equal Event is dropped.
    suppressed_until: BTreeMap<String, Timestamp>,
    /// Number of keys at which expired ones are removed next: twice as many as were left the last
    /// time, so that the cost per key is constant on average.
    cleanup_at_len: usize,
    /// Tokens left for rate-limited Events, and the time of that count.
    rate_limit_tokens: (f64, Timestamp),
}

impl Recorder {
    /// Creates a recorder that writes through `client`. `seed` determines the names of the Events.
    pub fn new(client: kube::Client, clock: Clock, seed: u64) -> Self {
        let (queue, received) = mpsc::channel(QUEUED_EVENTS_MAX);
        let dedupe = DedupeState {
            suppressed_until: BTreeMap::new(),
            cleanup_at_len: DEDUPE_KEYS_MIN,
            rate_limit_tokens: (RATE_LIMIT_BURST, clock.now()),
        };
        let rng = Rng::new(seed).fork("events");
        let writer = EventWriter { client, clock, received, correlator: Correlator::default(), rng };
        Self { clock, dedupe: Mutex::new(dedupe), queue, writer: Mutex::new(Some(writer)) }
    }

    fn admit(&self, event: &Event) -> bool {
        let now = self.clock.now();
        let mut dedupe = self.dedupe.lock().unwrap_or_else(PoisonError::into_inner);
        if !event.dedupe_values.is_empty() {
            let key = format!("{}-{}", event.reason.to_lowercase(), event.dedupe_values.join("-"));
            if dedupe.suppressed_until.get(&key).is_some_and(|until| now < *until) {
                return false;
            }
            if dedupe.suppressed_until.len() >= dedupe.cleanup_at_len {
                dedupe.suppressed_until.retain(|_, until| now < *until);
                dedupe.cleanup_at_len = DEDUPE_KEYS_MIN.max(dedupe.suppressed_until.len() * 2);
            }
            dedupe.suppressed_until.insert(key, now.saturating_add(event.dedupe_timeout).unwrap_or(Timestamp::MAX));
        }
        if !event.is_rate_limited {
            return true;
        }
        let (left, since) = dedupe.rate_limit_tokens;
        let filled = (left + now.duration_since(since).as_secs_f64() * RATE_LIMIT_PER_SECOND).min(RATE_LIMIT_BURST);
        let is_allowed = filled >= 1.0;
        dedupe.rate_limit_tokens = (if is_allowed { filled - 1.0 } else { filled }, now);
        is_allowed
    }

    /// Writes queued Events while polled. Never returns. Only the first call writes anything.
    pub async fn run(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut writer) = writer {
            while let Some(event) = writer.received.recv().await {
                writer.write(event).await;
            }
        }
        std::future::pending::<()>().await;
    }
}

impl Publish for Recorder {
    fn publish(&self, event: Event) {
        if self.admit(&event) {
            // A full queue drops the Event; see `QUEUED_EVENTS_MAX`.
            let _ = self.queue.try_send(event);
        }
    }
}

struct EventWriter {
    client: kube::Client,
    clock: Clock,
    received: mpsc::Receiver<Event>,
    correlator: Correlator,
    rng: Rng,
}

impl EventWriter {
    async fn write(&mut self, event: Event) {
        let now = self.clock.now();
        match self.correlator.correlate(&event, now) {
            Correlated::Dropped => {}
            Correlated::New { message } => {
                let created = self.create(&event, &message, 1, now).await;
                self.correlator.record_written(&event, &message, created, now);
            }
            Correlated::Repeat { name, message, count } => {
                let patch = json!({"count": count, "lastTimestamp": Time(now), "message": message});
                let (api, params, patch) = (self.api(&event), PatchParams::default(), Patch::Merge(patch));
                // Other errors are ignored: the next repetition writes the count again.
                if let Err(ApiError::NotFound) = with_retries(|| api.patch(&name, &params, &patch)).await {
                    let created = self.create(&event, &message, count, now).await;
                    self.correlator.record_written(&event, &message, created, now);
                }
            }
        }
    }

    fn api(&self, event: &Event) -> Api<core::Event> {
        Api::namespaced(self.client.clone(), namespace(event))
    }

    /// Creates the Event object. Returns its name, or `None` if the request failed.
    async fn create(&mut self, event: &Event, message: &str, count: i32, now: Timestamp) -> Option<String> {
        let object_name = event.involved_object.name.as_deref().unwrap_or_default();
        let name = format!("{object_name}.{:016x}", self.rng.next_u64());
        let object = core::Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace(event).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: event.involved_object.clone(),
            reason: Some(event.reason.to_string()),
            message: Some(message.to_owned()),
            type_: Some(event_type_name(event.event_type).to_owned()),
            source: Some(core::EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(count),
            ..core::Event::default()
        };
        let api = self.api(event);
        with_retries(|| async { api.create(&PostParams::default(), &object).await }).await.ok().map(|_| name)
    }
}

/// Returns the namespace of the involved object, or `default` for a cluster-scoped object.
fn namespace(event: &Event) -> &str {
    event.involved_object.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn event_type_name(event_type: EventType) -> &'static str {
    match event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}
