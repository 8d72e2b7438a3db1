//! A decorator of the cloud provider that limits the time of all calls, times them and counts
//! failures (spec 07 §6.5).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::labels::{self, LabelRules};
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{
    CallTimedOut, CloudProvider, CreateError, DriftError, Instance, InstanceError, InstanceTypesError, ListError,
    NodeClassKind, NodeClassStatusReport, ProviderSetup, RegistrationHook, RepairPolicy, StartError,
    UNCLASSIFIED_LABEL,
};
use kerf_engine::catalogue::InstanceTypes;
use kerf_runtime::Clock;

use super::Metrics;
use kerf_operator::current_controller;

/// Time limit of a call. It is longer than the 4 minutes that one request to AWS may take.
const CALL_TIMEOUT: Duration = Duration::from_mins(5);

/// The decorated provider.
pub(crate) struct MeteredProvider {
    inner: Arc<dyn CloudProvider>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl MeteredProvider {
    pub(crate) fn new(inner: Arc<dyn CloudProvider>, metrics: Arc<Metrics>, clock: Clock) -> Self {
        Self { inner, metrics, clock }
    }

    /// Times a call and counts its failure. `pool` is the name of the pool that the call is for;
    /// empty if it is for none.
    fn metered<'a, T, E>(
        &'a self,
        method: &'static str,
        pool: &'a str,
        call: BoxFuture<'a, Result<T, E>>,
        class: fn(&E) -> &'static str,
    ) -> BoxFuture<'a, Result<T, E>>
    where
        T: Send + 'a,
        E: From<CallTimedOut> + Send + 'a,
    {
        async move {
            let started = self.clock.elapsed();
            let outcome = tokio::time::timeout(CALL_TIMEOUT, call).await;
            let outcome = outcome.unwrap_or_else(|_| Err(CallTimedOut(CALL_TIMEOUT).into()));
            let labels = [current_controller(), method, self.inner.name()];
            let took = self.clock.elapsed().saturating_sub(started).as_secs_f64();
            self.metrics.cloudprovider_duration.observe(&labels, took);
            if let Err(cause) = &outcome {
                let [controller, method, provider] = labels;
                self.metrics.cloudprovider_errors.inc(&[controller, method, provider, class(cause), pool]);
            }
            outcome
        }
        .boxed()
    }
}

impl CloudProvider for MeteredProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        self.inner.node_classes()
    }

    fn node_class_status(&self) -> Option<NodeClassStatusReport> {
        self.inner.node_class_status()
    }

    fn label_rules(&self) -> &LabelRules {
        self.inner.label_rules()
    }

    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        self.metered("Create", pool_of(claim), self.inner.create(claim), CreateError::metric_label)
    }

    fn delete<'a>(
        &'a self,
        provider_id: &'a str,
        claim: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>> {
        let pool = claim.map_or("", pool_of);
        self.metered("Delete", pool, self.inner.delete(provider_id, claim), InstanceError::metric_label)
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        self.metered("Get", "", self.inner.get(provider_id), InstanceError::metric_label)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        self.metered("List", "", self.inner.list(), |_| UNCLASSIFIED_LABEL)
    }

    fn instance_types<'a>(&'a self, pool: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let call = self.metered("GetInstanceTypes", name, self.inner.instance_types(pool), |_| UNCLASSIFIED_LABEL);
        async move {
            let result = call.await;
            if let Ok(types) = &result {
                self.metrics.offerings.set_pool_types(name, types);
            }
            result
        }
        .boxed()
    }

    fn drift<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        self.metered("IsDrifted", pool_of(claim), self.inner.drift(claim), |_| UNCLASSIFIED_LABEL)
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        self.inner.registration_hooks()
    }

    fn add_controllers(&self, setup: &mut ProviderSetup<'_>) {
        self.inner.add_controllers(setup);
    }

    fn start(&self) -> BoxFuture<'_, Result<(), StartError>> {
        self.inner.start()
    }

    fn on_leader(&self) -> BoxFuture<'_, ()> {
        self.inner.on_leader()
    }
}

/// Returns the name of the pool that a claim belongs to; empty if it belongs to none.
fn pool_of(claim: &NodeClaim) -> &str {
    claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL)).map_or("", String::as_str)
}
