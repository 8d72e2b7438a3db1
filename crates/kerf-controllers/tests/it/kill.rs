//! A controller that dies between any two of its writes, and its successor: whatever was half done is finished, nothing is done twice,
//! nothing is left behind. And a controller in bad weather, which ends where one in fair weather does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kerf_api::nodepool::NodePool;
use kerf_kwok::{Kwok, built_in};
use kerf_sandbox::{ApiServer, Fault, FaultRule};
use kube::Client;
use serde_json::json;
use std::time::Duration;
use tokio::sync::Notify;
use tower::Service as _;

use crate::rig::{Rig, pool};

/// How many pods there are at the top of the scenario in bad weather.
const PODS: usize = 60;
/// How many there are when the controller dies: fewer, since the scenario is run twice for each of its writes.
const PODS_OF_THE_DOOMED: usize = 12;

/// A client whose n-th write never comes back, done or not.
#[derive(Clone)]
struct Doomed {
    writes: Arc<AtomicUsize>,
    /// Which write is the last; none counts only.
    last: Option<usize>,
    /// Whether the last write is done.
    is_done: bool,
    fell: Arc<Notify>,
}

impl Doomed {
    fn new(last: Option<usize>, is_done: bool) -> Self {
        Self { writes: Arc::default(), last, is_done, fell: Arc::default() }
    }

    fn client(&self, server: &ApiServer) -> Client {
        let (server, doomed) = (server.clone(), self.clone());
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (mut server, doomed) = (server.clone(), doomed.clone());
            request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
            let is_event = request.uri().path().ends_with("/events");
            async move {
                if request.method() == Method::GET || is_event {
                    return server.call(request).await;
                }
                let n = doomed.writes.fetch_add(1, Ordering::SeqCst);
                if doomed.last.is_none_or(|last| n < last) {
                    return server.call(request).await;
                }
                if doomed.is_done && doomed.last == Some(n) {
                    let _ = server.call(request).await;
                }
                doomed.fell.notify_one();
                std::future::pending().await
            }
        });
        Client::new(service, "default")
    }
}

fn cloud(client: Client, rig: &Rig) -> Arc<Kwok> {
    Arc::new(Kwok::new(client, rig.clock, built_in()))
}

/// From nothing to many pods, with a controller that dies at a write, and one that takes over.
async fn scaled_up(last: Option<usize>, is_done: bool) -> usize {
    let mut rig = Rig::bare().await;
    rig.create::<NodePool>(pool("general", json!({}))).await;
    let doomed = Doomed::new(last, is_done);
    let client = doomed.client(&rig.server);
    rig.restart_with(client.clone(), cloud(client, &rig));
    let fell = doomed.fell.clone();
    let settled = async |rig: &Rig| rig.all_run(PODS_OF_THE_DOOMED).await && rig.strays().await.is_empty();
    let up = tokio::select! {
        biased;
        () = fell.notified() => false,
        up = rig.live(120, PODS_OF_THE_DOOMED, settled) => up,
    };
    if !up {
        let client = rig.server.client_as("kerf");
        rig.restart_with(client.clone(), cloud(client, &rig));
        // A machine that no claim knows of is found by the next two lists.
        assert!(
            rig.live(400, PODS_OF_THE_DOOMED, settled).await,
            "write {last:?}, done {is_done}: {:?}",
            rig.strays().await
        );
    }
    let cpus = rig.cpus().await;
    assert!(cpus <= 16, "write {last:?}, done {is_done}: {cpus} cpus for {PODS_OF_THE_DOOMED} pods of 900m");
    doomed.writes.load(Ordering::SeqCst)
}

// spec 04 §15; "the controller is killed between any two of its writes"
#[tokio::test(start_paused = true)]
async fn a_successor_finishes_what_was_half_done() {
    let writes = scaled_up(None, false).await;
    assert!(writes > 10, "{writes}");
    for last in 0..writes {
        for is_done in [false, true] {
            scaled_up(Some(last), is_done).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bad_weather_changes_nothing_but_the_time_it_takes() {
    for seed in 0..4 {
        let mut rig = Rig::bare().await;
        rig.create::<NodePool>(pool("general", json!({}))).await;
        let weather = [
            (Fault::Conflict, 200_000),
            (Fault::InternalError, 100_000),
            (Fault::LostResponse, 50_000),
            (Fault::DroppedWatch { after: Duration::from_secs(3) }, 1_000_000),
        ];
        let rule = |(fault, per_million)| FaultRule { agent: "kerf".into(), ..FaultRule::new(fault, per_million) };
        rig.server.set_faults(weather.into_iter().map(rule).collect(), seed);
        let client = rig.server.client_as("kerf");
        rig.restart_with(client.clone(), cloud(client, &rig));
        let settled = async |rig: &Rig| rig.all_run(PODS).await && rig.strays().await.is_empty();
        assert!(rig.live(900, PODS, settled).await, "seed {seed}: {:?}", rig.strays().await);
    }
}
