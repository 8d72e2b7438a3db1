//! The process that runs the controllers. Watches always run, so that the cluster state of a
//! standby is synced when it becomes leader. Controllers run only while the lease is held.
//! Invariants: no controller runs before every watched kind is listed, because with incomplete
//! state existing objects look missing. No controller runs without the lease, nor in a process that
//! no longer sees changes. Dropping the future
//! of [`run`] stops everything, as a kill would.

mod election;
mod freshness;
mod http_server;
mod probes;
mod requests;
mod status;
mod version;

pub use requests::metered_client;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kerf_api::slim::{NodeInclusionPolicy, TopologySpreadConstraint};
use kerf_cloud::StartError;
use kerf_operator::Recorder;
use kerf_runtime::{LeaseLost, ShutdownSignal, WatchHandle, WriteGate, same_process};
use kerf_state::Cluster;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, info};

use crate::context::Context;
use crate::controllers::Controllers;
use crate::disruption::FRESH_KINDS;
use crate::metrics::MeteredProvider;
use election::Election;
use status::ProcessStatus;

/// Time that running reconciles get to finish after shutdown was requested.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Kinds whose CRDs must be installed.
const REQUIRED_KINDS: [&str; 2] = ["NodePool", "NodeClaim"];

/// A list that was requested this long before the lease was acquired, or later, is not repeated, so
/// that a process that becomes leader at its start lists once.
const LIST_AGE_MAX: Duration = Duration::from_secs(2);

/// Settings of the process: endpoints and leader election.
///
/// The default serves nothing and uses no lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Address of metrics. `None` serves no metrics.
    pub metrics: Option<SocketAddr>,
    /// Address of health probes. `None` serves no probes.
    pub health_probes: Option<SocketAddr>,
    /// Address of `/decisions`, which may be that of metrics. `None` does not serve it.
    pub debug: Option<SocketAddr>,
    /// The lease to hold before controllers run. `None` runs them without a lease.
    pub leader_election: Option<LeaderElection>,
}

/// The Lease to hold and the identity of this process.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// Name of the Lease.
    pub name: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Identity of this process in the Lease; unique per process.
    pub identity: String,
    /// The gate of every client that the controllers and the provider write with. It is closed
    /// while the last renewal of the lease is older than ten seconds.
    pub write_gate: WriteGate,
}

impl PartialEq for LeaderElection {
    /// Compares names and identity. Gates have no identity.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.namespace, &self.identity) == (&other.name, &other.namespace, &other.identity)
    }
}

impl Eq for LeaderElection {}

/// The cause for which the process stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The lease was lost; another process may be the leader now.
    #[error(transparent)]
    Lease(#[from] LeaseLost),
    /// The cloud provider could not start.
    #[error(transparent)]
    Provider(#[from] StartError),
    /// An address could not be opened.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address, as in the settings.
        address: SocketAddr,
        /// The error of the operating system.
        cause: std::io::Error,
    },
}

/// Runs all controllers until shutdown is requested. Fails if the cloud provider cannot start, the
/// lease is lost or an address cannot be opened.
///
/// `lease_client` is used for the lease only, so that requests of controllers never delay a
/// renewal. `recorder` writes the Events that controllers publish; with `None` they are not
/// written. Only requests of clients that come from [`metered_client`] are counted.
pub async fn run(
    ctx: Context,
    settings: &ProcessSettings,
    lease_client: kube::Client,
    recorder: Option<Arc<Recorder>>,
    mut stop: ShutdownSignal,
) -> Result<(), RunError> {
    let default_spread = &ctx.settings.engine.default_spread;
    if !default_spread.is_empty() {
        let constraints: Value = default_spread.iter().map(spread_constraint_json).collect();
        info!(%constraints, "spreading pods without constraints of their own by default");
    }
    let cloud = Arc::new(MeteredProvider::new(ctx.cloud.clone(), ctx.metrics.clone(), ctx.clock));
    let ctx = Context { cloud, ..ctx };
    tokio::select! {
        biased;
        () = stop.requested() => return Ok(()),
        outcome = ctx.cloud.start() => outcome?,
    }
    let status = Arc::new(ProcessStatus::new(ctx.clock));
    // Dropping the set aborts its tasks.
    let mut background = JoinSet::new();
    background.spawn(same_process(version::poll_version(ctx.client.clone())));
    background.spawn(same_process(status.clone().give_signs_of_life()));
    probes::start(&ctx, &status, settings, &mut background).await?;
    if let Some(recorder) = recorder {
        background.spawn(same_process(async move { recorder.run().await }));
    }
    let mut election = Election::new(&ctx, settings.leader_election.as_ref(), lease_client);
    let mut terms_given_up = 0;
    loop {
        // Each term has new controllers and a new index: those of the term before may have missed
        // changes.
        *ctx.cluster.lock() = Cluster::new();
        let controllers = Controllers::new(ctx.clone());
        let (watches, feed) = controllers.watches(ctx.settings.seed);
        status.set(watches.clone(), controllers.history());
        let mut feeding = JoinSet::new();
        feeding.spawn(same_process(feed));
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = freshness::wait_until_candidate(&watches, terms_given_up) => {}
        }
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = election.acquire() => {}
        }
        let has_lease = election.has_lease();
        let end = tokio::select! {
            biased;
            lost = election.renew_until_lost() => TermEnd::LeaseLost(lost),
            () = run_as_leader(&controllers, watches.clone(), stop.clone()) => TermEnd::Stopped,
            kind = freshness::wait_until_stale(&watches), if has_lease => TermEnd::GivenUp(kind),
        };
        election.set_leader_status(0.0);
        match end {
            TermEnd::LeaseLost(lost) => {
                error!(error = %lost, "leader election lost");
                return Err(RunError::Lease(lost));
            }
            TermEnd::Stopped => {
                election.release().await;
                return Ok(());
            }
            TermEnd::GivenUp(kind) => {
                error!(
                    kind,
                    seconds = freshness::STALE_AFTER.as_secs(),
                    "neither list nor watch of a kind has succeeded, giving up the lease"
                );
                election.release().await;
                terms_given_up += 1;
            }
        }
    }
}

/// The reason why a term of leadership ended.
enum TermEnd {
    /// Shutdown was requested, and the controllers have stopped.
    Stopped,
    LeaseLost(LeaseLost),
    /// Changes of this kind no longer arrive.
    GivenUp(&'static str),
}

/// Returns a default spread constraint as JSON, for the log.
fn spread_constraint_json(constraint: &TopologySpreadConstraint) -> Value {
    let policy = |policy: Option<NodeInclusionPolicy>| policy.map(|policy| format!("{policy:?}"));
    let fields = [
        ("maxSkew", Some(constraint.max_skew.into())),
        ("topologyKey", Some(constraint.topology_key.as_str().into())),
        ("whenUnsatisfiable", Some(format!("{:?}", constraint.when_unsatisfiable).into())),
        ("minDomains", constraint.min_domains.map(Value::from)),
        ("nodeAffinityPolicy", policy(constraint.node_affinity_policy).map(Value::from)),
        ("nodeTaintsPolicy", policy(constraint.node_taints_policy).map(Value::from)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Runs the controllers once all watches are synced, until shutdown is requested. Kinds that are
/// not required are not waited for if they are not installed or forbidden. The kinds that the
/// leader before has written are listed again: a watch of a standby may have been silent for
/// minutes, and what it has not shown would be launched or disrupted a second time.
async fn run_as_leader(controllers: &Arc<Controllers>, watches: Vec<WatchHandle>, mut stop: ShutdownSignal) {
    let now = Instant::now();
    let since = now.checked_sub(LIST_AGE_MAX).unwrap_or(now);
    for mut watch in watches {
        let kind = watch.kind().name;
        let ready = async {
            if FRESH_KINDS.contains(&kind) {
                watch.list_since(since).await;
            }
            if REQUIRED_KINDS.contains(&kind) {
                watch.wait_until_synced().await;
            } else {
                watch.wait_until_answered().await;
            }
        };
        tokio::select! {
            biased;
            () = stop.requested() => return,
            () = ready => {}
        }
    }
    let mut tasks = JoinSet::new();
    let (controllers, shutdown) = (controllers.clone(), stop.clone());
    tasks.spawn(same_process(async move { controllers.run(shutdown).await }));
    stop.requested().await;
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.join_next()).await.is_err() {
        info!("stopping although some reconciles are still running");
    }
}
