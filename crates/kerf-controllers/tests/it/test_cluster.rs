//! Test cluster for disruption: the sandbox's workload controllers, scheduler and kubelets, three
//! instance types, and a watcher that checks the sandbox's invariants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::nodepool::NodePool;
use kerf_kwok::{AvailabilityError, Catalogue, InstanceAvailability, Kwok, parse_catalogue};
use kerf_runtime::Clock;
use kerf_sandbox::sim::InvariantWatcher;
use kerf_sandbox::{Cluster, ClusterConfig, Delay, Timing};
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_env::{TestEnv, claim_condition, installed_server, merge, pool};

/// Instances boot in three seconds; pods start and stop in one second.
const TIMING: Timing = Timing {
    node_ready: Delay::fixed(Duration::from_secs(3)),
    pod_start: Delay::fixed(Duration::from_secs(1)),
    pod_stop: Delay::fixed(Duration::from_secs(1)),
    ..Timing::INSTANT
};

/// Returns the instance types `s`, `m` and `l` with 2, 4 and 8 CPUs at 0.10, 0.20 and 0.40 dollars.
pub(crate) fn default_catalogue() -> Catalogue {
    catalogue_with_prices([0.1, 0.2, 0.4])
}

/// Returns the instance types `s`, `m` and `l` at other prices.
pub(crate) fn catalogue_with_prices([s, m, l]: [f64; 3]) -> Catalogue {
    let instance_type = |name: &str, cpu: u32, price: f64| {
        let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "110", "ephemeral-storage": "20Gi"},
            "offerings": [{"Price": price, "Available": true, "Requirements": [
                requirement("karpenter.sh/capacity-type", "on-demand"), requirement("topology.kubernetes.io/zone", "zone-a")]}]})
    };
    let text = json!([instance_type("s", 2, s), instance_type("m", 4, m), instance_type("l", 8, l)]).to_string();
    parse_catalogue(&text).unwrap()
}

/// Instance types without capacity.
#[derive(Debug, Default)]
pub(crate) struct UnavailableTypes {
    pub(crate) types: Mutex<Vec<&'static str>>,
    /// Number of failed launches by instance type.
    pub(crate) failed_launches: Mutex<BTreeMap<String, u32>>,
}

impl InstanceAvailability for UnavailableTypes {
    fn check(&self, instance_type: &str, _: &str, _: &str) -> Result<(), AvailabilityError> {
        if !self.types.lock().unwrap().contains(&instance_type) {
            return Ok(());
        }
        *self.failed_launches.lock().unwrap().entry(instance_type.to_owned()).or_default() += 1;
        Err(AvailabilityError::InsufficientCapacity(format!("no capacity for {instance_type}")))
    }
}

/// An environment with simulated workloads and an invariant watcher.
pub(crate) struct TestCluster {
    pub(crate) env: TestEnv,
    pub(crate) cluster: Cluster,
    pub(crate) invariant_watcher: InvariantWatcher,
    pub(crate) unavailable_types: Arc<UnavailableTypes>,
    pub(crate) catalogue: Catalogue,
}

impl TestCluster {
    /// Creates a cluster without running controllers. `spec` is merged into the spec of its pool
    /// `general`.
    pub(crate) async fn without_controllers(spec: Value) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let config = ClusterConfig { clock, seed: 7, timing: TIMING };
        let cluster = Cluster::start_from(installed_server().await, config);
        let invariant_watcher = InvariantWatcher::start(&cluster);
        let mut env = TestEnv::from_server(cluster.api().clone());
        env.settings.pause_disruption = false;
        env.create::<NodePool>(pool("general", spec)).await;
        Self { env, cluster, invariant_watcher, unavailable_types: Arc::default(), catalogue: default_catalogue() }
    }

    /// Creates a cluster and starts the controllers.
    pub(crate) async fn start(spec: Value) -> Self {
        let mut cluster = Self::without_controllers(spec).await;
        cluster.restart();
        cluster.env.wait(2).await;
        cluster
    }

    /// Stops the controllers immediately and starts new ones with empty state.
    pub(crate) fn restart(&mut self) {
        self.restart_with(self.env.server.client_as("kerf"));
    }

    pub(crate) fn restart_with(&mut self, client: Client) {
        let cloud = Kwok::new(client.clone(), self.env.clock, self.catalogue.clone())
            .with_availability(self.unavailable_types.clone());
        self.env.restart_with(client, Arc::new(cloud));
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.env.client.clone())
    }

    /// Creates a deployment whose pods request this much CPU. `pod` is merged into the pod
    /// template.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, cpu: &str, pod: Value) {
        let mut template = json!({
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": cpu}}}]},
        });
        merge(&mut template, pod);
        let deployment = json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": name}}, "template": template}});
        let deployment = serde_json::from_value(deployment).unwrap();
        self.deployments().create(&PostParams::default(), &deployment).await.unwrap();
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a PodDisruptionBudget for the pods of a deployment.
    pub(crate) async fn create_pdb(&self, name: &str, spec: Value) {
        let mut budget = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}}});
        merge(&mut budget["spec"], spec);
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.env.client.clone());
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    }

    /// Patches the pool `general`.
    pub(crate) async fn patch_pool(&self, change: Value) {
        self.env.patch::<NodePool>("general", change).await;
    }

    /// Returns all pods.
    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.env.pods().list(&ListParams::default()).await.unwrap().items
    }

    /// Returns the number of running pods that are not being deleted.
    pub(crate) async fn running(&self) -> usize {
        let runs = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        self.pods().await.iter().filter(|pod| runs(pod)).count()
    }

    /// Returns the instance types of all nodes, sorted.
    pub(crate) async fn types(&self) -> Vec<String> {
        let mut types: Vec<String> = self.env.list::<Node>().await.iter().map(instance_type_of).collect();
        types.sort();
        types
    }

    /// Waits until `holds` returns true. Returns how many seconds that took; fails after `most`
    /// seconds.
    pub(crate) async fn wait_until(&self, what: &str, most: u64, holds: impl AsyncFn(&Self) -> bool) -> u64 {
        for second in 0..most {
            if holds(self).await {
                return second;
            }
            self.env.wait(1).await;
            self.check_invariants();
        }
        panic!("within {most} s, this did not happen: {what}\n{:#}\n{:#?}", self.env.decisions(), self.types().await);
    }

    /// Returns the names of nodes with the disrupted taint.
    pub(crate) async fn tainted(&self) -> Vec<String> {
        let nodes = self.env.list::<Node>().await;
        nodes.into_iter().filter(is_tainted).filter_map(|node| node.metadata.name).collect()
    }

    /// Returns the number of claims with a disruption reason.
    pub(crate) async fn disrupted(&self) -> usize {
        let claims = self.env.claims().await;
        claims.iter().filter(|claim| claim_condition(claim, "DisruptionReason") != "absent").count()
    }

    /// Changes the pool's template, so that its nodes drift.
    pub(crate) async fn change_template(&self) {
        self.patch_pool(json!({"spec": {"template": {"metadata": {"labels": {"colour": "blue"}}}}})).await;
    }

    /// Creates a large node with one small pod, which consolidation can replace by a small node.
    pub(crate) async fn deploy_oversized(&self) {
        self.deploy("wide", 1, "7", json!({})).await;
        self.deploy("web", 1, "500m", json!({})).await;
        self.wait_until("both pods run", 60, async |cluster| cluster.is_settled(2, &["l"]).await).await;
        self.scale("wide", 0).await;
    }

    /// Returns true if no disruption is active and no orphaned objects exist.
    pub(crate) async fn is_idle(&self) -> bool {
        self.tainted().await.is_empty() && self.disrupted().await == 0 && self.env.orphans().await.is_empty()
    }

    /// Advances virtual time and checks the invariants.
    pub(crate) async fn advance(&self, seconds: u64) {
        self.env.wait(seconds).await;
        self.check_invariants();
    }

    /// Returns true if exactly this number of pods exists, all run, and the nodes have these types.
    pub(crate) async fn is_settled(&self, pods: usize, types: &[&str]) -> bool {
        self.running().await == pods && self.pods().await.len() == pods && self.types().await == types
    }

    /// Fails if an invariant of the sandbox was violated at any change so far: budgets, protected
    /// pods, replacements that are ready first.
    pub(crate) fn check_invariants(&self) {
        let violations = self.invariant_watcher.violations();
        assert!(violations.is_empty(), "{violations:#?}\n{:#}", self.env.decisions());
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check_invariants();
        }
    }
}

pub(crate) fn instance_type_of(node: &Node) -> String {
    node.metadata.labels.as_ref().unwrap()["node.kubernetes.io/instance-type"].clone()
}

pub(crate) fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted"))
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
}

/// Returns the spec of a pool whose nodes may be disrupted. `disruption` is merged into its
/// disruption settings.
pub(crate) fn consolidating_pool(disruption: Value) -> Value {
    let mut spec = json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}});
    merge(&mut spec["disruption"], disruption);
    spec
}
