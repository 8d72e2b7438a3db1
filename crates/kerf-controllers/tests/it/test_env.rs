//! Test environment: an API server in virtual time, a cloud and all controllers. The test itself
//! does what a scheduler and a kubelet would do.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::conditions::Condition;
use kerf_api::crds::CrdVariant;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::CloudProvider;
use kerf_controllers::{Context, Controllers, DecisionHistory, Metrics, Settings};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_operator::logs::{self, Level, LineFormat, LogLayer};
use kerf_operator::{Event, Publish, SharedCluster};
use kerf_runtime::{Clock, Shutdown};
use kerf_sandbox::{ApiServer, ApiServerConfig, Fault, FaultRule, Verb, install_crds};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tracing_subscriber::layer::SubscriberExt as _;

/// Keeps published Events. Events with equal de-duplication values are kept once; Events without
/// such values are all kept. De-duplication times are not applied: they are tested with the
/// recorder.
#[derive(Debug, Default)]
pub(crate) struct RecordedEvents(Mutex<(BTreeSet<EventKey>, Vec<Event>)>);

/// Reason and de-duplication values of an Event.
type EventKey = (String, Vec<String>);

impl Publish for RecordedEvents {
    fn publish(&self, event: Event) {
        let (known, events) = &mut *self.0.lock().unwrap();
        let is_new = known.insert((event.reason.to_string(), event.dedupe_values.clone()));
        if is_new || event.dedupe_values.is_empty() {
            events.push(event);
        }
    }
}

/// Collects log output in memory.
#[derive(Clone, Default)]
pub(crate) struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    /// Captures lines of this thread from `level` on, until the guard is dropped.
    pub(crate) fn capture(level: Level, clock: Clock) -> (Self, tracing::subscriber::DefaultGuard) {
        let lines = Self::default();
        let layer =
            LogLayer::new(logs::LogSettings { level, format: LineFormat::Json }, clock, vec![Box::new(lines.clone())]);
        // While there is only one subscriber, tracing caches whether a call site is enabled, as
        // decided by the first thread that reaches it. A thread of another test would disable it
        // for good. A global subscriber prevents this.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        (lines, guard)
    }

    /// Returns the lines logged since the last call.
    pub(crate) fn take(&self) -> Vec<Value> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns all lines so far.
    pub(crate) fn all(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns all lines so far with this message.
    pub(crate) fn with_message(&self, message: &str) -> Vec<Value> {
        self.all().into_iter().filter(|line| line["message"] == message).collect()
    }
}

/// A test's API server, controllers, and what they published.
pub(crate) struct TestEnv {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) cluster: SharedCluster,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
    history: Arc<DecisionHistory>,
    events: Arc<RecordedEvents>,
    running: Option<RunningControllers>,
}

struct RunningControllers {
    ctx: Context,
    _shutdown: Shutdown,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for RunningControllers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl TestEnv {
    /// Creates an environment whose API server has no CRDs of Karpenter.
    pub(crate) fn without_crds() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        Self::from_server(ApiServer::new(ApiServerConfig::new(clock, 7)))
    }

    /// Creates an environment for an existing server.
    pub(crate) fn from_server(server: ApiServer) -> Self {
        let (client, clock) = (server.client_as("test"), server.clock());
        Self {
            server,
            client,
            clock,
            cluster: SharedCluster::default(),
            metrics: Arc::new(Metrics::new()),
            // Most tests do not want nodes to be disrupted.
            settings: Settings { pause_disruption: true, ..Settings::default() },
            history: Arc::default(),
            events: Arc::default(),
            running: None,
        }
    }

    /// Creates an environment with CRDs and a node class `default`, without running controllers.
    pub(crate) async fn without_controllers() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        Self::from_server(installed_server().await.fork(clock))
    }

    /// Creates an environment with a pool `general` and the kwok cloud, and starts the controllers.
    pub(crate) async fn start() -> Self {
        let env = Self::without_controllers().await;
        env.create::<NodePool>(pool("general", json!({}))).await;
        let cloud = Kwok::new(env.server.client_as("kwok"), env.clock, built_in_catalogue());
        env.start_controllers(Arc::new(cloud)).await
    }

    /// Starts the controllers with a cloud and waits two seconds.
    pub(crate) async fn start_controllers(mut self, cloud: Arc<dyn CloudProvider>) -> Self {
        self.restart(cloud);
        self.wait(2).await;
        self
    }

    /// Stops the controllers immediately, wherever they are.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// Stops the controllers immediately and starts new ones with empty state.
    pub(crate) fn restart(&mut self, cloud: Arc<dyn CloudProvider>) {
        self.restart_with(self.server.client_as("kerf"), cloud);
    }

    /// Restarts the controllers with this client.
    pub(crate) fn restart_with(&mut self, client: Client, cloud: Arc<dyn CloudProvider>) {
        self.running = None;
        self.cluster = SharedCluster::default();
        let ctx = Context {
            client,
            cloud,
            cluster: self.cluster.clone(),
            clock: self.clock,
            events: self.events.clone(),
            metrics: self.metrics.clone(),
            settings: Arc::new(self.settings.clone()),
        };
        let controllers = Controllers::new(ctx.clone());
        self.history = controllers.history();
        let (_, watch_task) = controllers.watches(7);
        let (shutdown, stop) = Shutdown::new();
        let running = tokio::spawn(async move { controllers.run(stop).await });
        self.running =
            Some(RunningControllers { ctx, _shutdown: shutdown, tasks: vec![tokio::spawn(watch_task), running] });
    }

    /// Makes every request of the controllers with this verb and resource fail in this way.
    pub(crate) fn inject_fault(&self, fault: Fault, verb: Verb, resource: &str) {
        let always = FaultRule::new(fault, 1_000_000);
        let rule = FaultRule {
            user_agent_prefix: "kerf".into(),
            resources: vec![resource.into()],
            verbs: vec![verb],
            ..always
        };
        self.server.set_faults(vec![rule], 1);
    }

    pub(crate) async fn install_crds(&self) {
        install_crds(&self.client, CrdVariant::Kwok).await.unwrap();
    }

    /// Advances virtual time.
    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + serde::de::DeserializeOwned + serde::Serialize,
        K: Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        self.api::<K>().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    /// Patches the status of an object.
    pub(crate) async fn patch_status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + serde::de::DeserializeOwned,
        K: Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Patches an object.
    pub(crate) async fn patch<K>(&self, name: &str, change: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + serde::de::DeserializeOwned,
        K: Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + serde::de::DeserializeOwned,
        K: Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn claims(&self) -> Vec<NodeClaim> {
        self.list().await
    }

    /// Returns the only claim; fails if there is not exactly one.
    pub(crate) async fn only_claim(&self) -> NodeClaim {
        let mut claims = self.claims().await;
        assert_eq!(claims.len(), 1, "{claims:#?}");
        claims.remove(0)
    }

    /// Returns the only node; fails if there is not exactly one.
    pub(crate) async fn only_node(&self) -> Node {
        let mut nodes: Vec<Node> = self.list().await;
        assert_eq!(nodes.len(), 1, "{nodes:#?}");
        nodes.remove(0)
    }

    pub(crate) async fn delete_claim(&self, name: &str) {
        self.api::<NodeClaim>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Creates a pod that the scheduler marked unschedulable. `spec` is merged into its spec.
    pub(crate) async fn pending_pod(&self, name: &str, cpu: &str, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        merge(&mut pod["spec"], spec);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.mark_unschedulable(name).await;
    }

    /// Sets the condition that a scheduler sets on a pod it cannot place.
    pub(crate) async fn mark_unschedulable(&self, name: &str) {
        let unschedulable =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no capacity"});
        let status = Patch::Merge(json!({"status": {"conditions": [unschedulable]}}));
        self.pods().patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    /// Returns the total CPU capacity of all nodes.
    pub(crate) async fn cpus(&self) -> i64 {
        let nodes = self.list::<Node>().await;
        let cpu =
            |node: &Node| node.status.as_ref().unwrap().capacity.as_ref().unwrap()["cpu"].0.parse::<i64>().unwrap();
        nodes.iter().map(cpu).sum()
    }

    /// Makes a node ready, as a kubelet would: removes the not-ready taint and sets the condition.
    pub(crate) async fn make_ready(&self, node: &str) {
        let taints: Vec<Value> = self
            .api::<Node>()
            .get(node)
            .await
            .unwrap()
            .spec
            .and_then(|spec| spec.taints)
            .unwrap_or_default()
            .into_iter()
            .filter(|taint| taint.key != "node.kubernetes.io/not-ready")
            .map(|taint| serde_json::to_value(taint).unwrap())
            .collect();
        self.patch::<Node>(node, json!({"spec": {"taints": taints}})).await;
        self.set_ready_condition(node, "True").await;
    }

    pub(crate) async fn set_ready_condition(&self, node: &str, status: &str) {
        let at = self.clock.now();
        let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": at, "lastHeartbeatTime": at});
        self.patch_status::<Node>(node, json!({"conditions": [ready]})).await;
    }

    /// Binds a pod, as the scheduler would.
    pub(crate) async fn bind(&self, pod: &str, node: &str) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{pod}/binding"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&binding).unwrap())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    /// Creates a claim of the pool `general` directly. `spec` is merged into its spec.
    pub(crate) async fn create_claim(&self, name: &str, spec: Value) -> NodeClaim {
        let mut claim = json!({
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "general"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
                "resources": {"requests": {"cpu": "1"}},
            },
        });
        merge(&mut claim["spec"], spec);
        if let Some(pool) = self.api::<NodePool>().get_opt("general").await.unwrap() {
            claim["metadata"]["ownerReferences"] = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
                "name": "general", "uid": pool.metadata.uid.unwrap(), "blockOwnerDeletion": true}]);
        }
        self.create(claim).await
    }

    /// Returns the response of `/metrics`.
    pub(crate) fn metrics_text(&self) -> String {
        self.running.as_ref().unwrap().ctx.metrics_text()
    }

    /// Returns the response of `/decisions`.
    pub(crate) fn decisions(&self) -> Value {
        self.history.json()
    }

    /// Returns object name and message of the published Events with this reason.
    pub(crate) fn events(&self, reason: &str) -> Vec<(String, String)> {
        let events = self.events.0.lock().unwrap();
        let matching = events.1.iter().filter(|event| event.reason == reason);
        matching.map(|event| (event.involved_object.name.clone().unwrap_or_default(), event.message.clone())).collect()
    }
}

/// Returns an API server with CRDs and a node class `default`. Each test gets a fork of it, because
/// validating the CRDs takes longer than most tests.
pub(crate) async fn installed_server() -> &'static ApiServer {
    static INSTALLED_SERVER: OnceCell<ApiServer> = OnceCell::const_new();
    let install = async || {
        let env = TestEnv::without_crds();
        env.install_crds().await;
        env.create::<KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
        env.server
    };
    INSTALLED_SERVER.get_or_init(install).await
}

/// Returns a pool with `spec` merged into its spec.
pub(crate) fn pool(name: &str, spec: Value) -> Value {
    let mut pool = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
    }}}});
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

/// Returns a condition as `status/reason`, or `absent`.
pub(crate) fn condition(conditions: &[Condition], kind: &str) -> String {
    conditions
        .iter()
        .find(|condition| condition.condition_type == kind)
        .map_or_else(|| "absent".to_owned(), |condition| format!("{}/{}", condition.status, condition.reason))
}

/// Returns a claim's condition as `status/reason`, or `absent`.
pub(crate) fn claim_condition(claim: &NodeClaim, kind: &str) -> String {
    condition(claim.status.as_ref().map_or(&[][..], |status| &status.conditions), kind)
}

/// Returns a pool's condition as `status/reason`, or `absent`.
pub(crate) fn pool_condition(pool: &NodePool, kind: &str) -> String {
    condition(pool.status.as_ref().map_or(&[][..], |status| &status.conditions), kind)
}
