//! Metrics of a provider whose calls fail in every possible way.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::{
    CloudProvider, CreateError, DriftError, Instance, InstanceError, InstanceTypesError, ListError, NodeClassKind,
    RepairPolicy,
};
use kerf_engine::catalogue::InstanceTypes;
use kerf_runtime::Clock;

use super::*;

struct FailingProvider(LabelRules);

impl CloudProvider for FailingProvider {
    fn name(&self) -> &'static str {
        "test"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &[]
    }

    fn label_rules(&self) -> &LabelRules {
        &self.0
    }

    /// The claim's name selects the error.
    fn create<'a>(&'a self, claim: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        let error = match claim.metadata.name.as_deref() {
            Some("capacity") => CreateError::InsufficientCapacity("x".into()),
            Some("class") => CreateError::NodeClassNotReady("x".into()),
            _ => CreateError::Other("x".into()),
        };
        async { Err(error) }.boxed()
    }

    fn delete<'a>(&'a self, _: &'a str, _: Option<&'a NodeClaim>) -> BoxFuture<'a, Result<(), InstanceError>> {
        async { Err(InstanceError::NotFound("x".into())) }.boxed()
    }

    fn get<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        async { Err(InstanceError::Other("x".into())) }.boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn instance_types<'a>(&'a self, _: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        async { Ok([offerings::instance_type("t", &[("spot", "z", 1, true)])].into_iter().collect()) }.boxed()
    }

    fn drift<'a>(&'a self, _: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        async { Ok(None) }.boxed()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &[]
    }
}

// spec 07 #46, spec 10 #105
#[tokio::test(start_paused = true)]
async fn error_classes_that_controllers_handle_have_a_label_value() {
    let metrics = Arc::new(Metrics::new());
    let cloud = MeteredProvider::new(
        Arc::new(FailingProvider(LabelRules::kwok())),
        metrics.clone(),
        Clock::starting_at(noon()),
    );
    let claim = |name: &str| -> NodeClaim {
        serde_json::from_value(
            json!({"metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "a"}}, "spec": {"requirements": [],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}),
        )
        .unwrap()
    };
    for name in ["capacity", "class", "other"] {
        assert!(cloud.create(&claim(name)).await.is_err());
    }
    assert!(
        cloud.delete("i", Some(&claim("i"))).await.is_err()
            && cloud.get("i").await.is_err()
            && cloud.list().await.is_ok()
    );
    let count =
        |method: &str, error: &str, pool: &str| metrics.cloudprovider_errors.get(&["", method, "test", error, pool]);
    for (method, error, pool) in [
        ("Create", "InsufficientCapacityError", "a"),
        ("Create", "NodeClassNotReadyError", "a"),
        ("Create", "unknown", "a"),
        ("Delete", "NodeClaimNotFoundError", "a"),
        ("Get", "unknown", ""),
    ] {
        assert!((count(method, error, pool) - 1.0).abs() < f64::EPSILON, "{method} {error:?}");
    }
    assert!(count("List", "unknown", "").abs() < f64::EPSILON);
    assert_eq!(metrics.cloudprovider_duration.count(&["", "Create", "test"]), 3);
    let pool = json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"requirements": [],
        "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}});
    let cluster = SharedCluster::default();
    apply_object::<NodePool>(&cluster, pool.clone());
    assert!(cloud.instance_types(&serde_json::from_value(pool).unwrap()).await.is_ok());
    let text = state_metrics_at(&cluster, &metrics, noon());
    assert!(
        text.contains("offering_price_estimate{instance_type=\"t\",capacity_type=\"spot\",zone=\"z\"} 0.01\n"),
        "{text}"
    );
}
