//! `instance.garbagecollection`: terminates instances that no NodeClaim names (spec 06 §14). Each
//! provider adds this controller with its own schedule; no other controller does this.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kerf_api::slim::Str;
use kerf_operator::{Concurrency, Reconcile, ReconcileError};
use kerf_runtime::{ApiError, ReconcileAction, with_retries};
use kerf_state::{Cluster, TrackedClaim};
use kube::api::{Api, DeleteParams, Preconditions};
use tracing::debug;

use crate::BoxError;
use crate::error::InstanceError;
use crate::instance::Instance;
use crate::provider::{CloudProvider, ProviderSetup};

/// Number of instances that are terminated at the same time.
const CONCURRENT_TERMINATIONS_MAX: usize = 100;
/// Delay before the next attempt while cluster state is not synced.
const UNSYNCED_DELAY: Duration = Duration::from_secs(1);

/// Times at which instances are compared with claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GarbageCollectionSchedule {
    /// A younger instance may belong to a claim that has not recorded it yet.
    pub instance_age_min: Duration,
    /// Number of successful runs after which `interval` applies instead of `first_interval`.
    pub first_runs: u32,
    /// Delay after each of the first runs.
    pub first_interval: Duration,
    /// Delay after each later run.
    pub interval: Duration,
    /// True if a launch that is repeated after a crash finds the instance again. Then an instance
    /// whose claim exists and has not recorded an instance yet is left alone.
    pub repeated_launch_finds_instance: bool,
}

/// Terminates the instances that no NodeClaim names.
pub struct InstanceGarbageCollection {
    schedule: GarbageCollectionSchedule,
    cloud: Arc<dyn CloudProvider>,
    client: kube::Client,
    cluster: kerf_operator::SharedCluster,
    clock: kerf_runtime::Clock,
    successful_runs: std::sync::atomic::AtomicU32,
}

impl std::fmt::Debug for InstanceGarbageCollection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstanceGarbageCollection").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}

/// Instances that could not be listed or terminated.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct GarbageCollectionError(Vec<BoxError>);

impl ReconcileError for GarbageCollectionError {}

impl InstanceGarbageCollection {
    /// Adds the controller to the provider's controllers.
    pub fn add_to(setup: &mut ProviderSetup<'_>, schedule: GarbageCollectionSchedule) {
        let controller = Self {
            schedule,
            cloud: setup.cloud.clone(),
            client: setup.client.clone(),
            cluster: setup.cluster.clone(),
            clock: setup.clock,
            successful_runs: std::sync::atomic::AtomicU32::new(0),
        };
        let cores = setup.set.environment().cores;
        setup.set.add_singleton::<Self>(
            "instance.garbagecollection",
            controller,
            Concurrency { cores }.single_worker(),
        );
    }

    /// Returns the instances that have no claim, from a list that was made before the claims are
    /// read.
    fn orphans(&self, instances: Vec<Instance>) -> Vec<Instance> {
        let now = self.clock.now();
        let cluster = self.cluster.lock();
        let is_old_enough = |instance: &Instance| {
            let age = instance.launched_at.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
            age.is_some_and(|age| age >= self.schedule.instance_age_min)
        };
        let mut orphans = instances;
        orphans.retain(|instance| {
            !instance.is_terminating && is_old_enough(instance) && !self.is_claimed(&cluster, instance)
        });
        orphans
    }

    fn is_claimed(&self, cluster: &Cluster, instance: &Instance) -> bool {
        let is_launching = |name: &String| {
            cluster.get::<TrackedClaim>(name).is_some_and(|claim| claim.engine_claim.provider_id.is_empty())
        };
        cluster.claims_of(&instance.provider_id).next().is_some()
            || self.schedule.repeated_launch_finds_instance && instance.claim.as_ref().is_some_and(is_launching)
    }

    /// Terminates an instance, then deletes its Node. A Node without an instance would otherwise
    /// stay until the cloud's node controller removes it.
    async fn terminate(&self, instance: &Instance) -> Result<(), BoxError> {
        match self.cloud.delete(&instance.provider_id, None).await {
            Err(InstanceError::NotFound(_)) => return Ok(()),
            result => result?,
        }
        debug!("provider-id" = instance.provider_id, "garbage collected cloudprovider instance");
        let nodes: Vec<(Str, Str)> = {
            let cluster = self.cluster.lock();
            let nodes = cluster.nodes_of(&instance.provider_id);
            nodes.map(|node| (node.metadata.name.clone(), node.metadata.uid.clone())).collect()
        };
        let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.client.clone());
        for (name, uid) in nodes {
            let preconditions = Some(Preconditions { uid: Some(uid.to_string()), resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match with_retries(|| api.delete(&name, &params)).await {
                Ok(_) => debug!(node = name.as_str(), "garbage collected node"),
                Err(ApiError::NotFound | ApiError::Conflict) => {}
                Err(cause) => return Err(Box::new(cause)),
            }
        }
        Ok(())
    }

    fn next_run(&self) -> Duration {
        let runs = self.successful_runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed).saturating_add(1);
        if runs <= self.schedule.first_runs { self.schedule.first_interval } else { self.schedule.interval }
    }
}

impl Reconcile for InstanceGarbageCollection {
    type Error = GarbageCollectionError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, GarbageCollectionError> {
        // Without synced cluster state an instance would be terminated because its claim is not
        // known yet.
        let is_synced = {
            let mut cluster = self.cluster.lock();
            cluster.check_synced().is_synced() || cluster.has_been_synced()
        };
        if !is_synced {
            return Ok(ReconcileAction::RequeueAfter(UNSYNCED_DELAY));
        }
        let instances = self.cloud.list().await.map_err(|cause| GarbageCollectionError(vec![Box::new(cause)]))?;
        let mut errors = Vec::new();
        for chunk in self.orphans(instances).chunks(CONCURRENT_TERMINATIONS_MAX) {
            let results = join_all(chunk.iter().map(|instance| self.terminate(instance))).await;
            errors.extend(results.into_iter().filter_map(Result::err));
        }
        if errors.is_empty() {
            Ok(ReconcileAction::RequeueAfter(self.next_run()))
        } else {
            Err(GarbageCollectionError(errors))
        }
    }
}
