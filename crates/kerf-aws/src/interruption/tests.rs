//! The interruption controllers on an EC2 and an API server in memory.

use std::time::Duration;

use kerf_api::crds::CrdVariant;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::{Node, Str};
use kerf_operator::{Reconcile as _, ReconcileError as _};
use kerf_runtime::ReconcileAction;
use kerf_sandbox::{FaultRule, install_crds};
use kerf_state::TrackedClaim;
use kube::Client;
use kube::api::{Api, ListParams, PatchParams, PostParams};
use serde_json::{Value, json};

use super::*;
use crate::memory::{AwsFault, AwsFaultRule, MemorySettings};
use crate::ports::ec2::{InstanceStatus, ScheduledEvent, StatusCheck};
use crate::testing::{ProviderEnv, TYPES};
use crate::unavailable_offerings::{InstancePool, PoolScope};

mod load;
mod queue;
mod status_checks;

const QUEUE: &str = "demo";
const FINALIZER: &str = "karpenter.sh/termination";

/// The controllers, on a cluster with claims, nodes and instances.
struct InterruptionEnv {
    env: ProviderEnv,
    client: Client,
    queue: InterruptionQueue,
    checks: InstanceStatusChecks,
}

impl InterruptionEnv {
    async fn new() -> Self {
        let env = ProviderEnv::with(&TYPES, MemorySettings::default(), |settings| {
            settings.interruption_queue = Some(QUEUE.to_owned());
        })
        .await;
        env.aws.change_account(|account| account.queues.insert(QUEUE.to_owned()));
        let client = env.server.client_as("test");
        install_crds(&client, CrdVariant::Aws).await.unwrap();
        let context = env.provider.context();
        let queue = InterruptionQueue::new(context.clone(), QUEUE.to_owned());
        let checks = InstanceStatusChecks::new(context.clone());
        Self { env, client, queue, checks }
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.client.clone())
    }

    /// Creates claims named `a-<number>` with nodes, for instances `i-<number>`.
    async fn add_claims(&self, numbers: std::ops::Range<usize>) {
        for number in numbers.clone() {
            self.claims().create(&PostParams::default(), &interrupted_claim(number)).await.unwrap();
        }
        let provider_id = |number| format!("aws:///us-west-2a/i-{number}");
        let mut claims = Vec::new();
        for number in numbers.clone() {
            let patch = kube::api::Patch::Merge(json!({ "status": { "providerID": provider_id(number) } }));
            let name = format!("a-{number}");
            claims.push(self.claims().patch_status(&name, &PatchParams::default(), &patch).await.unwrap());
        }
        let node = |number: usize| -> Node {
            let metadata = json!({ "name": format!("node-{number}"), "uid": format!("node-{number}") });
            serde_json::from_value(json!({ "metadata": metadata, "spec": { "providerID": provider_id(number) } }))
                .unwrap()
        };
        let mut cluster = self.env.cluster.lock();
        cluster.reset(claims.into_iter().map(TrackedClaim::from).collect::<Vec<_>>());
        cluster.reset(numbers.map(node).collect::<Vec<Node>>());
    }

    /// Returns the names of the claims that are not being deleted.
    async fn live_claims(&self) -> Vec<String> {
        let claims = self.claims().list(&ListParams::default()).await.unwrap().items;
        let live = claims.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
        live.filter_map(|claim| claim.metadata.name).collect()
    }

    fn send(&self, message: &Value) {
        assert!(self.env.aws.send_message(QUEUE, message.to_string()));
    }

    /// Receives and handles messages once.
    async fn receive(&self) -> Result<ReconcileAction, String> {
        self.queue.reconcile(&Str::new_static("")).await.map_err(|error| error.to_string())
    }

    async fn check(&self) -> Result<ReconcileAction, String> {
        self.checks.reconcile(&Str::new_static("")).await.map_err(|error| error.to_string())
    }

    fn metrics(&self) -> String {
        self.env.registry.text(self.env.clock.now())
    }
}

fn interrupted_claim(number: usize) -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("a-{number}"),
            "finalizers": [FINALIZER],
            "labels": {
                "karpenter.sh/nodepool": "default",
                "karpenter.sh/capacity-type": "spot",
                "node.kubernetes.io/instance-type": "m5.large",
                "topology.kubernetes.io/zone": "us-west-2a",
            },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [],
        },
    }))
    .unwrap()
}

/// Returns an event about the instance `i-<number>`.
fn event(detail_type: &str, number: usize, detail: Value) -> Value {
    let mut all = json!({ "instance-id": format!("i-{number}") });
    all.as_object_mut().unwrap().extend(detail.as_object().unwrap().clone());
    json!({
        "version": "0", "source": "aws.ec2", "detail-type": detail_type, "time": "2026-01-01T00:00:00Z",
        "detail": all,
    })
}

fn spot_interruption(number: usize) -> Value {
    event("EC2 Spot Instance Interruption Warning", number, json!({ "instance-action": "terminate" }))
}
