//! The process around the controllers: watches always run, so that a standby's picture is whole when its turn comes; controllers run while the
//! lease is held.
//! Invariants: no controller runs before every list has been told, for half a picture looks like a cluster in which things are
//! missing; none runs without the lease; dropping the future of [`run`] drops everything, as a kill would.

mod probes;
pub(crate) mod reconcile;
mod requests;
mod version;

pub use requests::metered_client;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use kerf_api::slim::{NodeInclusionPolicy, TopologySpreadConstraint};
use kerf_runtime::{Lease, LeaseLost, LeaseSettings, ShutdownSignal, WatchHandle};
use serde_json::Value;
use tokio::task::JoinSet;
use tracing::{error, info};

use crate::context::Context;
use crate::controllers::Controllers;
use crate::metrics::MeteredProvider;
use crate::recorder::Recorder;

/// How long running reconciles may take once the end has been asked for.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// What the process around the controllers does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSettings {
    /// The address on which metrics and probes are served.
    pub address: IpAddr,
    /// Where metrics are served; none serves none.
    pub metrics_port: Option<u16>,
    /// Where probes are answered; none answers none.
    pub health_probe_port: Option<u16>,
    /// The lease to hold before anything is written; none runs without.
    pub leader_election: Option<LeaderElection>,
}

impl Default for ProcessSettings {
    /// Nothing is served and no lease is held.
    fn default() -> Self {
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { address, metrics_port: None, health_probe_port: None, leader_election: None }
    }
}

/// Which lease, and who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Name of the Lease.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Who we are; different for every process.
    pub identity: String,
}

/// Why the process ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The lease was lost; somebody else works now.
    #[error(transparent)]
    Lease(#[from] LeaseLost),
    /// A port could not be opened.
    #[error("cannot listen on port {port}: {cause}")]
    Listen {
        /// Which one.
        port: u16,
        /// Why not.
        cause: std::io::Error,
    },
}

/// Runs all controllers until the end is asked for, which is well, or something makes it impossible to go on, which is not.
///
/// `lease_client` is used for the lease alone, so that what the controllers do never costs it. Events that controllers publish are written
/// through `recorder`, if they are to be written at all. Only requests of clients that were [`measured`] are counted.
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
    let controllers = Controllers::new(ctx.clone());
    let (watches, feed) = controllers.watches(ctx.settings.seed);

    // Dropping the set ends what it holds.
    let mut background = JoinSet::new();
    background.spawn(feed);
    background.spawn(version::poll_version(ctx.client.clone()));
    probes::start(&ctx, controllers.history(), settings, &watches, &mut background).await?;
    if let Some(recorder) = recorder {
        background.spawn(async move { recorder.run().await });
    }

    let mut lease = settings.leader_election.as_ref().map(|election| {
        let settings = LeaseSettings {
            namespace: election.namespace.clone(),
            name: election.name.clone(),
            identity: election.identity.clone(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            seed: ctx.settings.seed,
        };
        let (metrics, name) = (ctx.metrics.clone(), election.name.clone());
        metrics.leader_election_slowpath.add(&[&name], 0.0);
        Lease::new(lease_client, settings, ctx.clock)
            .with_slow_path_callback(move || metrics.leader_election_slowpath.inc(&[&name]))
    });
    // Who holds no lease is master of none.
    let leads = |does: f64| {
        if let Some(election) = &settings.leader_election {
            ctx.metrics.leader_election_master_status.set(&[&election.name], does);
        }
    };
    leads(0.0);
    if let Some(lease) = &mut lease {
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = lease.acquire() => info!("successfully acquired lease"),
        }
    }
    leads(1.0);
    let outcome = {
        let held = async {
            match &mut lease {
                Some(lease) => lease.renew_until_lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            lost = held => {
                error!(error = %lost, "leader election lost");
                Err(RunError::Lease(lost))
            }
            () = run_as_leader(&controllers, watches, stop) => Ok(()),
        }
    };
    leads(0.0);
    if outcome.is_ok()
        && let Some(lease) = &mut lease
    {
        lease.release().await;
    }
    outcome
}

/// A default spread constraint as it was configured.
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

/// What a leader does: waits for the picture to be whole, then works until the end is asked for.
async fn run_as_leader(controllers: &Arc<Controllers>, watches: Vec<WatchHandle>, mut stop: ShutdownSignal) {
    for mut watch in watches {
        tokio::select! {
            biased;
            () = stop.requested() => return,
            () = watch.wait_until_synced() => {}
        }
    }
    let mut working = JoinSet::new();
    let (all, until) = (controllers.clone(), stop.clone());
    working.spawn(async move { all.run(until).await });
    stop.requested().await;
    if tokio::time::timeout(SHUTDOWN_TIMEOUT, working.join_next()).await.is_err() {
        info!("stopping although some reconciles are still running");
    }
}
