//! Leader election of the process, with its metrics. Without a lease the process always leads.

use std::sync::Arc;
use std::time::Duration;

use kerf_runtime::{Lease, LeaseLost, LeaseSettings};
use tracing::info;

use super::LeaderElection;
use crate::context::Context;
use crate::metrics::Metrics;

/// The candidate for the lease, or its holder. `None` runs without a lease and without metrics.
pub(super) struct Election(Option<(Lease, Arc<Metrics>, String)>);

impl Election {
    pub(super) fn new(ctx: &Context, election: Option<&LeaderElection>, client: kube::Client) -> Self {
        let Some(election) = election else { return Self(None) };
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
        let lease = Lease::new(client, settings, ctx.clock)
            .with_write_gate(election.write_gate.clone())
            .with_slow_path_callback(move || metrics.leader_election_slowpath.inc(&[&name]));
        let this = Self(Some((lease, ctx.metrics.clone(), election.name.clone())));
        this.set_leader_status(0.0);
        this
    }

    /// Returns once this process leads.
    pub(super) async fn acquire(&mut self) {
        if let Some((lease, _, _)) = &mut self.0 {
            lease.acquire().await;
            info!("successfully acquired lease");
        }
        self.set_leader_status(1.0);
    }

    /// Renews the lease until it is lost. Never returns without a lease.
    pub(super) async fn renew_until_lost(&mut self) -> LeaseLost {
        match &mut self.0 {
            Some((lease, _, _)) => lease.renew_until_lost().await,
            None => std::future::pending().await,
        }
    }

    /// Releases the lease, so that another candidate can acquire it at once.
    pub(super) async fn release(&mut self) {
        if let Some((lease, _, _)) = &mut self.0 {
            lease.release().await;
        }
    }

    /// Returns true if there is a lease that another process could hold.
    pub(super) fn has_lease(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn set_leader_status(&self, value: f64) {
        if let Some((_, metrics, name)) = &self.0 {
            metrics.leader_election_master_status.set(&[name], value);
        }
    }
}
