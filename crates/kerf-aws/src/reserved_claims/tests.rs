//! Claims in capacity reservations that end or that their instances leave.

use std::collections::BTreeMap;
use std::time::Duration;

use kerf_api::crds::CrdVariant;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Node;
use kerf_api::slim::Str;
use kerf_cloud::CloudProvider as _;
use kerf_operator::{Reconcile as _, SharedCluster};
use kerf_runtime::ReconcileAction;
use kerf_sandbox::install_crds;
use kerf_state::TrackedClaim;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::capacity_type::CapacityTypeUpdate;
use super::expiration::CapacityBlockExpiration;
use crate::memory::{AwsFault, AwsFaultRule};
use crate::ports::ec2::Ec2CapacityReservation;
use crate::testing::{ProviderEnv, claim, require};

const MINUTE: Duration = Duration::from_mins(1);

/// A cluster whose claims are in reservations.
struct ReservedEnv(ProviderEnv);

impl ReservedEnv {
    async fn new() -> Self {
        let env = ProviderEnv::new().await;
        install_crds(&env.server.client_as("test"), CrdVariant::Aws).await.unwrap();
        Self(env)
    }

    /// Adds a reservation that ends after some minutes.
    fn reserve(&self, id: &str, kind: &str, minutes_left: u64) {
        let reservation = Ec2CapacityReservation {
            id: id.to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: "us-west-2a".to_owned(),
            state: "active".to_owned(),
            instance_match_criteria: "targeted".to_owned(),
            reservation_type: kind.to_owned(),
            total_instance_count: 40,
            available_instance_count: 40,
            ends_at: Some(self.0.clock.now() + Duration::from_mins(minutes_left)),
            ..Ec2CapacityReservation::default()
        };
        self.0.aws.change_account(|account| account.capacity_reservations.insert(id.to_owned(), reservation));
    }

    /// Creates a claim that is labelled with a reservation.
    async fn add_claim(&self, name: &str, reservation: &str, provider_id: &str) {
        let mut object = claim(name, json!([]));
        object.metadata.finalizers = Some(vec!["karpenter.sh/termination".to_owned()]);
        object.metadata.uid = None;
        object.metadata.labels.get_or_insert_default().extend(reserved_labels(reservation));
        let stored = self.claims().create(&PostParams::default(), &object).await.unwrap();
        let mut with_status = stored.clone();
        with_status.status = Some(serde_json::from_value(json!({ "providerID": provider_id })).unwrap());
        let stored = self.claims().replace_status(name, &PostParams::default(), &with_status).await.unwrap();
        self.0.cluster.lock().apply(TrackedClaim::from(stored));
    }

    fn claims(&self) -> Api<NodeClaim> {
        Api::all(self.0.server.client_as("test"))
    }

    /// Returns the names of claims that are being deleted.
    async fn deleting(&self) -> Vec<String> {
        let all = self.claims().list(&kube::api::ListParams::default()).await.unwrap();
        let deleting = all.items.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_some());
        deleting.filter_map(|claim| claim.metadata.name).collect()
    }

    async fn expire(&self) -> Result<ReconcileAction, String> {
        let controller = CapacityBlockExpiration::new(self.0.provider.context().clone());
        controller.reconcile(&Str::default()).await.map_err(|error| error.to_string())
    }
}

fn reserved_labels(reservation: &str) -> Vec<(String, String)> {
    [
        ("karpenter.sh/capacity-type", "reserved"),
        ("karpenter.k8s.aws/capacity-reservation-id", reservation),
        ("karpenter.k8s.aws/capacity-reservation-type", "default"),
        ("karpenter.k8s.aws/capacity-reservation-interruptible", "false"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

// spec 06 #114, #125
#[tokio::test(start_paused = true)]
async fn spec_06_114_claims_in_an_expiring_capacity_block_are_deleted() {
    let env = ReservedEnv::new().await;
    env.reserve("cr-block", "capacity-block", 40);
    env.reserve("cr-later", "capacity-block", 50);
    env.reserve("cr-default", "default", 10);
    for number in 0..30 {
        env.add_claim(&format!("block-{number:02}"), "cr-block", "").await;
    }
    env.add_claim("later", "cr-later", "").await;
    env.add_claim("default", "cr-default", "").await;
    env.add_claim("unknown", "cr-gone", "").await;
    env.0.aws.clear_calls();
    assert_eq!(env.expire().await, Ok(ReconcileAction::RequeueAfter(MINUTE)));
    // spec 06 #125: one call for each reservation, not for each claim.
    assert_eq!(env.0.operations(), vec!["DescribeCapacityReservations"; 4]);
    let deleting = env.deleting().await;
    assert_eq!(deleting.len(), 30);
    assert!(deleting.iter().all(|name| name.starts_with("block-")), "{deleting:?}");
    tokio::time::advance(Duration::from_mins(10)).await;
    env.expire().await.unwrap();
    assert!(env.deleting().await.contains(&"later".to_owned()));
    assert!(!env.deleting().await.contains(&"default".to_owned()), "a default reservation never expires");
}

// Bad input: EC2 does not answer.
#[tokio::test(start_paused = true)]
async fn a_failed_listing_deletes_nothing_and_is_repeated() {
    let env = ReservedEnv::new().await;
    env.reserve("cr-block", "capacity-block", 1);
    env.add_claim("a", "cr-block", "").await;
    env.0.aws.set_faults(vec![AwsFaultRule::once("DescribeCapacityReservations", AwsFault::Throttled)]);
    let error = env.expire().await.unwrap_err();
    assert!(error.starts_with("listing capacity reservations, "), "{error}");
    assert!(env.deleting().await.is_empty());
    env.expire().await.unwrap();
    assert_eq!(env.deleting().await, ["a"]);
}

/// Returns a registered node with the labels of a reservation.
fn node(name: &str, provider_id: &str, registered: &str) -> Value {
    let mut labels: serde_json::Map<String, Value> =
        reserved_labels("cr-1").into_iter().map(|(key, value)| (key, json!(value))).collect();
    labels.insert("karpenter.sh/registered".to_owned(), json!(registered));
    json!({ "metadata": { "name": name, "labels": labels }, "spec": { "providerID": provider_id } })
}

/// A claim in the reservation `cr-1`, whose instance was launched into it, and its node.
struct ReservedInstance {
    env: ReservedEnv,
    provider_id: String,
}

impl ReservedInstance {
    async fn launch() -> Self {
        let env = ReservedEnv::new().await;
        env.reserve("cr-1", "default", 60);
        env.0.provider.context().reservation_slots.set_free([("cr-1".to_owned(), 40)]);
        env.0.change_class(|class| {
            class["status"]["capacityReservations"] = json!([{
                "id": "cr-1", "availabilityZone": "us-west-2a", "instanceType": "m5.large", "ownerID": "111122223333",
                "instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active",
            }]);
        });
        let launched = claim("a", json!([require("karpenter.sh/capacity-type", &["reserved"])]));
        let instance = env.0.provider.create(&launched).await.unwrap();
        assert_eq!(instance.labels["karpenter.k8s.aws/capacity-reservation-id"], "cr-1");
        tokio::time::advance(MINUTE).await;
        env.add_claim("a", "cr-1", &instance.provider_id).await;
        Self { env, provider_id: instance.provider_id }
    }

    fn nodes(&self) -> Api<k8s_openapi::api::core::v1::Node> {
        Api::all(self.env.0.server.client_as("test"))
    }

    async fn add_node(&self, cluster: &SharedCluster, registered: &str) {
        let object = node("node-a", &self.provider_id, registered);
        let stored: k8s_openapi::api::core::v1::Node = serde_json::from_value(object.clone()).unwrap();
        self.nodes().create(&PostParams::default(), &stored).await.unwrap();
        cluster.lock().apply(serde_json::from_value::<Node>(object).unwrap());
    }

    async fn claim_labels(&self, name: &str) -> BTreeMap<String, String> {
        self.env.claims().get(name).await.unwrap().metadata.labels.unwrap_or_default()
    }

    async fn node_labels(&self) -> BTreeMap<String, String> {
        self.nodes().get("node-a").await.unwrap().metadata.labels.unwrap_or_default()
    }
}

fn assert_on_demand(labels: &BTreeMap<String, String>) {
    assert_eq!(labels["karpenter.sh/capacity-type"], "on-demand");
    assert!(labels.keys().all(|key| !key.contains("capacity-reservation")), "{labels:?}");
}

async fn update(controller: &CapacityTypeUpdate) {
    assert_eq!(controller.reconcile(&Str::default()).await.unwrap(), ReconcileAction::RequeueAfter(MINUTE));
}

// spec 06 #113
#[tokio::test(start_paused = true)]
async fn spec_06_113_a_claim_whose_instance_left_its_reservation_becomes_on_demand() {
    let reserved = ReservedInstance::launch().await;
    let env = &reserved.env;
    env.add_claim("other", "cr-1", "aws:///us-west-2a/i-gone").await;
    reserved.add_node(&env.0.cluster, "false").await;
    let controller = CapacityTypeUpdate::new(env.0.provider.context().clone());
    update(&controller).await;
    assert_eq!(reserved.claim_labels("a").await["karpenter.sh/capacity-type"], "reserved", "in its reservation");
    assert!(env.0.aws.expire_capacity_reservation("cr-1"));
    update(&controller).await;
    assert_on_demand(&reserved.claim_labels("a").await);
    let other = reserved.claim_labels("other").await;
    assert_eq!(other["karpenter.sh/capacity-type"], "reserved", "the instance is unknown");
    let labels = reserved.node_labels().await;
    assert_eq!(labels["karpenter.sh/capacity-type"], "reserved", "the node is not registered yet");
    // A node that registers later is changed on a later run.
    reserved.nodes().delete("node-a", &kube::api::DeleteParams::default()).await.unwrap();
    reserved.add_node(&env.0.cluster, "true").await;
    update(&controller).await;
    assert_on_demand(&reserved.node_labels().await);
}

// spec 06 #126
#[tokio::test(start_paused = true)]
async fn spec_06_126_with_the_gate_off_reserved_claims_and_nodes_become_on_demand() {
    let reserved = ReservedInstance::launch().await;
    let env = &reserved.env;
    // The process restarts with the gate off. The instance is still in its reservation.
    let restarted = env.0.new_process(|settings| settings.reserved_capacity = false).await;
    let context = restarted.context();
    let stored = env.claims().get("a").await.unwrap();
    context.cluster.lock().apply(TrackedClaim::from(stored));
    reserved.add_node(&context.cluster, "true").await;
    update(&CapacityTypeUpdate::new(context.clone())).await;
    assert_on_demand(&reserved.claim_labels("a").await);
    assert_on_demand(&reserved.node_labels().await);
    let instance = &env.0.live_instances()[0].instance;
    assert_eq!(instance.capacity_reservation_id.as_deref(), Some("cr-1"));
}

// Nothing is read from EC2 while nothing is labelled as reserved.
#[tokio::test(start_paused = true)]
async fn without_reserved_claims_no_call_is_made() {
    let env = ReservedEnv::new().await;
    env.0.aws.clear_calls();
    let controller = CapacityTypeUpdate::new(env.0.provider.context().clone());
    controller.reconcile(&Str::default()).await.unwrap();
    env.expire().await.unwrap();
    assert!(env.0.operations().is_empty(), "{:?}", env.0.operations());
}
