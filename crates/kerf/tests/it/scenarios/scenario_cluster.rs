//! The cluster on which a scenario runs, with Kerf's controllers and helpers that create, read and
//! wait for objects. Invariant: a scenario begins on a cluster without nodes, pods or pools.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, LimitRange, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::crds::CrdVariant;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_controllers::{Context, LeaderElection, Metrics, ProcessSettings, Settings};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::{Recorder, SharedCluster};
use kerf_runtime::{Clock, Shutdown, WriteGate};
use kerf_sandbox::{Cluster, ClusterConfig, Timing, install_crds};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Maximum time that a scenario waits for one condition.
const WAIT_TIMEOUT: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A cluster and the instances of Kerf that run on it.
pub(crate) struct ScenarioCluster {
    client: Client,
    clock: Clock,
    sandbox: Option<Cluster>,
    kerf_tasks: Vec<(String, KerfTask)>,
}

/// A running Kerf; dropping it has the effect of a crash.
struct KerfTask {
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl Drop for KerfTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serializes the scenarios on the real cluster, of which there is only one.
static REAL_CLUSTER_LOCK: Mutex<()> = Mutex::new(());

/// Runs a scenario on the sandbox, or on the real cluster if `KERF_CONTROLPLANE` is set.
pub(crate) fn run_scenario(scenario: impl AsyncFnOnce(&mut ScenarioCluster)) {
    if std::env::var_os("KERF_CONTROLPLANE").is_some() {
        let _guard = REAL_CLUSTER_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut config = kube::Config::infer().await.unwrap();
            config.default_retry = false;
            let client = Client::try_from(config).unwrap();
            let mut cluster = ScenarioCluster { client, clock: Clock::system(), sandbox: None, kerf_tasks: Vec::new() };
            cluster.delete_leftovers().await;
            cluster.install_crds_and_class().await;
            scenario(&mut cluster).await;
        });
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
            let sandbox = Cluster::start(ClusterConfig { clock, seed: 7, timing: Timing::LIFELIKE });
            let client = sandbox.api().client_as("kerf");
            let mut cluster = ScenarioCluster { client, clock, sandbox: Some(sandbox), kerf_tasks: Vec::new() };
            cluster.install_crds_and_class().await;
            scenario(&mut cluster).await;
        });
    }
}

/// Returns the manifest of a pool with these changes to its spec.
pub(crate) fn pool_manifest(name: &str, spec: Value) -> Value {
    let mut pool = json!({"metadata": {"name": name}, "spec": {
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "karpenter.kwok.sh/instance-size", "operator": "Lt", "values": ["32"]},
            ],
        }},
    }});
    merge(&mut pool["spec"], spec);
    pool
}

/// Merges `change` into `object`, key by key.
pub(crate) fn merge(object: &mut Value, change: Value) {
    match (object, change) {
        (Value::Object(object), Value::Object(change)) => {
            for (key, value) in change {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, change) => *object = change,
    }
}

impl ScenarioCluster {
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns true on the real cluster, where time is real.
    pub(crate) fn is_real(&self) -> bool {
        self.sandbox.is_none()
    }

    /// Installs Kerf's CRDs and a node class.
    async fn install_crds_and_class(&self) {
        install_crds(&self.client, CrdVariant::Kwok).await.unwrap();
        self.wait_until("the definitions are served", async || {
            self.cluster_scoped::<KWOKNodeClass>().list(&ListParams::default()).await.is_ok()
                && self.cluster_scoped::<NodePool>().list(&ListParams::default()).await.is_ok()
                && self.cluster_scoped::<NodeClaim>().list(&ListParams::default()).await.is_ok()
        })
        .await;
        self.create::<KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
    }

    /// Deletes all objects that an earlier scenario left.
    async fn delete_leftovers(&self) {
        self.delete_all::<Deployment>(self.namespaced()).await;
        self.delete_all::<DaemonSet>(self.namespaced()).await;
        self.delete_all::<Job>(self.namespaced()).await;
        self.delete_all::<ReplicaSet>(self.namespaced()).await;
        self.delete_all::<PodDisruptionBudget>(self.namespaced()).await;
        self.delete_all::<Lease>(self.namespaced()).await;
        self.delete_all::<Event>(self.namespaced()).await;
        self.delete_all::<LimitRange>(self.namespaced()).await;
        self.delete_all::<NodePool>(self.cluster_scoped()).await;
        self.delete_all::<NodeClaim>(self.cluster_scoped()).await;
        self.delete_all::<KWOKNodeClass>(self.cluster_scoped()).await;
        self.delete_all::<Node>(self.cluster_scoped()).await;
        self.delete_all::<Pod>(self.namespaced()).await;
    }

    async fn delete_all<K>(&self, api: Api<K>)
    where
        K: kube::Resource + Clone + Debug + DeserializeOwned,
    {
        self.wait_until("an empty cluster", async || {
            // A kind whose CRD is not installed yet has no objects.
            let Ok(leftovers) = api.list(&ListParams::default()).await else { return true };
            for object in &leftovers.items {
                let name = object.name_any();
                let without_finalizers = json!({"metadata": {"finalizers": null}});
                let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(without_finalizers)).await;
                let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
            }
            leftovers.items.is_empty()
        })
        .await;
    }

    /// Starts Kerf without leader election.
    pub(crate) fn start_kerf(&mut self) {
        self.spawn_kerf("kerf", None, Settings::default());
    }

    /// Starts Kerf without leader election and with the feature gate for static pools.
    pub(crate) fn start_kerf_with_static_capacity(&mut self) {
        self.spawn_kerf("kerf", None, Settings { static_capacity: true, ..Settings::default() });
    }

    /// Starts Kerf with leader election under an identity.
    pub(crate) fn start_kerf_with_lease(&mut self, identity: &str) {
        let election = LeaderElection {
            name: "kerf".into(),
            namespace: "default".into(),
            identity: identity.to_owned(),
            write_gate: WriteGate::default(),
        };
        self.spawn_kerf(identity, Some(election), Settings::default());
    }

    fn spawn_kerf(&mut self, name: &str, leader_election: Option<LeaderElection>, settings: Settings) {
        let (client, clock) = (self.client.clone(), self.clock);
        let recorder = Arc::new(Recorder::new(client.clone(), clock, 7));
        let ctx = Context {
            client: client.clone(),
            cloud: Arc::new(Kwok::new(client.clone(), clock, built_in_catalogue())),
            cluster: SharedCluster::default(),
            clock,
            events: recorder.clone(),
            metrics: Arc::new(Metrics::new()),
            settings: Arc::new(settings),
        };
        let (shutdown, stop) = Shutdown::new();
        let process = ProcessSettings { leader_election, ..ProcessSettings::default() };
        let task = tokio::spawn(async move {
            // Losing the lease ends a process; the scenario notices it by the missing effects.
            let _ = kerf_controllers::run(ctx, &process, client, Some(recorder), stop).await;
        });
        self.kerf_tasks.push((name.to_owned(), KerfTask { shutdown, task }));
    }

    /// Stops Kerf gracefully, as SIGTERM does.
    pub(crate) async fn stop_kerf(&mut self, name: &str) {
        let index = self.kerf_tasks.iter().position(|(other, _)| other == name).unwrap();
        let (_, mut kerf_task) = self.kerf_tasks.remove(index);
        kerf_task.shutdown.request();
        let _ = (&mut kerf_task.task).await;
    }

    /// Stops Kerf abruptly, as SIGKILL does.
    pub(crate) fn kill_kerf(&mut self, name: &str) {
        self.kerf_tasks.retain(|(other, _)| other != name);
    }

    pub(crate) fn cluster_scoped<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    /// Returns the API of a kind in the namespace that scenarios use.
    pub(crate) fn namespaced<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
        K::DynamicType: Default,
    {
        self.cluster_scoped::<K>()
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap()
    }

    pub(crate) async fn create_namespaced<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope> + Serialize + DeserializeOwned + Clone + Debug,
        K::DynamicType: Default,
    {
        self.namespaced::<K>().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub(crate) async fn create_pool(&self, name: &str, spec: Value) {
        self.create::<NodePool>(pool_manifest(name, spec)).await;
    }

    pub(crate) async fn patch<K>(&self, api: Api<K>, name: &str, change: Value)
    where
        K: kube::Resource + DeserializeOwned + Clone + Debug,
    {
        api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// Creates a deployment whose pods request `cpu`, with these changes to their spec.
    pub(crate) async fn create_deployment(&self, name: &str, replicas: usize, cpu: &str, spec: Value) {
        let mut pod = json!({
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
        });
        merge(&mut pod, spec);
        self.create_namespaced::<Deployment>(json!({"metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod}}}))
            .await;
    }

    pub(crate) async fn scale(&self, name: &str, replicas: usize) {
        self.patch(self.namespaced::<Deployment>(), name, json!({"spec": {"replicas": replicas}})).await;
    }

    /// Returns the pods of a deployment that are not terminating.
    pub(crate) async fn pods(&self, name: &str) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("app={name}"));
        let pods = self.namespaced::<Pod>().list(&params).await.unwrap().items;
        pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    pub(crate) async fn running_pods(&self, name: &str) -> usize {
        let runs = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        self.pods(name).await.iter().filter(runs).count()
    }

    pub(crate) async fn wait_until_running(&self, name: &str, count: usize) {
        self.wait_until(&format!("{count} pods of {name} run"), async || self.running_pods(name).await == count).await;
    }

    pub(crate) async fn claims(&self) -> Vec<NodeClaim> {
        self.cluster_scoped::<NodeClaim>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        self.cluster_scoped::<Node>().list(&ListParams::default()).await.unwrap().items
    }

    /// Returns the only node; fails if there are several or none.
    pub(crate) async fn only_node(&self) -> Node {
        let mut nodes = self.nodes().await;
        assert_eq!(nodes.len(), 1, "{:?}", nodes.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>());
        nodes.remove(0)
    }

    /// Returns the messages of all events with a reason.
    pub(crate) async fn event_messages(&self, reason: &str) -> Vec<String> {
        let params = ListParams::default().fields(&format!("reason={reason}"));
        let events: Api<Event> = Api::all(self.client.clone());
        events.list(&params).await.unwrap().items.into_iter().filter_map(|event| event.message).collect()
    }

    /// Returns the names of all objects of a kind that an event is about.
    pub(crate) async fn objects_with_events(&self, kind: &str) -> Vec<String> {
        let events: Api<Event> = Api::all(self.client.clone());
        let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let objects = events.map(|event| event.involved_object);
        objects.filter(|object| object.kind.as_deref() == Some(kind)).filter_map(|object| object.name).collect()
    }

    /// Waits until Kerf publishes `FailedScheduling` for some pod.
    pub(crate) async fn wait_until_unschedulable(&self) {
        self.wait_until("a pod has an Event that it cannot be scheduled", async || {
            self.event_messages("FailedScheduling").await.iter().any(|text| text.starts_with("Failed to schedule pod"))
        })
        .await;
    }

    /// Lets time pass; on the real cluster it is real time.
    pub(crate) async fn sleep_seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Waits until a condition holds; fails after [`WAIT_TIMEOUT`].
    pub(crate) async fn wait_until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let wait = tokio::time::timeout(WAIT_TIMEOUT, async {
            while !condition().await {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
        let is_met = wait.await.is_ok();
        assert!(is_met, "not so after {WAIT_TIMEOUT:?}: {what}\n{}", self.describe_cluster().await);
    }

    /// Waits until there are `count` claims and all of them are initialized.
    pub(crate) async fn wait_until_initialized(&self, count: usize) {
        self.wait_until(&format!("{count} claims are initialized"), async || {
            let claims = self.claims().await;
            claims.len() == count && claims.iter().all(|claim| claim_condition(claim, "Initialized") == "True")
        })
        .await;
    }

    /// Describes all objects of the cluster, for the message of a failed test.
    async fn describe_cluster(&self) -> String {
        let mut lines = Vec::new();
        for claim in self.claims().await {
            let conditions = claim.status.iter().flat_map(|status| &status.conditions);
            let condition_texts: Vec<String> = conditions
                .map(|condition| format!("{}={}/{}", condition.condition_type, condition.status, condition.reason))
                .collect();
            lines.push(format!("claim {} {}", claim.name_any(), condition_texts.join(" ")));
        }
        for node in self.nodes().await {
            lines.push(format!("node {} {:?}", node.name_any(), node.spec.and_then(|spec| spec.taints)));
        }
        for pod in self.namespaced::<Pod>().list(&ListParams::default()).await.unwrap().items {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
            let is_terminating = pod.metadata.deletion_timestamp.is_some();
            lines.push(format!("pod {} {phase:?} on {node:?} going {is_terminating}", pod.name_any()));
        }
        let events: Api<Event> = Api::all(self.client.clone());
        for event in events.list(&ListParams::default()).await.unwrap().items {
            let about = event.involved_object.name.unwrap_or_default();
            lines.push(format!(
                "event {} {about}: {}",
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default()
            ));
        }
        lines.join("\n")
    }
}

/// Returns the status of a claim's condition; empty if it is missing.
pub(crate) fn claim_condition(claim: &NodeClaim, kind: &str) -> String {
    let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|condition| condition.condition_type == kind).map_or_else(String::new, |c| c.status.to_string())
}

/// Returns status and reason of a pool's condition; empty if it is missing.
pub(crate) fn pool_condition(pool: &NodePool, kind: &str) -> String {
    let mut conditions = pool.status.iter().flat_map(|status| &status.conditions);
    let condition = conditions.find(|condition| condition.condition_type == kind);
    condition.map_or_else(String::new, |condition| format!("{}/{}", condition.status, condition.reason))
}

/// Returns a label of a node; empty if it is missing.
pub(crate) fn node_label(node: &Node, key: &str) -> String {
    node.labels().get(key).cloned().unwrap_or_default()
}

/// Returns the node to which a pod is bound; empty if it is pending.
pub(crate) fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}
