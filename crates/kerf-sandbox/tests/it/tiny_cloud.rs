//! A small cloud with instances of its own, for the tests of [`kerf_sandbox::SimulatedCloud`]. An
//! instance is pending for ten seconds and shuts down for thirty.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kerf_runtime::Clock;
use kerf_sandbox::{
    ApiServer, CloudChanges, CloudInstance, InstanceList, InstanceState, NodeRegistration, SimulatedCloud,
};

/// Time between launch and `Running`.
pub(crate) const LAUNCH_SECONDS: i64 = 10;
/// Time between the request to terminate and `Terminated`.
pub(crate) const SHUTDOWN_SECONDS: i64 = 30;
/// Age from which an instance must have a claim.
pub(crate) const MAX_ORPHAN_SECONDS: u64 = 120;

/// The cloud. Its provider IDs are `tiny://1`, `tiny://2` and so on, in the order of the launches.
#[derive(Debug)]
pub(crate) struct TinyCloud {
    clock: Clock,
    changes: CloudChanges,
    state: Mutex<TinyState>,
}

#[derive(Clone, Debug, Default)]
struct TinyState {
    instances: Vec<TinyInstance>,
    /// Provider IDs of instances that cannot join the cluster.
    broken: Vec<String>,
    /// Name that every Node gets; `None` for names like `tiny-1`.
    node_name: Option<String>,
}

#[derive(Clone, Debug)]
struct TinyInstance {
    listed: CloudInstance,
    /// Time of the next change of the state; `None` if none is planned.
    due: Option<Timestamp>,
}

impl TinyCloud {
    /// Attaches a new cloud to a server.
    pub(crate) fn attach(server: &ApiServer) -> Arc<Self> {
        let changes = server.cloud_changes().clone();
        let cloud = Arc::new(Self { clock: server.clock(), changes, state: Mutex::default() });
        server.attach_cloud(cloud.clone());
        cloud
    }

    fn state(&self) -> MutexGuard<'_, TinyState> {
        self.state.lock().unwrap()
    }

    fn after(&self, seconds: i64) -> Timestamp {
        self.clock.now() + SignedDuration::from_secs(seconds)
    }

    /// Launches an instance in `zone` for a claim, and returns its provider ID.
    pub(crate) fn launch(&self, zone: &str, claim: Option<&str>) -> String {
        let due = Some(self.after(LAUNCH_SECONDS));
        let mut state = self.state();
        let provider_id = format!("tiny://{}", state.instances.len() + 1);
        let listed = CloudInstance {
            provider_id: provider_id.clone(),
            claim: claim.map(str::to_owned),
            instance_type: "tiny.large".into(),
            zone: zone.into(),
            capacity_type: "spot".into(),
            launched_at: self.clock.now(),
            state: InstanceState::Pending,
            internal_ip: Some(Ipv4Addr::new(10, 9, 0, 1)),
            micro_dollars_per_hour: 50_000,
        };
        state.instances.push(TinyInstance { listed, due });
        drop(state);
        self.changes.notify();
        provider_id
    }

    /// Starts the shutdown of an instance, unless it has begun.
    pub(crate) fn terminate(&self, provider_id: &str) {
        let due = Some(self.after(SHUTDOWN_SECONDS));
        let mut state = self.state();
        let instance = state.instances.iter_mut().find(|instance| instance.listed.provider_id == provider_id);
        if let Some(instance) = instance.filter(|instance| instance.listed.state.is_live()) {
            instance.listed.state = InstanceState::ShuttingDown;
            instance.due = due;
        }
        drop(state);
        self.changes.notify();
    }

    /// Removes all terminated instances from the list, as EC2 does after an hour.
    pub(crate) fn forget_terminated(&self) {
        self.state().instances.retain(|instance| instance.listed.state != InstanceState::Terminated);
        self.changes.notify();
    }

    /// Keeps an instance from joining the cluster, as wrong user data does.
    pub(crate) fn break_user_data(&self, provider_id: &str) {
        self.state().broken.push(provider_id.into());
    }

    /// Repairs the user data of all instances.
    pub(crate) fn repair_user_data(&self) {
        self.state().broken.clear();
        self.changes.notify();
    }

    /// Gives the same name to all Nodes.
    pub(crate) fn set_node_name(&self, name: &str) {
        self.state().node_name = Some(name.into());
    }

    /// Returns the states of all instances in the order of their launches.
    pub(crate) fn states(&self) -> Vec<InstanceState> {
        self.instances().iter().map(|instance| instance.state).collect()
    }
}

impl InstanceList for TinyCloud {
    fn instances(&self) -> Vec<CloudInstance> {
        self.state().instances.iter().map(|instance| instance.listed.clone()).collect()
    }

    fn max_orphan_age(&self) -> Option<Duration> {
        Some(Duration::from_secs(MAX_ORPHAN_SECONDS))
    }
}

impl SimulatedCloud for TinyCloud {
    fn fork(&self, clock: Clock, changes: CloudChanges) -> Arc<dyn SimulatedCloud> {
        Arc::new(Self { clock, changes, state: Mutex::new(self.state().clone()) })
    }

    fn provider_id_prefix(&self) -> &'static str {
        "tiny://"
    }

    fn advance(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.state();
        let mut has_changed = false;
        for instance in state.instances.iter_mut().filter(|instance| instance.due.is_some_and(|due| due <= now)) {
            instance.due = None;
            has_changed = true;
            instance.listed.state = match instance.listed.state {
                InstanceState::Pending | InstanceState::Running => InstanceState::Running,
                InstanceState::ShuttingDown | InstanceState::Terminated => InstanceState::Terminated,
            };
        }
        let next = state.instances.iter().filter_map(|instance| instance.due).min();
        drop(state);
        if has_changed {
            self.changes.notify();
        }
        next
    }

    fn node_registration(&self, provider_id: &str) -> Result<NodeRegistration, String> {
        let state = self.state();
        if state.broken.iter().any(|broken| broken == provider_id) {
            return Err("the user data is wrong".into());
        }
        let instance = state.instances.iter().find(|instance| instance.listed.provider_id == provider_id);
        let instance = instance.ok_or("there is no such instance")?;
        let quantity = |name: &str, amount: &str| (name.to_owned(), Quantity(amount.to_owned()));
        Ok(NodeRegistration {
            name: state.node_name.clone().unwrap_or_else(|| provider_id.replace("://", "-")),
            labels: [("topology.kubernetes.io/zone".into(), instance.listed.zone.clone())].into(),
            taints: vec![Taint {
                key: "karpenter.sh/unregistered".into(),
                effect: "NoExecute".into(),
                ..Taint::default()
            }],
            capacity: [quantity("cpu", "4"), quantity("memory", "8Gi"), quantity("pods", "110")].into(),
            allocatable: [quantity("cpu", "3900m"), quantity("memory", "7Gi"), quantity("pods", "110")].into(),
            ..NodeRegistration::default()
        })
    }

    fn interrupt(&self, provider_id: &str) {
        self.terminate(provider_id);
    }
}
