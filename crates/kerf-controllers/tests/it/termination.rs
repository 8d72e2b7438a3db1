//! Termination of nodes (spec 04 §7): the order of steps, what blocks them, and what remains.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kerf_api::labels::LabelRules;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_cloud::{
    CloudProvider, CreateError, DriftError, Instance, InstanceError, InstanceTypesError, ListError, NodeClassKind,
    RepairPolicy,
};
use kerf_engine::catalogue::InstanceTypes;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_env::{TestEnv, claim_condition, merge};

/// A cloud whose instances terminate after a number of requests that the test sets.
struct CountdownCloud {
    /// By instance, the number of termination requests that still return "in progress".
    requests_left: Mutex<BTreeMap<String, u32>>,
    /// All termination requests.
    deletions: Mutex<Vec<String>>,
    rules: LabelRules,
}

const NODE_CLASS_KINDS: &[NodeClassKind] = &[NodeClassKind {
    group: "karpenter.kwok.sh",
    version: "v1alpha1",
    kind: "KWOKNodeClass",
    plural: "kwoknodeclasses",
}];

impl CountdownCloud {
    fn new() -> Self {
        Self { requests_left: Mutex::default(), deletions: Mutex::default(), rules: LabelRules::kwok() }
    }

    fn add_instance(&self, id: &str, requests: u32) {
        self.requests_left.lock().unwrap().insert(id.to_owned(), requests);
    }

    fn deletion_count(&self) -> usize {
        self.deletions.lock().unwrap().len()
    }

    fn not_found() -> InstanceError {
        InstanceError::NotFound("no such instance".into())
    }
}

impl CloudProvider for CountdownCloud {
    fn name(&self) -> &'static str {
        "test"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        NODE_CLASS_KINDS
    }

    fn label_rules(&self) -> &LabelRules {
        &self.rules
    }

    fn create<'a>(&'a self, _: &'a NodeClaim) -> BoxFuture<'a, Result<Instance, CreateError>> {
        ready(Err(CreateError::Other("this provider creates no instances".into()))).boxed()
    }

    fn delete<'a>(
        &'a self,
        provider_id: &'a str,
        _: Option<&'a NodeClaim>,
    ) -> BoxFuture<'a, Result<(), InstanceError>> {
        self.deletions.lock().unwrap().push(provider_id.to_owned());
        let mut requests_left = self.requests_left.lock().unwrap();
        let outcome = match requests_left.get_mut(provider_id) {
            None => Err(Self::not_found()),
            Some(0) => {
                requests_left.remove(provider_id);
                Err(Self::not_found())
            }
            Some(requests) => {
                *requests -= 1;
                Ok(())
            }
        };
        ready(outcome).boxed()
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        let known = self.requests_left.lock().unwrap().contains_key(provider_id);
        let instance = Instance { provider_id: provider_id.to_owned(), ..Instance::default() };
        ready(if known { Ok(instance) } else { Err(Self::not_found()) }).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        let requests_left = self.requests_left.lock().unwrap();
        let instance = |id: &String| Instance { provider_id: id.clone(), ..Instance::default() };
        ready(Ok(requests_left.keys().map(instance).collect())).boxed()
    }

    fn instance_types<'a>(&'a self, _: &'a NodePool) -> BoxFuture<'a, Result<InstanceTypes, InstanceTypesError>> {
        ready(Ok(InstanceTypes::default())).boxed()
    }

    fn drift<'a>(&'a self, _: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        ready(Ok(None)).boxed()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &[]
    }
}

/// A cluster with one node `n`, its instance `m` and its claim `c`.
struct TerminationEnv {
    env: TestEnv,
    cloud: Arc<CountdownCloud>,
}

impl TerminationEnv {
    /// Creates the cluster. No kubelet runs: a deleted pod stays until the test removes it.
    async fn new(claim: Value) -> Self {
        let test = Self::empty().await;
        test.cloud.add_instance("m", 0);
        test.create_claim("c", "m", claim).await;
        test.create_node("n", "m").await;
        test.env.wait(1).await;
        test
    }

    async fn empty() -> Self {
        let cloud = Arc::new(CountdownCloud::new());
        let env = TestEnv::without_controllers().await.start_controllers(cloud.clone()).await;
        Self { env, cloud }
    }

    async fn create_node(&self, name: &str, provider_id: &str) {
        let node = json!({
            "metadata": {"name": name, "finalizers": ["karpenter.sh/termination"], "labels": {
                "karpenter.sh/nodepool": "general", "karpenter.kwok.sh/kwoknodeclass": "default",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                "node.kubernetes.io/instance-type": "s", "topology.kubernetes.io/zone": "zone-a"}},
            "spec": {"providerID": provider_id},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
        });
        self.env.create::<Node>(node).await;
        self.env.make_ready(name).await;
    }

    async fn create_claim(&self, name: &str, provider_id: &str, spec: Value) {
        self.env.create_claim(name, spec).await;
        self.env.patch::<NodeClaim>(name, json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}})).await;
        let at = self.env.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at, "observedGeneration": 1});
        let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"].map(condition).into();
        self.env
            .patch_status::<NodeClaim>(
                name,
                json!({"providerID": provider_id, "nodeName": "n", "conditions": conditions}),
            )
            .await;
    }

    /// Creates a running pod on the node. `change` is merged into the pod.
    async fn create_pod(&self, name: &str, change: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        merge(&mut pod, change);
        self.env.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.set_phase(name, "Running").await;
    }

    async fn set_phase(&self, name: &str, phase: &str) {
        let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}});
        self.env.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Removes a pod, as a kubelet would in the end.
    async fn remove_pod(&self, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.env.pods().delete(name, &now).await.unwrap();
    }

    async fn delete_node(&self) {
        self.env.api::<Node>().delete("n", &DeleteParams::default()).await.unwrap();
    }

    async fn get_node(&self) -> Option<Node> {
        self.env.api::<Node>().get_opt("n").await.unwrap()
    }

    async fn get_claim(&self) -> Option<NodeClaim> {
        self.env.api::<NodeClaim>().get_opt("c").await.unwrap()
    }

    async fn get_pod(&self, name: &str) -> Option<Pod> {
        self.env.pods().get_opt(name).await.unwrap()
    }

    /// Returns true if the pod has a deletion timestamp.
    async fn is_deleting(&self, name: &str) -> bool {
        self.get_pod(name).await.unwrap().metadata.deletion_timestamp.is_some()
    }

    /// Returns those of the pods that have a deletion timestamp.
    async fn deleting_pods<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        let mut deleting = Vec::new();
        for name in names {
            if let Some(pod) = self.get_pod(name).await
                && pod.metadata.deletion_timestamp.is_some()
            {
                deleting.push(*name);
            }
        }
        deleting
    }

    /// Creates a PodDisruptionBudget for a pod that allows this many evictions.
    async fn create_pdb(&self, name: &str, pod: &str, allowed: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.env.client.clone());
        let budget =
            json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": pod}}}});
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        self.set_allowed_disruptions(name, allowed).await;
    }

    async fn set_allowed_disruptions(&self, budget: &str, allowed: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.env.client.clone());
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        budgets.patch_status(budget, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    fn eviction_count(&self, code: &str) -> f64 {
        self.env.metrics.pods_eviction_requests.get(&[code])
    }
}

fn owned_by_daemonset(name: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "d", "controller": true}]}})
}

// spec 04 #84 and #104
#[tokio::test(start_paused = true)]
async fn deleting_a_node_deletes_its_claim_and_instance_and_is_counted_once() {
    let test = TerminationEnv::new(json!({})).await;
    test.cloud.add_instance("m", 2);
    test.delete_node().await;
    test.env.wait(1).await;
    assert!(test.get_claim().await.unwrap().metadata.deletion_timestamp.is_some());
    test.env.wait(7).await;
    let claim = test.get_claim().await.unwrap();
    assert_eq!(claim_condition(&claim, "Drained"), "True/Drained");
    assert_eq!(claim_condition(&claim, "VolumesDetached"), "True/VolumesDetached");
    assert_eq!(claim_condition(&claim, "InstanceTerminating"), "True/InstanceTerminating");
    assert_eq!(claim_condition(&claim, "Ready"), "True/Ready");
    assert!(test.get_node().await.is_some(), "the instance still exists");
    test.env.wait(15).await;
    assert!(test.get_node().await.is_none() && test.get_claim().await.is_none());
    let metrics = &test.env.metrics;
    assert_eq!(metrics.nodes_terminated.get(&["general", "zone-a"]), 1.0);
    assert_eq!(metrics.nodes_drained.get(&["general"]), 1.0);
    assert_eq!(metrics.nodes_termination_duration.count(&["general"]), 1);
    assert_eq!(metrics.nodes_lifetime_duration.count(&["general"]), 1);
}

// spec 04 #84: no claim, or two of them.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_claim_is_drained_at_once_without_cloud_requests() {
    for claims in [0, 2] {
        let test = TerminationEnv::empty().await;
        test.cloud.add_instance("m", 0);
        for i in 0..claims {
            test.create_claim(&format!("c{i}"), "m", json!({})).await;
        }
        test.create_node("n", "m").await;
        test.create_pod("p", json!({})).await;
        test.env.wait(1).await;
        test.delete_node().await;
        test.env.wait(2).await;
        assert!(test.is_deleting("p").await);
        test.remove_pod("p").await;
        test.env.wait(2).await;
        assert!(test.get_node().await.is_none(), "{claims} claims");
        assert_eq!(test.cloud.deletion_count(), 0, "{claims} claims");
    }
}

// spec 04 #85
#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_is_ignored() {
    let test = TerminationEnv::empty().await;
    test.create_node("n", "m").await;
    test.env.patch::<Node>("n", json!({"metadata": {"labels": {"karpenter.kwok.sh/kwoknodeclass": null}}})).await;
    test.create_pod("p", json!({})).await;
    test.env.wait(1).await;
    test.delete_node().await;
    test.env.wait(30).await;
    let node = test.get_node().await.unwrap();
    assert!(node.spec.unwrap().taints.unwrap_or_default().iter().all(|taint| taint.key != "karpenter.sh/disrupted"));
    assert!(!test.is_deleting("p").await);
}

// spec 04 #86 and #91
#[tokio::test(start_paused = true)]
async fn a_pdb_blocks_the_drain_but_not_the_taint() {
    let test = TerminationEnv::new(json!({})).await;
    test.create_pod("p", json!({})).await;
    test.create_pdb("b", "p", 0).await;
    test.delete_node().await;
    test.env.wait(1).await;
    let node = test.get_node().await.unwrap();
    let taint = node.spec.unwrap().taints.unwrap().remove(0);
    assert_eq!(
        (taint.key.as_str(), taint.effect.as_str(), taint.value),
        ("karpenter.sh/disrupted", "NoSchedule", None)
    );
    assert_eq!(node.metadata.labels.unwrap()["node.kubernetes.io/exclude-from-external-load-balancers"], "karpenter");
    test.env.wait(60).await;
    assert!(!test.is_deleting("p").await);
    assert_eq!(claim_condition(&test.get_claim().await.unwrap(), "Drained"), "Unknown/Draining");
    assert!(test.eviction_count("429") >= 8.0, "{}", test.eviction_count("429"));
    let events = test.env.events("FailedDraining");
    assert_eq!(events, [("n".to_owned(), "Failed to drain node, 1 pods are waiting to be evicted".to_owned())]);
    test.set_allowed_disruptions("b", 1).await;
    test.env.wait(11).await;
    assert!(test.is_deleting("p").await, "the pod stayed in the eviction queue");
}

// spec 04 #87
#[tokio::test(start_paused = true)]
async fn an_empty_node_waits_five_seconds_for_late_pods() {
    let test = TerminationEnv::new(json!({})).await;
    test.delete_node().await;
    test.env.wait(4).await;
    assert_eq!(claim_condition(&test.get_claim().await.unwrap(), "Drained"), "Unknown/Draining");
    assert_eq!(test.cloud.deletion_count(), 0);
    test.env.wait(3).await;
    assert!(test.get_node().await.is_none());
}

// spec 04 #88
#[tokio::test(start_paused = true)]
async fn tolerating_static_and_terminal_pods_are_ignored() {
    let test = TerminationEnv::new(json!({})).await;
    let tolerating = |operator: &str| json!({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": operator, "effect": "NoSchedule"}]}});
    test.create_pod("equal", tolerating("Equal")).await;
    test.create_pod("exists", tolerating("Exists")).await;
    let mirror =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}});
    test.create_pod("mirror", mirror).await;
    test.create_pod("done", json!({})).await;
    test.set_phase("done", "Succeeded").await;
    test.delete_node().await;
    test.env.wait(10).await;
    assert!(test.get_node().await.is_none());
    assert!(test.deleting_pods(&["equal", "exists", "mirror", "done"]).await.is_empty());
}

// spec 04 #89
#[tokio::test(start_paused = true)]
async fn a_pod_without_owner_and_one_that_tolerates_a_cordon_are_evicted() {
    let test = TerminationEnv::new(json!({})).await;
    test.create_pod("plain", json!({})).await;
    let cordon = json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}});
    test.create_pod("cordon", cordon).await;
    test.delete_node().await;
    test.env.wait(2).await;
    assert_eq!(test.deleting_pods(&["plain", "cordon"]).await, ["plain", "cordon"]);
}

// spec 04 #90
#[tokio::test(start_paused = true)]
async fn pods_are_evicted_tier_by_tier() {
    let test = TerminationEnv::new(json!({})).await;
    let critical = json!({"spec": {"priorityClassName": "system-cluster-critical"}});
    let mut critical_daemon = owned_by_daemonset("b");
    merge(&mut critical_daemon, json!({"spec": {"priorityClassName": "system-node-critical"}}));
    for (name, change) in [("d", critical_daemon), ("c", critical), ("b", owned_by_daemonset("a")), ("a", json!({}))] {
        test.create_pod(name, change).await;
    }
    test.delete_node().await;
    for tier in ["a", "b", "c", "d"] {
        test.env.wait(20).await;
        assert_eq!(
            test.deleting_pods(&["a", "b", "c", "d"]).await,
            [tier],
            "a tier waits until the tier before it is evicted"
        );
        test.remove_pod(tier).await;
    }
    test.env.wait(5).await;
    assert!(test.get_node().await.is_none());
}

// spec 04 #92
#[tokio::test(start_paused = true)]
async fn two_pdbs_on_one_pod_block_its_eviction() {
    let test = TerminationEnv::new(json!({})).await;
    test.create_pod("p", json!({})).await;
    test.create_pdb("one", "p", 1).await;
    test.create_pdb("two", "p", 1).await;
    test.delete_node().await;
    test.env.wait(30).await;
    assert!(test.eviction_count("500") >= 5.0 && !test.is_deleting("p").await);
    assert_eq!(test.env.events("FailedDraining").len(), 1);
}

// spec 04 #93
#[tokio::test(start_paused = true)]
async fn an_eviction_event_names_the_reason() {
    let test = TerminationEnv::new(json!({})).await;
    let mut conditions = test.get_claim().await.unwrap().status.unwrap().conditions;
    let mut reason = conditions[0].clone();
    "DisruptionReason".clone_into(&mut reason.condition_type);
    "SpotInterruption".clone_into(&mut reason.reason);
    conditions.push(reason);
    test.env.patch_status::<NodeClaim>("c", json!({ "conditions": conditions })).await;
    test.create_pod("p", json!({})).await;
    test.delete_node().await;
    test.env.wait(2).await;
    assert_eq!(test.eviction_count("200"), 1.0);
    assert_eq!(test.env.metrics.pods_drained.get(&["SpotInterruption"]), 1.0);
    assert_eq!(test.env.events("Evicted"), [("p".to_owned(), "Evicted pod: SpotInterruption".to_owned())]);

    let plain = TerminationEnv::new(json!({})).await;
    plain.create_pod("p", json!({})).await;
    plain.delete_node().await;
    plain.env.wait(2).await;
    assert_eq!(plain.env.metrics.pods_drained.get(&["Forceful Termination"]), 1.0);
}

fn do_not_disrupt() -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
}

// spec 04 #94
#[tokio::test(start_paused = true)]
async fn a_protected_pod_blocks_the_drain_until_the_deadline() {
    let forever = TerminationEnv::new(json!({})).await;
    forever.create_pod("p", do_not_disrupt()).await;
    forever.delete_node().await;
    forever.env.wait(3600).await;
    assert!(!forever.is_deleting("p").await && forever.get_node().await.is_some());

    let test = TerminationEnv::new(json!({"terminationGracePeriod": "300s"})).await;
    let mut pod_spec = do_not_disrupt();
    merge(&mut pod_spec, json!({"spec": {"terminationGracePeriodSeconds": 60}}));
    test.create_pod("p", pod_spec).await;
    test.delete_node().await;
    test.env.wait(238).await;
    assert!(!test.is_deleting("p").await);
    test.env.wait(5).await;
    let pod = test.get_pod("p").await.unwrap();
    assert!((56..=60).contains(&pod.metadata.deletion_grace_period_seconds.unwrap()), "{:?}", pod.metadata);
    let events = test.env.events("Disrupted");
    assert!(
        events[0].1.starts_with("Deleting the pod to accommodate the terminationTime 2026-01-01 00:05:0"),
        "{events:?}"
    );
    assert!(events[0].1.ends_with("of grace-period of its 60 terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation."));
    let expiring = test.env.events("TerminationGracePeriodExpiring");
    assert!(expiring.iter().any(
        |(object, message)| object == "n" && message.starts_with("All pods will be deleted by 2026-01-01T00:05:0")
    ));
}

// spec 04 #94: on time, however often evictions were refused, and also if an earlier tier is not
// done.
#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_evicted_is_deleted_when_its_grace_period_must_begin() {
    let test = TerminationEnv::new(json!({"terminationGracePeriod": "40s"})).await;
    let graceful = |seconds: u32, mut pod: Value| {
        merge(&mut pod, json!({"spec": {"terminationGracePeriodSeconds": seconds}}));
        pod
    };
    test.create_pod("protected", graceful(5, do_not_disrupt())).await;
    test.create_pod("budgeted", graceful(7, json!({}))).await;
    test.create_pdb("b", "budgeted", 0).await;
    test.create_pod("critical", graceful(9, json!({"spec": {"priorityClassName": "system-cluster-critical"}}))).await;
    test.delete_node().await;
    // Not at a second at which anything else happens.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let annotations = test.get_claim().await.unwrap().metadata.annotations.unwrap();
    let deadline: Timestamp = annotations["karpenter.sh/nodeclaim-termination-timestamp"].parse().unwrap();
    for (pod, grace) in [("critical", 9), ("budgeted", 7), ("protected", 5)] {
        let latest = deadline - SignedDuration::from_secs(grace);
        let left = latest.duration_since(test.env.clock.now());
        tokio::time::sleep(Duration::try_from(left).unwrap()).await;
        assert!(!test.is_deleting(pod).await, "{pod} is not deleted before its grace period must begin");
        tokio::time::sleep(Duration::from_millis(2)).await;
        let seconds = test.get_pod(pod).await.unwrap().metadata.deletion_grace_period_seconds;
        assert_eq!(seconds, Some(grace - 1), "{pod} gets all remaining whole seconds");
    }
}

// spec 04 #95 and #96
#[tokio::test(start_paused = true)]
async fn a_pod_whose_grace_period_exceeds_the_nodes_is_deleted_at_once() {
    let test = TerminationEnv::new(json!({"terminationGracePeriod": "300s"})).await;
    let seconds = |seconds: u32| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "spec": {"terminationGracePeriodSeconds": seconds}});
    test.create_pod("equal", seconds(300)).await;
    test.create_pod("longer", seconds(600)).await;
    let mut critical = seconds(600);
    merge(&mut critical, json!({"spec": {"priorityClassName": "system-cluster-critical"}}));
    test.create_pod("critical", critical).await;
    test.create_pod("short", seconds(60)).await;
    test.delete_node().await;
    test.env.wait(4).await;
    assert_eq!(test.deleting_pods(&["equal", "longer", "critical", "short"]).await, ["equal", "longer", "critical"]);
}

// spec 04 #97, #98 and #99
#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_added_later_or_has_passed_is_enforced() {
    let test = TerminationEnv::new(json!({})).await;
    test.create_pod("going", json!({"spec": {"terminationGracePeriodSeconds": 3600}})).await;
    test.create_pod("stays", do_not_disrupt()).await;
    test.delete_node().await;
    test.env.wait(5).await;
    let seconds = |pod: Option<Pod>| pod.unwrap().metadata.deletion_grace_period_seconds;
    assert_eq!(seconds(test.get_pod("going").await), Some(3600));
    assert!(!test.is_deleting("stays").await);
    let past =
        json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2025-12-31T23:00:00Z"}}});
    test.env.patch::<NodeClaim>("c", past).await;
    test.env.wait(2).await;
    assert_eq!(seconds(test.get_pod("stays").await), Some(1), "a grace period is never zero");
    assert_eq!(seconds(test.get_pod("going").await), Some(1), "a grace period that is too long is shortened");
}

// spec 04 #100
#[tokio::test(start_paused = true)]
async fn another_pod_of_the_same_name_is_not_evicted() {
    let test = TerminationEnv::new(json!({})).await;
    test.create_pod("p", json!({})).await;
    test.create_pdb("b", "p", 0).await;
    test.delete_node().await;
    test.env.wait(5).await;
    assert!(test.eviction_count("429") > 0.0);
    test.remove_pod("p").await;
    test.create_pod("p", json!({"spec": {"nodeName": "elsewhere"}})).await;
    test.set_allowed_disruptions("b", 1).await;
    test.env.wait(60).await;
    assert!(!test.is_deleting("p").await);
}

// spec 04 #101
#[tokio::test(start_paused = true)]
async fn a_stuck_pod_blocks_the_drain_for_one_minute() {
    let test = TerminationEnv::new(json!({})).await;
    test.create_pod("p", json!({"spec": {"terminationGracePeriodSeconds": 10}})).await;
    test.delete_node().await;
    test.env.wait(68).await;
    assert!(test.get_node().await.is_some());
    test.env.wait(8).await;
    assert!(test.get_node().await.is_none() && test.get_pod("p").await.is_some());
}

// spec 04 #102
#[tokio::test(start_paused = true)]
async fn a_node_without_an_instance_is_finalized_unless_it_is_ready() {
    for (ready, is_finalized) in [("False", true), ("Unknown", true), ("True", false)] {
        let test = TerminationEnv::new(json!({})).await;
        test.create_pod("p", json!({})).await;
        test.env.set_ready_condition("n", ready).await;
        test.cloud.requests_left.lock().unwrap().clear();
        test.env.wait(1).await;
        test.delete_node().await;
        test.env.wait(2).await;
        assert_eq!(test.get_node().await.is_none(), is_finalized, "Ready={ready}");
    }
}

/// Creates a volume with its claim, attached to the node.
async fn attach_volume(test: &TerminationEnv, name: &str) {
    let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": name}}});
    test.env.create::<PersistentVolume>(volume).await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(test.env.client.clone());
    let claim = json!({"metadata": {"name": name}, "spec": {"volumeName": name, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let attachment = json!({"metadata": {"name": name}, "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": name}}});
    test.env.create::<VolumeAttachment>(attachment).await;
}

fn pod_using_volume(volume: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": volume}}]}})
}

// spec 04 #103
#[tokio::test(start_paused = true)]
async fn termination_waits_for_volumes_of_evicted_pods() {
    let test = TerminationEnv::new(json!({})).await;
    attach_volume(&test, "mine").await;
    attach_volume(&test, "stays").await;
    test.create_pod("p", pod_using_volume("mine")).await;
    let mut staying = pod_using_volume("stays");
    merge(&mut staying, json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    test.create_pod("s", staying).await;
    test.delete_node().await;
    test.env.wait(2).await;
    test.remove_pod("p").await;
    test.env.wait(30).await;
    assert_eq!(
        claim_condition(&test.get_claim().await.unwrap(), "VolumesDetached"),
        "Unknown/AwaitingVolumeDetachment"
    );
    let events = test.env.events("AwaitingVolumeDetachment");
    assert_eq!(events[0].1, "Awaiting deletion of bound volumeattachments (mine)");
    test.env.api::<VolumeAttachment>().delete("mine", &DeleteParams::default()).await.unwrap();
    test.env.wait(5).await;
    assert!(test.get_node().await.is_none());
}

// spec 04 #103: after the deadline.
#[tokio::test(start_paused = true)]
async fn after_the_deadline_volumes_do_not_block_termination() {
    let test = TerminationEnv::new(json!({"terminationGracePeriod": "60s"})).await;
    test.cloud.add_instance("m", 1);
    attach_volume(&test, "mine").await;
    test.delete_node().await;
    test.env.wait(50).await;
    assert_eq!(test.cloud.deletion_count(), 0);
    test.env.wait(13).await;
    assert_eq!(
        claim_condition(&test.get_claim().await.unwrap(), "VolumesDetached"),
        "False/TerminationGracePeriodElapsed"
    );
    test.env.wait(10).await;
    assert!(test.get_node().await.is_none());
}

// spec 04 #105
#[tokio::test(start_paused = true)]
async fn ten_nodes_of_one_claim_are_all_deleted() {
    let test = TerminationEnv::empty().await;
    test.cloud.add_instance("m", 3);
    test.create_claim("c", "m", json!({})).await;
    for i in 0..10 {
        test.create_node(&format!("n{i}"), "m").await;
    }
    test.env.wait(1).await;
    for i in 0..10 {
        test.env.api::<Node>().delete(&format!("n{i}"), &DeleteParams::default()).await.unwrap();
    }
    test.env.wait(60).await;
    assert!(test.env.list::<Node>().await.is_empty());
    assert!(test.get_claim().await.is_none());
}
