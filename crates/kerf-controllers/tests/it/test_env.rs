//! A cluster for one test: an API server in virtual time, a cloud, all controllers, and a hand for everything that a scheduler or a
//! kubelet would do.

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
use kerf_controllers::logs::{self, Level, LineFormat, LogLayer};
use kerf_controllers::{Context, Controllers, DecisionHistory, Event, Metrics, Publish, Settings, SharedCluster};
use kerf_kwok::{Kwok, built_in_catalogue};
use kerf_runtime::{Clock, Shutdown};
use kerf_sandbox::{ApiServer, ApiServerConfig, Fault, FaultRule, Verb, install_crds};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tracing_subscriber::layer::SubscriberExt as _;

/// Keeps every event that is published, each once unless it is never held back: what tells them apart is the controllers' business, how long it holds the recorder's.
#[derive(Debug, Default)]
pub(crate) struct RecordedEvents(Mutex<(BTreeSet<EventKey>, Vec<Event>)>);

/// What tells events apart: the reason, and what the controllers say.
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

/// Keeps what is logged.
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
    /// Listens to this thread, to everything from a level on, for as long as the guard lives.
    pub(crate) fn capture(level: Level, clock: Clock) -> (Self, tracing::subscriber::DefaultGuard) {
        let lines = Self::default();
        let layer =
            LogLayer::new(logs::LogSettings { level, format: LineFormat::Json }, clock, vec![Box::new(lines.clone())]);
        // As long as one subscriber is all there is, tracing asks the thread that comes by a line first whether anybody listens; other tests'
        // threads would answer no, for good. One for everybody makes it ask all.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        (lines, guard)
    }

    /// What was logged since the last time.
    pub(crate) fn take(&self) -> Vec<Value> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The lines so far.
    pub(crate) fn all(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The lines so far with a message.
    pub(crate) fn with_message(&self, message: &str) -> Vec<Value> {
        self.all().into_iter().filter(|line| line["message"] == message).collect()
    }
}

/// The cluster of a test.
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
    /// An API server that knows nothing of Kerf.
    pub(crate) fn without_crds() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        Self::from_server(ApiServer::new(ApiServerConfig::new(clock, 7)))
    }

    /// The rig of a server that runs already.
    pub(crate) fn from_server(server: ApiServer) -> Self {
        let (client, clock) = (server.client_as("test"), server.clock());
        Self {
            server,
            client,
            clock,
            cluster: SharedCluster::default(),
            metrics: Arc::new(Metrics::new()),
            // Most tests are about nodes that stay.
            settings: Settings { pause_disruption: true, ..Settings::default() },
            history: Arc::default(),
            events: Arc::default(),
            running: None,
        }
    }

    /// An API server with the definitions and a node class `default`, and nobody at work.
    pub(crate) async fn without_controllers() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        Self::from_server(installed_server().await.fork(clock))
    }

    /// The same with a pool `general` and the simulated cloud, and the controllers at work.
    pub(crate) async fn start() -> Self {
        let rig = Self::without_controllers().await;
        rig.create::<NodePool>(pool("general", json!({}))).await;
        let cloud = Kwok::new(rig.server.client_as("kwok"), rig.clock, built_in_catalogue());
        rig.start_controllers(Arc::new(cloud)).await
    }

    /// Puts the controllers to work with a cloud, and gives them time to look around.
    pub(crate) async fn start_controllers(mut self, cloud: Arc<dyn CloudProvider>) -> Self {
        self.restart(cloud);
        self.wait(2).await;
        self
    }

    /// Ends the controllers that are at work, wherever they are.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// Ends the controllers that are at work, wherever they are, and starts new ones that know nothing.
    pub(crate) fn restart(&mut self, cloud: Arc<dyn CloudProvider>) {
        self.restart_with(self.server.client_as("kerf"), cloud);
    }

    /// The same by a client of the test's own.
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
        let (_, watching) = controllers.watches(7);
        let (shutdown, stop) = Shutdown::new();
        let working = tokio::spawn(async move { controllers.run(stop).await });
        self.running =
            Some(RunningControllers { ctx, _shutdown: shutdown, tasks: vec![tokio::spawn(watching), working] });
    }

    /// From now on this happens to every request of the controllers of this kind.
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

    /// Lets virtual time go by.
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

    /// Changes the status of an object.
    pub(crate) async fn patch_status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope> + serde::de::DeserializeOwned,
        K: Clone + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Changes an object.
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

    /// The only claim that there is.
    pub(crate) async fn only_claim(&self) -> NodeClaim {
        let mut claims = self.claims().await;
        assert_eq!(claims.len(), 1, "{claims:#?}");
        claims.remove(0)
    }

    /// The only node that there is.
    pub(crate) async fn only_node(&self) -> Node {
        let mut nodes: Vec<Node> = self.list().await;
        assert_eq!(nodes.len(), 1, "{nodes:#?}");
        nodes.remove(0)
    }

    pub(crate) async fn delete_claim(&self, name: &str) {
        self.api::<NodeClaim>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// A pod that the scheduler has given up on, with these changes to its spec.
    pub(crate) async fn pending_pod(&self, name: &str, cpu: &str, spec: Value) {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        merge(&mut pod["spec"], spec);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.mark_unschedulable(name).await;
    }

    /// What a scheduler says of a pod that it cannot place.
    pub(crate) async fn mark_unschedulable(&self, name: &str) {
        let unschedulable =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"});
        let status = Patch::Merge(json!({"status": {"conditions": [unschedulable]}}));
        self.pods().patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }

    /// All cpus of all nodes.
    pub(crate) async fn cpus(&self) -> i64 {
        let nodes = self.list::<Node>().await;
        let cpu =
            |node: &Node| node.status.as_ref().unwrap().capacity.as_ref().unwrap()["cpu"].0.parse::<i64>().unwrap();
        nodes.iter().map(cpu).sum()
    }

    /// What kubelet and scheduler would do: the node is ready.
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

    /// What the scheduler would do.
    pub(crate) async fn bind(&self, pod: &str, node: &str) {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{pod}/binding"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&binding).unwrap())
            .unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    /// A claim written by hand, as static capacity or a test would.
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

    /// What `/metrics` would say.
    pub(crate) fn metrics_text(&self) -> String {
        self.running.as_ref().unwrap().ctx.metrics_text()
    }

    /// What `/decisions` would say.
    pub(crate) fn decisions(&self) -> Value {
        self.history.json()
    }

    /// The published events with a reason: what about, and the message.
    pub(crate) fn events(&self, reason: &str) -> Vec<(String, String)> {
        let events = self.events.0.lock().unwrap();
        let told = events.1.iter().filter(|event| event.reason == reason);
        told.map(|event| (event.involved_object.name.clone().unwrap_or_default(), event.message.clone())).collect()
    }
}

/// An API server with the definitions and a node class `default`, of which each test has a copy: to judge the definitions takes longer than
/// most tests do.
pub(crate) async fn installed_server() -> &'static ApiServer {
    static INSTALLED_SERVER: OnceCell<ApiServer> = OnceCell::const_new();
    let furnish = async || {
        let rig = TestEnv::without_crds();
        rig.install_crds().await;
        rig.create::<KWOKNodeClass>(json!({"metadata": {"name": "default"}, "spec": {}})).await;
        rig.server
    };
    INSTALLED_SERVER.get_or_init(furnish).await
}

/// A pool with these changes to its spec.
pub(crate) fn pool(name: &str, spec: Value) -> Value {
    let mut pool = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
    }}}});
    merge(&mut pool["spec"], spec);
    pool
}

/// Puts `change` over `object`, key by key.
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

/// A condition as `status/reason`.
pub(crate) fn condition(conditions: &[Condition], kind: &str) -> String {
    conditions
        .iter()
        .find(|condition| condition.condition_type == kind)
        .map_or_else(|| "absent".to_owned(), |condition| format!("{}/{}", condition.status, condition.reason))
}

/// A claim's condition as `status/reason`.
pub(crate) fn claim_condition(claim: &NodeClaim, kind: &str) -> String {
    condition(claim.status.as_ref().map_or(&[][..], |status| &status.conditions), kind)
}

/// A pool's condition as `status/reason`.
pub(crate) fn pool_condition(pool: &NodePool, kind: &str) -> String {
    condition(pool.status.as_ref().map_or(&[][..], |status| &status.conditions), kind)
}
