//! Writes Kubernetes events: drops what was said before (spec 07 §8.1), counts or combines what repeats (spec 07 §5).
//! Invariants: publishing never waits and never fails; memory does not grow with the number of events; no log line is written for one.

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

/// Events that wait to be written; more are lost, as it is only people who miss them.
const QUEUED_EVENTS_MAX: usize = 1000;
/// De-duplication keys that are kept before old ones are looked for the first time.
const DEDUPE_KEYS_MIN: usize = 4096;
/// Events that come in crowds: so many a second on average, so many at once, for all objects together.
const RATE_LIMIT_PER_SECOND: f64 = 5.0;
const RATE_LIMIT_BURST: f64 = 10.0;
/// Who says it.
const COMPONENT: &str = "karpenter";

/// Publishes events, once somebody polls `Recorder::run`.
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

/// What has been said lately.
#[derive(Debug)]
struct DedupeState {
    /// Until when a key is not repeated.
    suppressed_until: BTreeMap<String, Timestamp>,
    /// How many keys there are when old ones are looked for: twice as many as were left the last time, so that a key costs its share of one
    /// look, however many there are.
    cleanup_at_len: usize,
    /// Events of crowds that may still be told, and as of when.
    rate_limit_tokens: (f64, Timestamp),
}

impl Recorder {
    /// A recorder that writes through `client`.
    pub fn new(client: kube::Client, clock: Clock, seed: u64) -> Self {
        let (waiting, received) = mpsc::channel(QUEUED_EVENTS_MAX);
        let said = DedupeState {
            suppressed_until: BTreeMap::new(),
            cleanup_at_len: DEDUPE_KEYS_MIN,
            rate_limit_tokens: (RATE_LIMIT_BURST, clock.now()),
        };
        let chance = Rng::new(seed).fork("events");
        let writer = EventWriter { client, clock, received, correlator: Correlator::default(), rng: chance };
        Self { clock, dedupe: Mutex::new(said), queue: waiting, writer: Mutex::new(Some(writer)) }
    }

    fn admit(&self, event: &Event) -> bool {
        let now = self.clock.now();
        let mut said = self.dedupe.lock().unwrap_or_else(PoisonError::into_inner);
        if !event.dedupe_values.is_empty() {
            let key = format!("{}-{}", event.reason.to_lowercase(), event.dedupe_values.join("-"));
            if said.suppressed_until.get(&key).is_some_and(|until| now < *until) {
                return false;
            }
            if said.suppressed_until.len() >= said.cleanup_at_len {
                said.suppressed_until.retain(|_, until| now < *until);
                said.cleanup_at_len = DEDUPE_KEYS_MIN.max(said.suppressed_until.len() * 2);
            }
            said.suppressed_until.insert(key, now.saturating_add(event.dedupe_timeout).unwrap_or(Timestamp::MAX));
        }
        if !event.is_rate_limited {
            return true;
        }
        let (left, since) = said.rate_limit_tokens;
        let filled = (left + now.duration_since(since).as_secs_f64() * RATE_LIMIT_PER_SECOND).min(RATE_LIMIT_BURST);
        let is_allowed = filled >= 1.0;
        said.rate_limit_tokens = (if is_allowed { filled - 1.0 } else { filled }, now);
        is_allowed
    }

    /// Writes what is published, for as long as it is polled. Only the first call does anything.
    pub(crate) async fn run(&self) {
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
            // A full queue loses events; see WAITING_MAX.
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
                // Whatever else went wrong, the next one counts on.
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

    /// Creates the object; its name, if that worked.
    async fn create(&mut self, event: &Event, message: &str, count: i32, now: Timestamp) -> Option<String> {
        let about = event.involved_object.name.as_deref().unwrap_or_default();
        let name = format!("{about}.{:016x}", self.rng.next_u64());
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

/// Where an event lives: with its object, or in `default`.
fn namespace(event: &Event) -> &str {
    event.involved_object.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

fn event_type_name(severity: EventType) -> &'static str {
    match severity {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}
