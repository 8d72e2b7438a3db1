//! A cloud provider whose results a test scripts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{
    CloudProvider, CreateError, DriftError, Instance, InstanceError, InstanceTypesError, ListError, NodeClassKind,
    NodeClassStatusReport, ProviderSetup, RegistrationHook, RepairPolicy,
};
use kerf_engine::catalogue::InstanceTypes;
use kerf_kwok::Kwok;

/// Result of a launch.
pub(crate) enum ScriptedLaunch {
    Fails(fn() -> CreateError),
    Returns(Instance),
}

/// Result of a drift check.
pub(crate) type ScriptedDrift = fn() -> Result<Option<String>, DriftError>;

/// Result of a termination.
#[derive(Clone, Copy)]
pub(crate) enum ScriptedTermination {
    InProgress,
    Gone,
    Fails,
}

/// Returns scripted results, and those of the kwok provider where nothing is scripted.
pub(crate) struct ScriptedCloud {
    inner: Kwok,
    launches: Mutex<VecDeque<ScriptedLaunch>>,
    pub(crate) always_fails: Mutex<Option<fn() -> CreateError>>,
    /// NodePools whose launches fail.
    pub(crate) failing_pools: Mutex<Vec<&'static str>>,
    terminations: Mutex<VecDeque<ScriptedTermination>>,
    pub(crate) instances: Mutex<Option<Vec<Instance>>>,
    pub(crate) drift: Mutex<Option<ScriptedDrift>>,
    pub(crate) has_no_instance_types: AtomicBool,
    /// NodePools whose instance types cannot be listed.
    pub(crate) unlistable_pools: Mutex<Vec<&'static str>>,
    pub(crate) repair: Option<Vec<RepairPolicy>>,
    pub(crate) hooks: Vec<Arc<dyn RegistrationHook>>,
    pub(crate) class_status: Option<NodeClassStatusReport>,
    pub(crate) created: AtomicUsize,
    pub(crate) deleted: AtomicUsize,
}

impl ScriptedCloud {
    pub(crate) fn wrapping(inner: Kwok) -> Self {
        Self {
            inner,
            launches: Mutex::default(),
            always_fails: Mutex::default(),
            failing_pools: Mutex::default(),
            terminations: Mutex::default(),
            instances: Mutex::default(),
            drift: Mutex::default(),
            has_no_instance_types: AtomicBool::new(false),
            unlistable_pools: Mutex::default(),
            repair: None,
            hooks: Vec::new(),
            class_status: None,
            created: AtomicUsize::new(0),
            deleted: AtomicUsize::new(0),
        }
    }

    pub(crate) fn script_launch(&self, launch: ScriptedLaunch) {
        self.launches.lock().unwrap().push_back(launch);
    }

    pub(crate) fn script_terminations(&self, terminations: &[ScriptedTermination]) {
        self.terminations.lock().unwrap().extend(terminations);
    }
}

impl CloudProvider for ScriptedCloud {
    fn name(&self) -> &'static str {
        "dictated"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        self.inner.node_classes()
    }

    fn node_class_status(&self) -> Option<NodeClassStatusReport> {
        self.class_status
    }

    fn label_rules(&self) -> &LabelRules {
        self.inner.label_rules()
    }

    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        self.created.fetch_add(1, Ordering::SeqCst);
        if let Some(fail) = *self.always_fails.lock().unwrap() {
            return futures::future::ready(Err(fail())).boxed();
        }
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get("karpenter.sh/nodepool"));
        if pool.is_some_and(|pool| self.failing_pools.lock().unwrap().iter().any(|failing| failing == pool)) {
            return futures::future::ready(Err(CreateError::Other("throttled".into()))).boxed();
        }
        match self.launches.lock().unwrap().pop_front() {
            None => self.inner.create(claim),
            Some(ScriptedLaunch::Fails(fail)) => futures::future::ready(Err(fail())).boxed(),
            Some(ScriptedLaunch::Returns(instance)) => futures::future::ready(Ok(instance)).boxed(),
        }
    }

    fn delete<'a>(
        &'a self,
        provider_id: &'a str,
        claim: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>> {
        self.deleted.fetch_add(1, Ordering::SeqCst);
        match self.terminations.lock().unwrap().pop_front() {
            None => self.inner.delete(provider_id, claim),
            Some(ScriptedTermination::InProgress) => futures::future::ready(Ok(())).boxed(),
            Some(ScriptedTermination::Gone) => {
                futures::future::ready(Err(InstanceError::NotFound("gone".into()))).boxed()
            }
            Some(ScriptedTermination::Fails) => {
                futures::future::ready(Err(InstanceError::Other("throttled".into()))).boxed()
            }
        }
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        self.inner.get(provider_id)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        match self.instances.lock().unwrap().clone() {
            Some(instances) => futures::future::ready(Ok(instances)).boxed(),
            None => self.inner.list(),
        }
    }

    fn instance_types<'a>(&'a self, pool: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        if self.has_no_instance_types.load(Ordering::SeqCst) {
            return futures::future::ready(Ok(InstanceTypes::default())).boxed();
        }
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        if self.unlistable_pools.lock().unwrap().contains(&name) {
            return futures::future::ready(Err(InstanceTypesError::Other("throttled".into()))).boxed();
        }
        self.inner.instance_types(pool)
    }

    fn drift<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        match *self.drift.lock().unwrap() {
            Some(drift) => futures::future::ready(drift()).boxed(),
            None => self.inner.drift(claim),
        }
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.repair.as_deref().unwrap_or_else(|| self.inner.repair_policies())
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &self.hooks
    }

    fn add_controllers(&self, setup: &mut ProviderSetup<'_>) {
        self.inner.add_controllers(setup);
    }
}
