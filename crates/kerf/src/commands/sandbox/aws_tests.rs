//! The AWS provider in a sandbox, in virtual time: from the manifests of `examples/aws/` to Nodes,
//! and back to no instances.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bad_input;
mod kill;
mod lifecycle;

use std::time::Duration;

use futures::FutureExt as _;
use http::{Method, Request};
use kerf_aws::memory::MemoryAws;
use kerf_aws::ports::ec2::InstanceStateName;
use kerf_sandbox::{CloudFault, CloudFaultRule};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::program::{ProviderName, SANDBOX_CLUSTER_NAME};
use crate::provider::SimulatedEc2;

const GETTING_STARTED: &str = include_str!("../../../../../examples/aws/getting-started.yaml");
const INFLATE: &str = include_str!("../../../../../examples/aws/inflate.yaml");

const NODE_POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const NODE_CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const NODE_CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A sandbox with an EC2 in memory, in virtual time.
struct AwsSandbox {
    cluster: Cluster,
    client: Client,
    aws: MemoryAws,
    provider: Arc<dyn Provider>,
    controllers: Option<RunningControllers>,
}

/// The controllers of a sandbox. Dropping it kills them wherever they are.
struct RunningControllers {
    task: JoinHandle<()>,
    _shutdown: Shutdown,
}

impl Drop for RunningControllers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn aws_provider() -> Arc<dyn Provider> {
    let options = ProviderOptions {
        aws: Some(crate::program::sandbox_aws_settings(SANDBOX_CLUSTER_NAME)),
        ..ProviderOptions::new(ProviderName::Aws, None)
    };
    provider::load(options).unwrap()
}

fn sandbox_controller(seed: u64) -> SandboxController {
    SandboxController::new(Settings::defaults(), seed)
}

impl AwsSandbox {
    /// Starts a cluster with CRDs and an account, without controllers.
    async fn without_controllers() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let cluster = Cluster::start(ClusterConfig { clock, seed: 7, timing: Timing::LIFELIKE });
        let provider = aws_provider();
        provider.prepare_sandbox(SandboxPreparation {
            server: cluster.api(),
            faults: cluster.cloud(),
            endpoint: None,
            is_instant: false,
            seed: 7,
        });
        install_provider_crds(cluster.api(), provider.as_ref()).await.unwrap();
        Self::on_cluster(cluster, provider)
    }

    fn on_cluster(cluster: Cluster, provider: Arc<dyn Provider>) -> Self {
        let aws = cluster.api().attached_cloud_as::<SimulatedEc2>().unwrap().aws().clone();
        Self { client: cluster.api().client_as("test"), cluster, aws, provider, controllers: None }
    }

    async fn start() -> Self {
        let mut sandbox = Self::without_controllers().await;
        sandbox.start_controllers(sandbox.cluster.api().client_as("kerf"), 7);
        sandbox
    }

    /// Starts the controllers with this client of the cluster. `seed` must differ between two
    /// processes on one account.
    fn start_controllers(&mut self, client: Client, seed: u64) {
        let (shutdown, stop) = Shutdown::new();
        let controller = SandboxController { client: Some(client), ..sandbox_controller(seed) };
        let run = controller.run(&self.cluster, self.provider.clone(), stop);
        let task = tokio::spawn(run.map(|outcome| outcome.unwrap()));
        self.controllers = Some(RunningControllers { task, _shutdown: shutdown });
    }

    async fn request(&self, method: Method, path: &str, body: &Value) -> Value {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.request(request.body(body).unwrap()).await.unwrap()
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        self.request(Method::GET, path, &Value::Null).await["items"].as_array().cloned().unwrap_or_default()
    }

    async fn get(&self, path: &str, name: &str) -> Value {
        self.request(Method::GET, &format!("{path}/{name}"), &Value::Null).await
    }

    async fn create(&self, object: &Value) {
        let path = match object["kind"].as_str().unwrap() {
            "NodePool" => NODE_POOLS,
            "EC2NodeClass" => NODE_CLASSES,
            "Deployment" => DEPLOYMENTS,
            other => panic!("no path for {other}"),
        };
        self.request(Method::POST, path, object).await;
    }

    async fn patch(&self, path: &str, name: &str, change: Value) {
        self.request(Method::PATCH, &format!("{path}/{name}"), &change).await;
    }

    async fn scale(&self, replicas: u32) {
        self.patch(DEPLOYMENTS, "inflate", json!({"spec": {"replicas": replicas}})).await;
    }

    /// Creates the objects of the example, changed by `change`.
    async fn apply(&self, manifests: &str, change: impl Fn(&mut Value)) {
        for mut object in objects(manifests) {
            change(&mut object);
            self.create(&object).await;
        }
    }

    async fn running_pods(&self) -> usize {
        self.list(PODS).await.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }

    /// Returns the instances that are pending or running, from EC2's own list.
    fn live_instances(&self) -> Vec<kerf_aws::memory::LaunchedInstance> {
        let is_live =
            |state: InstanceStateName| [InstanceStateName::Pending, InstanceStateName::Running].contains(&state);
        self.aws.instances().into_iter().filter(|launched| is_live(launched.instance.state)).collect()
    }

    /// Waits until a condition holds, at most `seconds` of virtual time.
    async fn wait_until(&self, what: &str, seconds: u64, condition: impl AsyncFn(&Self) -> bool) {
        for _ in 0..seconds {
            if condition(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let (claims, events) = (self.list(NODE_CLAIMS).await, self.list(EVENTS).await);
        let calls: Vec<String> =
            self.aws.calls().iter().map(|call| format!("{} {:?}", call.operation, call.error)).collect();
        panic!("{seconds} s, and not yet: {what}\nclaims: {claims:#?}\nevents: {events:#?}\ncalls: {calls:#?}");
    }
}

/// Returns the objects of a file.
fn objects(manifests: &str) -> Vec<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(manifests);
    documents.map(|document| serde::Deserialize::deserialize(document).unwrap()).collect()
}

/// Returns status and message of a condition.
fn condition(object: &Value, name: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == name).unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}
