//! A whole cluster for tests of disruption: workloads, a scheduler and kubelets of the sandbox, three sizes of machines, and a watch over
//! what must never happen.

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

/// Machines take three seconds to boot, pods one to start and one to stop.
const TIMING: Timing = Timing {
    node_ready: Delay::fixed(Duration::from_secs(3)),
    pod_start: Delay::fixed(Duration::from_secs(1)),
    pod_stop: Delay::fixed(Duration::from_secs(1)),
    ..Timing::INSTANT
};

/// What is sold: `s`, `m` and `l` with 2, 4 and 8 cpus, at 10, 20 and 40 cents.
pub(crate) fn default_catalogue() -> Catalogue {
    catalogue_with_prices([0.1, 0.2, 0.4])
}

/// The same at other prices.
pub(crate) fn catalogue_with_prices([s, m, l]: [f64; 3]) -> Catalogue {
    let of = |name: &str, cpu: u32, price: f64| {
        let is = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
        json!({"name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "110", "ephemeral-storage": "20Gi"},
            "offerings": [{"Price": price, "Available": true, "Requirements": [
                is("karpenter.sh/capacity-type", "on-demand"), is("topology.kubernetes.io/zone", "zone-a")]}]})
    };
    let text = json!([of("s", 2, s), of("m", 4, m), of("l", 8, l)]).to_string();
    parse_catalogue(&text).unwrap()
}

/// Offerings that cannot be had, by instance type.
#[derive(Debug, Default)]
pub(crate) struct SoldOut {
    pub(crate) types: Mutex<Vec<&'static str>>,
    /// How often each was asked for in vain.
    pub(crate) refusals: Mutex<BTreeMap<String, u32>>,
}

impl InstanceAvailability for SoldOut {
    fn check(&self, instance_type: &str, _: &str, _: &str) -> Result<(), AvailabilityError> {
        if !self.types.lock().unwrap().contains(&instance_type) {
            return Ok(());
        }
        *self.refusals.lock().unwrap().entry(instance_type.to_owned()).or_default() += 1;
        Err(AvailabilityError::InsufficientCapacity(format!("{instance_type} is sold out")))
    }
}

/// The cluster.
pub(crate) struct TestCluster {
    pub(crate) env: TestEnv,
    pub(crate) cluster: Cluster,
    pub(crate) invariant_watcher: InvariantWatcher,
    pub(crate) sold_out: Arc<SoldOut>,
    pub(crate) catalogue: Catalogue,
}

impl TestCluster {
    /// A cluster with these changes to the spec of its pool `general`, and nobody at work.
    pub(crate) async fn without_controllers(spec: Value) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let config = ClusterConfig { clock, seed: 7, timing: TIMING };
        let cluster = Cluster::start_from(installed_server().await, config);
        let witness = InvariantWatcher::start(&cluster);
        let mut rig = TestEnv::from_server(cluster.api().clone());
        rig.settings.pause_disruption = false;
        rig.create::<NodePool>(pool("general", spec)).await;
        Self { env: rig, cluster, invariant_watcher: witness, sold_out: Arc::default(), catalogue: default_catalogue() }
    }

    /// The same with the controllers at work.
    pub(crate) async fn start(spec: Value) -> Self {
        let mut town = Self::without_controllers(spec).await;
        town.restart();
        town.env.wait(2).await;
        town
    }

    /// Ends the controllers that are at work, wherever they are, and starts new ones that know nothing.
    pub(crate) fn restart(&mut self) {
        self.restart_with(self.env.server.client_as("kerf"));
    }

    pub(crate) fn restart_with(&mut self, client: Client) {
        let cloud =
            Kwok::new(client.clone(), self.env.clock, self.catalogue.clone()).with_availability(self.sold_out.clone());
        self.env.restart_with(client, Arc::new(cloud));
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::default_namespaced(self.env.client.clone())
    }

    /// A deployment of pods that each ask for so much, with these changes to the pods.
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

    /// A budget for the pods of a deployment.
    pub(crate) async fn create_pdb(&self, name: &str, spec: Value) {
        let mut budget = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}}});
        merge(&mut budget["spec"], spec);
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.env.client.clone());
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    }

    /// Changes the pool.
    pub(crate) async fn patch_pool(&self, change: Value) {
        self.env.patch::<NodePool>("general", change).await;
    }

    /// Running pods by node.
    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.env.pods().list(&ListParams::default()).await.unwrap().items
    }

    /// How many pods run, with nobody telling them to go.
    pub(crate) async fn running(&self) -> usize {
        let runs = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        self.pods().await.iter().filter(|pod| runs(pod)).count()
    }

    /// The instance types of all nodes, sorted.
    pub(crate) async fn types(&self) -> Vec<String> {
        let mut types: Vec<String> = self.env.list::<Node>().await.iter().map(instance_type_of).collect();
        types.sort();
        types
    }

    /// Waits until something holds; how many seconds that took.
    pub(crate) async fn wait_until(&self, what: &str, most: u64, holds: impl AsyncFn(&Self) -> bool) -> u64 {
        for second in 0..most {
            if holds(self).await {
                return second;
            }
            self.env.wait(1).await;
            self.check_invariants();
        }
        panic!("not within {most} s: {what}\n{:#}\n{:#?}", self.env.decisions(), self.types().await);
    }

    /// The nodes that are marked as about to go.
    pub(crate) async fn tainted(&self) -> Vec<String> {
        let nodes = self.env.list::<Node>().await;
        nodes.into_iter().filter(is_tainted).filter_map(|node| node.metadata.name).collect()
    }

    /// How many claims say why they are disrupted.
    pub(crate) async fn disrupted(&self) -> usize {
        let claims = self.env.claims().await;
        claims.iter().filter(|claim| claim_condition(claim, "DisruptionReason") != "absent").count()
    }

    /// Changes the pool's template, so that its nodes drift.
    pub(crate) async fn change_template(&self) {
        self.patch_pool(json!({"spec": {"template": {"metadata": {"labels": {"colour": "blue"}}}}})).await;
    }

    /// A big node with a small pod, which could be a small node.
    pub(crate) async fn deploy_oversized(&self) {
        self.deploy("wide", 1, "7", json!({})).await;
        self.deploy("web", 1, "500m", json!({})).await;
        self.wait_until("both run", 60, async |town| town.is_settled(2, &["l"]).await).await;
        self.scale("wide", 0).await;
    }

    /// Nothing is under way, nothing is left behind.
    pub(crate) async fn is_idle(&self) -> bool {
        self.tainted().await.is_empty() && self.disrupted().await == 0 && self.env.orphans().await.is_empty()
    }

    /// Lets time go by.
    pub(crate) async fn advance(&self, seconds: u64) {
        self.env.wait(seconds).await;
        self.check_invariants();
    }

    /// So many pods run on machines of these types.
    pub(crate) async fn is_settled(&self, pods: usize, types: &[&str]) -> bool {
        self.running().await == pods && self.pods().await.len() == pods && self.types().await == types
    }

    /// Nothing has happened that must not: budgets, protected pods, replacements that are up first (the sandbox's own invariants, which
    /// are checked at every change).
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

/// A pool whose nodes may go, with these changes to what it says of that.
pub(crate) fn consolidating_pool(disruption: Value) -> Value {
    let mut spec = json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}});
    merge(&mut spec["disruption"], disruption);
    spec
}
