//! Tagging on an EC2 and an API server in memory.

use kerf_api::crds::CrdVariant;
use kerf_cloud::CloudProvider as _;
use kerf_sandbox::install_crds;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::*;
use crate::memory::{AwsFault, AwsFaultRule};
use crate::testing::{ProviderEnv, claim, on_demand};

struct TaggingEnv {
    env: ProviderEnv,
    client: Client,
    controller: NodeClaimTagging,
}

impl TaggingEnv {
    /// Creates the claim `a` with an instance and a node.
    async fn new() -> Self {
        let env = ProviderEnv::new().await;
        let client = env.server.client_as("test");
        install_crds(&client, CrdVariant::Aws).await.unwrap();
        let claim = claim("a", json!([on_demand()]));
        let instance = env.provider.create(&claim).await.unwrap();
        let claims: Api<NodeClaim> = Api::all(client.clone());
        claims.create(&PostParams::default(), &claim).await.unwrap();
        let controller = NodeClaimTagging { context: env.provider.context().clone() };
        let tagging = Self { env, client, controller };
        tagging.set_status(json!({ "providerID": instance.provider_id, "nodeName": "ip-10-0-0-1" })).await;
        tagging
    }

    /// Writes the status of the claim and puts the claim into cluster state.
    async fn set_status(&self, status: Value) {
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": status }));
        let claim = claims.patch_status("a", &PatchParams::default(), &patch).await.unwrap();
        self.env.cluster.lock().reset(vec![TrackedClaim::from(claim)]);
    }

    /// Reconciles the claim and returns the operations that were called.
    async fn reconcile(&self) -> Result<Vec<&'static str>, TaggingError> {
        self.env.aws.clear_calls();
        self.controller.reconcile(&Str::new_static("a")).await?;
        Ok(self.env.operations())
    }

    fn tags(&self) -> Tags {
        self.env.aws.instances()[0].instance.tags.clone()
    }

    async fn annotations(&self) -> Vec<String> {
        let claims: Api<NodeClaim> = Api::all(self.client.clone());
        let annotations = claims.get("a").await.unwrap().metadata.annotations.unwrap_or_default();
        annotations.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

// spec 06 §13
#[tokio::test(start_paused = true)]
async fn an_instance_is_tagged_with_the_names_of_claim_and_node() {
    let tagging = TaggingEnv::new().await;
    let started = tokio::time::Instant::now();
    assert_eq!(tagging.reconcile().await.unwrap(), ["DescribeInstances", "CreateTags"]);
    assert!(started.elapsed() >= PAUSE_AFTER_TAGGING, "at most one call per second");
    assert_eq!(tagging.tags()["Name"], "ip-10-0-0-1");
    assert_eq!(tagging.tags()["karpenter.sh/nodeclaim"], "a");
    assert_eq!(
        tagging.annotations().await,
        ["compatibility.karpenter.k8s.aws/cluster-name-tagged=true", "karpenter.k8s.aws/tagged=true"]
    );
    // The list names the claim by the tag.
    assert_eq!(tagging.env.provider.list().await.unwrap()[0].claim.as_deref(), Some("a"));
    tagging.set_status(json!({})).await;
    assert_eq!(tagging.reconcile().await.unwrap(), Vec::<&str>::new(), "it is tagged already");
}

// spec 06 #107
#[tokio::test(start_paused = true)]
async fn claims_without_a_node_or_a_valid_id_are_not_tagged() {
    let tagging = TaggingEnv::new().await;
    tagging.set_status(json!({ "nodeName": null })).await;
    assert_eq!(tagging.reconcile().await.unwrap(), Vec::<&str>::new());
    tagging.set_status(json!({ "nodeName": "n", "providerID": "nonsense" })).await;
    assert_eq!(tagging.reconcile().await.unwrap(), Vec::<&str>::new());
    let mut deleting = claim("a", json!([]));
    deleting.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    deleting.status = serde_json::from_value(json!({ "nodeName": "n" })).unwrap();
    assert!(!is_taggable(&deleting));
    assert_eq!(tagging.annotations().await, Vec::<String>::new());
}

// spec 06 #108
#[tokio::test(start_paused = true)]
async fn a_tag_of_the_user_is_kept() {
    let tagging = TaggingEnv::new().await;
    let id = tagging.env.aws.instances()[0].instance.id.clone();
    let custom = Tags::from([("Name".to_owned(), "custom".to_owned())]);
    tagging.env.aws.ports().ec2.create_tags(vec![id], custom).await.unwrap();
    tagging.reconcile().await.unwrap();
    assert_eq!(tagging.tags()["Name"], "custom");
    assert_eq!(tagging.tags()["karpenter.sh/nodeclaim"], "a");
}

// spec 06 #109
#[tokio::test(start_paused = true)]
async fn a_missing_instance_is_no_error_and_is_not_recorded() {
    let tagging = TaggingEnv::new().await;
    tagging.set_status(json!({ "providerID": "aws:///us-west-2a/i-0123456789abcdef0" })).await;
    tagging.reconcile().await.unwrap();
    assert_eq!(tagging.annotations().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_an_error_with_the_fields_of_aws() {
    let tagging = TaggingEnv::new().await;
    let fault = AwsFault::Error { status: 403, code: "UnauthorizedOperation".into(), message: "No.".into() };
    tagging.env.aws.set_faults(vec![AwsFaultRule::always("CreateTags", fault)]);
    let error = tagging.reconcile().await.unwrap_err();
    assert!(error.to_string().contains("api error UnauthorizedOperation: No."), "{error}");
    assert!(error.log_fields().contains(&("aws-operation-name".to_owned(), json!("CreateTags"))));
    assert_eq!(tagging.annotations().await, Vec::<String>::new());
}
