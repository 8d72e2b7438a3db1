//! Instances that end or run without becoming nodes.

use kerf_cloud::CloudProvider as _;
use serde_json::json;

use super::*;
use crate::memory::{AwsFault, AwsFaultRule};
use crate::testing::{ProviderEnv, claim, on_demand};

struct UnregisteredEnv {
    env: ProviderEnv,
    controller: UnregisteredInstances,
}

impl UnregisteredEnv {
    async fn new() -> Self {
        let env = ProviderEnv::new().await;
        let controller = UnregisteredInstances::new(env.provider.context().clone());
        Self { env, controller }
    }

    /// Launches an instance for a claim. Returns the ID and the claim, which is in cluster state.
    async fn launch(&self, name: &str) -> (String, NodeClaim) {
        let mut launched = claim(name, json!([on_demand()]));
        let instance = self.env.provider.create(&launched).await.unwrap();
        launched.status = Some(serde_json::from_value(json!({ "providerID": instance.provider_id })).unwrap());
        let launched = with_condition(launched, "Launched");
        self.set(&launched);
        (parse_provider_id(&instance.provider_id).unwrap().to_owned(), launched)
    }

    fn set(&self, claim: &NodeClaim) {
        self.env.cluster.lock().apply(TrackedClaim::from(claim.clone()));
    }

    async fn run(&self) -> Result<ReconcileAction, String> {
        self.controller.reconcile(&Str::default()).await.map_err(|error| error.to_string())
    }
}

fn with_condition(mut claim: NodeClaim, kind: &str) -> NodeClaim {
    let condition = json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    claim.status.get_or_insert_default().conditions.push(serde_json::from_value(condition).unwrap());
    claim
}

// spec 06 #134
#[tokio::test(start_paused = true)]
async fn spec_06_134_an_instance_that_starts_and_dies_has_its_state_reason_in_an_event() {
    let env = UnregisteredEnv::new().await;
    let (key, _) = env.launch("key").await;
    let (volume, _) = env.launch("volume").await;
    env.launch("fine").await;
    assert!(env.env.aws.fail_instance(&key, "Client.InvalidKMSKey.InvalidState"));
    assert!(env.env.aws.fail_instance(&volume, "Client.VolumeLimitExceeded"));
    tokio::time::advance(Duration::from_mins(2)).await;
    assert_eq!(env.run().await, Ok(ReconcileAction::RequeueAfter(INTERVAL)));
    env.run().await.unwrap();
    let mut texts = env.env.events.texts();
    texts.sort();
    let [key, volume] = [key, volume].map(|id| format!("EC2 ended instance {id} before it became a node"));
    assert_eq!(
        texts,
        [
            format!(
                "NodeClaim/key Warning \"InstanceFailed\" {key}: Client.InvalidKMSKey.InvalidState \
                 (check that the KMS key of the volumes is enabled and that EC2 may use it)"
            ),
            format!(
                "NodeClaim/volume Warning \"InstanceFailed\" {volume}: Client.VolumeLimitExceeded \
                 (the account's EBS volume quota is used up: delete volumes or request a higher quota)"
            ),
        ],
        "each is published once"
    );
}

// spec 06 #134: the claim is deleted before the controller runs.
#[tokio::test(start_paused = true)]
async fn the_event_is_published_when_the_claim_of_a_dead_instance_is_deleted() {
    let env = UnregisteredEnv::new().await;
    let (id, mut launched) = env.launch("key").await;
    let (running, _) = env.launch("deleted").await;
    assert!(env.env.aws.fail_instance(&id, "Client.InvalidKMSKey.InvalidState"));
    // Long enough for EC2 to show the instance as terminated.
    tokio::time::advance(Duration::from_mins(5)).await;
    launched.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(env.env.clock.now()));
    let provider_id = launched.status.as_ref().unwrap().provider_id.clone().unwrap();
    env.env.provider.delete(&provider_id, Some(&launched)).await.unwrap_err();
    let texts = env.env.events.texts();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].contains("InstanceFailed") && texts[0].contains("InvalidKMSKey"), "{texts:?}");
    // An instance that the provider terminates itself is no failure, and costs no further call.
    let own = format!("aws:///us-west-2a/{running}");
    env.env.provider.delete(&own, Some(&launched)).await.unwrap();
    tokio::time::advance(Duration::from_mins(5)).await;
    env.env.aws.clear_calls();
    env.env.provider.delete(&own, Some(&launched)).await.unwrap_err();
    assert_eq!(env.env.operations(), ["DescribeInstances", "DescribeInstances"], "batched and single");
    assert_eq!(env.env.events.texts().len(), 1);
}

// spec 06 #134: the recorder of Events drops what was published within two minutes; this process
// publishes the Event once, whatever the time between the controller's run and the deletions.
#[tokio::test(start_paused = true)]
async fn spec_06_134_the_controller_and_the_deletion_of_the_claim_publish_one_event_together() {
    let env = UnregisteredEnv::new().await;
    let (id, mut launched) = env.launch("key").await;
    let (second_id, mut second) = env.launch("volume").await;
    assert!(env.env.aws.fail_instance(&id, "Client.InvalidKMSKey.InvalidState"));
    env.run().await.unwrap();
    assert_eq!(env.env.events.texts().len(), 1);
    assert!(env.env.aws.fail_instance(&second_id, "Client.VolumeLimitExceeded"));
    // The deletion notices the second instance first, and is repeated while the claim exists.
    for claim in [&mut launched, &mut second] {
        claim.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(env.env.clock.now()));
        env.set(claim);
        let provider_id = claim.status.as_ref().unwrap().provider_id.clone().unwrap();
        for _ in 0..4 {
            tokio::time::advance(Duration::from_mins(3)).await;
            let _ = env.env.provider.delete(&provider_id, Some(claim)).await;
        }
        env.run().await.unwrap();
    }
    let texts = env.env.events.texts();
    assert_eq!(texts.iter().filter(|text| text.contains("InvalidKMSKey")).count(), 1, "{texts:?}");
    assert_eq!(texts.iter().filter(|text| text.contains("VolumeLimitExceeded")).count(), 1, "{texts:?}");
}

// spec 06 #135
#[tokio::test(start_paused = true)]
async fn spec_06_135_an_instance_that_runs_without_a_node_has_an_event_that_names_what_to_check() {
    let env = UnregisteredEnv::new().await;
    let (id, launched) = env.launch("a").await;
    let (_, registered) = env.launch("b").await;
    env.set(&with_condition(registered, "Registered"));
    env.env.aws.run_pending_instances();
    tokio::time::advance(NOT_REGISTERED_AFTER.saturating_sub(Duration::from_secs(1))).await;
    env.run().await.unwrap();
    assert!(env.env.events.texts().is_empty());
    tokio::time::advance(Duration::from_secs(1)).await;
    env.run().await.unwrap();
    env.run().await.unwrap();
    let texts = env.env.events.texts();
    assert_eq!(texts.len(), 1, "{texts:?}");
    insta::assert_snapshot!(texts[0].replace(&id, "<id>"));
    // A claim that registers and its like are forgotten.
    env.set(&with_condition(launched, "Registered"));
    env.env.aws.clear_calls();
    env.run().await.unwrap();
    assert!(env.env.operations().is_empty());
    assert!(env.env.provider.context().published_claim_events.is_empty());
}

// Bad input: EC2 does not answer.
#[tokio::test(start_paused = true)]
async fn a_failed_description_is_repeated() {
    let env = UnregisteredEnv::new().await;
    env.launch("a").await;
    env.env.aws.set_faults(vec![AwsFaultRule::once("DescribeInstances", AwsFault::Throttled)]);
    let error = env.run().await.unwrap_err();
    assert!(error.starts_with("describing instances of unregistered nodeclaims, "), "{error}");
    env.run().await.unwrap();
}
