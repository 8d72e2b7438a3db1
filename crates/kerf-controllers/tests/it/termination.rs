//! How a node goes (spec 04 §7): in which order, what holds it up, and what it leaves behind.

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
use kerf_engine::catalogue::InstanceType;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::test_env::{TestEnv, merge, of_claim};

/// A cloud whose machines end after as many requests as a test says.
struct CountdownCloud {
    /// Requests to end each machine that are still answered with "under way".
    left: Mutex<BTreeMap<String, u32>>,
    /// Requests to end a machine.
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
    fn none() -> Self {
        Self { left: Mutex::default(), deletions: Mutex::default(), rules: LabelRules::kwok() }
    }

    fn add(&self, id: &str, requests: u32) {
        self.left.lock().unwrap().insert(id.to_owned(), requests);
    }

    fn deletions(&self) -> usize {
        self.deletions.lock().unwrap().len()
    }

    fn gone() -> InstanceError {
        InstanceError::NotFound("no such machine".into())
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
        ready(Err(CreateError::Other("none are made here".into()))).boxed()
    }

    fn delete<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<(), InstanceError>> {
        self.deletions.lock().unwrap().push(provider_id.to_owned());
        let mut left = self.left.lock().unwrap();
        let outcome = match left.get_mut(provider_id) {
            None => Err(Self::gone()),
            Some(0) => {
                left.remove(provider_id);
                Err(Self::gone())
            }
            Some(requests) => {
                *requests -= 1;
                Ok(())
            }
        };
        ready(outcome).boxed()
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> BoxFuture<'a, Result<Instance, InstanceError>> {
        let known = self.left.lock().unwrap().contains_key(provider_id);
        let machine = Instance { provider_id: provider_id.to_owned(), ..Instance::default() };
        ready(if known { Ok(machine) } else { Err(Self::gone()) }).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ListError>> {
        let left = self.left.lock().unwrap();
        let machine = |id: &String| Instance { provider_id: id.clone(), ..Instance::default() };
        ready(Ok(left.keys().map(machine).collect())).boxed()
    }

    fn instance_types<'a>(
        &'a self,
        _: &'a NodePool,
    ) -> BoxFuture<'a, Result<Arc<Vec<InstanceType>>, InstanceTypesError>> {
        ready(Ok(Arc::default())).boxed()
    }

    fn drift<'a>(&'a self, _: &'a NodeClaim) -> BoxFuture<'a, Result<Option<String>, DriftError>> {
        ready(Ok(None)).boxed()
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &[]
    }
}

/// A cluster with one node `n` whose machine is `m` and whose claim is `c`.
struct TerminationEnv {
    rig: TestEnv,
    cloud: Arc<CountdownCloud>,
}

impl TerminationEnv {
    /// Nobody runs pods: one that is told to go stays until a test takes it away.
    async fn new(claim: Value) -> Self {
        let stage = Self::empty().await;
        stage.cloud.add("m", 0);
        stage.claim("c", "m", claim).await;
        stage.node("n", "m").await;
        stage.rig.wait(1).await;
        stage
    }

    async fn empty() -> Self {
        let cloud = Arc::new(CountdownCloud::none());
        let rig = TestEnv::bare().await.with(cloud.clone()).await;
        Self { rig, cloud }
    }

    async fn node(&self, name: &str, machine: &str) {
        let node = json!({
            "metadata": {"name": name, "finalizers": ["karpenter.sh/termination"], "labels": {
                "karpenter.sh/nodepool": "general", "karpenter.kwok.sh/kwoknodeclass": "default",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                "node.kubernetes.io/instance-type": "s", "topology.kubernetes.io/zone": "zone-a"}},
            "spec": {"providerID": machine},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
        });
        self.rig.create::<Node>(node).await;
        self.rig.make_ready(name).await;
    }

    async fn claim(&self, name: &str, machine: &str, spec: Value) {
        self.rig.hand_made_claim(name, spec).await;
        self.rig.patch::<NodeClaim>(name, json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}})).await;
        let at = self.rig.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": at, "observedGeneration": 1});
        let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"].map(condition).into();
        self.rig
            .status::<NodeClaim>(name, json!({"providerID": machine, "nodeName": "n", "conditions": conditions}))
            .await;
    }

    /// A pod that runs on a node, with these changes.
    async fn pod(&self, name: &str, change: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        merge(&mut pod, change);
        self.rig.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.phase(name, "Running").await;
    }

    async fn phase(&self, name: &str, phase: &str) {
        let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}});
        self.rig.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// What a kubelet does in the end.
    async fn take_away(&self, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.rig.pods().delete(name, &now).await.unwrap();
    }

    async fn delete_node(&self) {
        self.rig.all::<Node>().delete("n", &DeleteParams::default()).await.unwrap();
    }

    async fn get_node(&self) -> Option<Node> {
        self.rig.all::<Node>().get_opt("n").await.unwrap()
    }

    async fn get_claim(&self) -> Option<NodeClaim> {
        self.rig.all::<NodeClaim>().get_opt("c").await.unwrap()
    }

    async fn get_pod(&self, name: &str) -> Option<Pod> {
        self.rig.pods().get_opt(name).await.unwrap()
    }

    /// Whether the pod has been told to go.
    async fn is_going(&self, name: &str) -> bool {
        self.get_pod(name).await.unwrap().metadata.deletion_timestamp.is_some()
    }

    /// The pods, of these, that have been told to go.
    async fn going<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        let mut going = Vec::new();
        for name in names {
            if let Some(pod) = self.get_pod(name).await
                && pod.metadata.deletion_timestamp.is_some()
            {
                going.push(*name);
            }
        }
        going
    }

    /// A budget for a pod that lets nobody, or somebody, go.
    async fn budget(&self, name: &str, pod: &str, allowed: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.rig.client.clone());
        let budget =
            json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": pod}}}});
        budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
        self.allow(name, allowed).await;
    }

    async fn allow(&self, budget: &str, allowed: i32) {
        let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(self.rig.client.clone());
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        budgets.patch_status(budget, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    fn evictions(&self, code: &str) -> f64 {
        self.rig.metrics.pods_eviction_requests.get(&[code])
    }
}

fn daemon(name: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "d", "controller": true}]}})
}

// spec 04 #84 and #104
#[tokio::test(start_paused = true)]
async fn a_node_takes_its_claim_and_machine_along_and_is_counted_once() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.cloud.add("m", 2);
    stage.delete_node().await;
    stage.rig.wait(1).await;
    assert!(stage.get_claim().await.unwrap().metadata.deletion_timestamp.is_some());
    stage.rig.wait(7).await;
    let claim = stage.get_claim().await.unwrap();
    assert_eq!(of_claim(&claim, "Drained"), "True/Drained");
    assert_eq!(of_claim(&claim, "VolumesDetached"), "True/VolumesDetached");
    assert_eq!(of_claim(&claim, "InstanceTerminating"), "True/InstanceTerminating");
    assert_eq!(of_claim(&claim, "Ready"), "True/Ready");
    assert!(stage.get_node().await.is_some(), "the machine is still there");
    stage.rig.wait(15).await;
    assert!(stage.get_node().await.is_none() && stage.get_claim().await.is_none());
    let metrics = &stage.rig.metrics;
    assert_eq!(metrics.nodes_terminated.get(&["general", "zone-a"]), 1.0);
    assert_eq!(metrics.nodes_drained.get(&["general"]), 1.0);
    assert_eq!(metrics.nodes_termination_duration.count(&["general"]), 1);
    assert_eq!(metrics.nodes_lifetime_duration.count(&["general"]), 1);
}

// spec 04 #84: no claim, or two of them.
#[tokio::test(start_paused = true)]
async fn without_a_claim_a_node_is_drained_at_once_and_the_cloud_is_not_asked() {
    for claims in [0, 2] {
        let stage = TerminationEnv::empty().await;
        stage.cloud.add("m", 0);
        for i in 0..claims {
            stage.claim(&format!("c{i}"), "m", json!({})).await;
        }
        stage.node("n", "m").await;
        stage.pod("p", json!({})).await;
        stage.rig.wait(1).await;
        stage.delete_node().await;
        stage.rig.wait(2).await;
        assert!(stage.is_going("p").await);
        stage.take_away("p").await;
        stage.rig.wait(2).await;
        assert!(stage.get_node().await.is_none(), "{claims} claims");
        assert_eq!(stage.cloud.deletions(), 0, "{claims} claims");
    }
}

// spec 04 #85
#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_is_left_alone() {
    let stage = TerminationEnv::empty().await;
    stage.node("n", "m").await;
    stage.rig.patch::<Node>("n", json!({"metadata": {"labels": {"karpenter.kwok.sh/kwoknodeclass": null}}})).await;
    stage.pod("p", json!({})).await;
    stage.rig.wait(1).await;
    stage.delete_node().await;
    stage.rig.wait(30).await;
    let node = stage.get_node().await.unwrap();
    assert!(node.spec.unwrap().taints.unwrap_or_default().iter().all(|taint| taint.key != "karpenter.sh/disrupted"));
    assert!(!stage.is_going("p").await);
}

// spec 04 #86 and #91
#[tokio::test(start_paused = true)]
async fn a_budget_holds_up_a_drain_but_not_the_taint() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.pod("p", json!({})).await;
    stage.budget("b", "p", 0).await;
    stage.delete_node().await;
    stage.rig.wait(1).await;
    let node = stage.get_node().await.unwrap();
    let taint = node.spec.unwrap().taints.unwrap().remove(0);
    assert_eq!(
        (taint.key.as_str(), taint.effect.as_str(), taint.value),
        ("karpenter.sh/disrupted", "NoSchedule", None)
    );
    assert_eq!(node.metadata.labels.unwrap()["node.kubernetes.io/exclude-from-external-load-balancers"], "karpenter");
    stage.rig.wait(60).await;
    assert!(!stage.is_going("p").await);
    assert_eq!(of_claim(&stage.get_claim().await.unwrap(), "Drained"), "Unknown/Draining");
    assert!(stage.evictions("429") >= 8.0, "{}", stage.evictions("429"));
    let told = stage.rig.events("FailedDraining");
    assert_eq!(told, [("n".to_owned(), "Failed to drain node, 1 pods are waiting to be evicted".to_owned())]);
    stage.allow("b", 1).await;
    stage.rig.wait(11).await;
    assert!(stage.is_going("p").await, "the entry stayed in the queue");
}

// spec 04 #87
#[tokio::test(start_paused = true)]
async fn an_empty_node_waits_five_seconds_for_late_pods() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.delete_node().await;
    stage.rig.wait(4).await;
    assert_eq!(of_claim(&stage.get_claim().await.unwrap(), "Drained"), "Unknown/Draining");
    assert_eq!(stage.cloud.deletions(), 0);
    stage.rig.wait(3).await;
    assert!(stage.get_node().await.is_none());
}

// spec 04 #88
#[tokio::test(start_paused = true)]
async fn some_pods_are_nobodys_business() {
    let stage = TerminationEnv::new(json!({})).await;
    let tolerating = |operator: &str| json!({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": operator, "effect": "NoSchedule"}]}});
    stage.pod("equal", tolerating("Equal")).await;
    stage.pod("exists", tolerating("Exists")).await;
    let mirror =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}});
    stage.pod("mirror", mirror).await;
    stage.pod("done", json!({})).await;
    stage.phase("done", "Succeeded").await;
    stage.delete_node().await;
    stage.rig.wait(10).await;
    assert!(stage.get_node().await.is_none());
    assert!(stage.going(&["equal", "exists", "mirror", "done"]).await.is_empty());
}

// spec 04 #89
#[tokio::test(start_paused = true)]
async fn a_pod_without_owner_and_one_that_tolerates_a_cordon_are_evicted() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.pod("plain", json!({})).await;
    let cordon = json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}});
    stage.pod("cordon", cordon).await;
    stage.delete_node().await;
    stage.rig.wait(2).await;
    assert_eq!(stage.going(&["plain", "cordon"]).await, ["plain", "cordon"]);
}

// spec 04 #90
#[tokio::test(start_paused = true)]
async fn pods_leave_tier_by_tier() {
    let stage = TerminationEnv::new(json!({})).await;
    let critical = json!({"spec": {"priorityClassName": "system-cluster-critical"}});
    let mut critical_daemon = daemon("b");
    merge(&mut critical_daemon, json!({"spec": {"priorityClassName": "system-node-critical"}}));
    for (name, change) in [("d", critical_daemon), ("c", critical), ("b", daemon("a")), ("a", json!({}))] {
        stage.pod(name, change).await;
    }
    stage.delete_node().await;
    for tier in ["a", "b", "c", "d"] {
        stage.rig.wait(20).await;
        assert_eq!(stage.going(&["a", "b", "c", "d"]).await, [tier], "a tier waits until the one before it is gone");
        stage.take_away(tier).await;
    }
    stage.rig.wait(5).await;
    assert!(stage.get_node().await.is_none());
}

// spec 04 #92
#[tokio::test(start_paused = true)]
async fn two_budgets_on_one_pod_hold_it_up() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.pod("p", json!({})).await;
    stage.budget("one", "p", 1).await;
    stage.budget("two", "p", 1).await;
    stage.delete_node().await;
    stage.rig.wait(30).await;
    assert!(stage.evictions("500") >= 5.0 && !stage.is_going("p").await);
    assert_eq!(stage.rig.events("FailedDraining").len(), 1);
}

// spec 04 #93
#[tokio::test(start_paused = true)]
async fn an_eviction_says_why() {
    let stage = TerminationEnv::new(json!({})).await;
    let mut conditions = stage.get_claim().await.unwrap().status.unwrap().conditions;
    let mut reason = conditions[0].clone();
    "DisruptionReason".clone_into(&mut reason.condition_type);
    "SpotInterruption".clone_into(&mut reason.reason);
    conditions.push(reason);
    stage.rig.status::<NodeClaim>("c", json!({ "conditions": conditions })).await;
    stage.pod("p", json!({})).await;
    stage.delete_node().await;
    stage.rig.wait(2).await;
    assert_eq!(stage.evictions("200"), 1.0);
    assert_eq!(stage.rig.metrics.pods_drained.get(&["SpotInterruption"]), 1.0);
    assert_eq!(stage.rig.events("Evicted"), [("p".to_owned(), "Evicted pod: SpotInterruption".to_owned())]);

    let plain = TerminationEnv::new(json!({})).await;
    plain.pod("p", json!({})).await;
    plain.delete_node().await;
    plain.rig.wait(2).await;
    assert_eq!(plain.rig.metrics.pods_drained.get(&["Forceful Termination"]), 1.0);
}

fn protected() -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
}

// spec 04 #94
#[tokio::test(start_paused = true)]
async fn a_protected_pod_holds_the_drain_until_the_deadline_calls() {
    let forever = TerminationEnv::new(json!({})).await;
    forever.pod("p", protected()).await;
    forever.delete_node().await;
    forever.rig.wait(3600).await;
    assert!(!forever.is_going("p").await && forever.get_node().await.is_some());

    let stage = TerminationEnv::new(json!({"terminationGracePeriod": "300s"})).await;
    let mut patient = protected();
    merge(&mut patient, json!({"spec": {"terminationGracePeriodSeconds": 60}}));
    stage.pod("p", patient).await;
    stage.delete_node().await;
    stage.rig.wait(238).await;
    assert!(!stage.is_going("p").await);
    stage.rig.wait(5).await;
    let pod = stage.get_pod("p").await.unwrap();
    assert!((56..=60).contains(&pod.metadata.deletion_grace_period_seconds.unwrap()), "{:?}", pod.metadata);
    let told = stage.rig.events("Disrupted");
    assert!(
        told[0].1.starts_with("Deleting the pod to accommodate the terminationTime 2026-01-01 00:05:0"),
        "{told:?}"
    );
    assert!(told[0].1.ends_with("of grace-period of its 60 terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation."));
    let expiring = stage.rig.events("TerminationGracePeriodExpiring");
    assert!(expiring.iter().any(
        |(object, message)| object == "n" && message.starts_with("All pods will be deleted by 2026-01-01T00:05:0")
    ));
}

// spec 04 #94: on time, however often it was asked in vain, and whether or not it was its tier's turn.
#[tokio::test(start_paused = true)]
async fn a_pod_that_may_not_leave_is_deleted_when_its_grace_period_must_begin() {
    let stage = TerminationEnv::new(json!({"terminationGracePeriod": "40s"})).await;
    let graceful = |seconds: u32, mut pod: Value| {
        merge(&mut pod, json!({"spec": {"terminationGracePeriodSeconds": seconds}}));
        pod
    };
    stage.pod("protected", graceful(5, protected())).await;
    stage.pod("budgeted", graceful(7, json!({}))).await;
    stage.budget("b", "budgeted", 0).await;
    stage.pod("critical", graceful(9, json!({"spec": {"priorityClassName": "system-cluster-critical"}}))).await;
    stage.delete_node().await;
    // Not at a second at which anything else happens.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let annotations = stage.get_claim().await.unwrap().metadata.annotations.unwrap();
    let deadline: Timestamp = annotations["karpenter.sh/nodeclaim-termination-timestamp"].parse().unwrap();
    for (pod, grace) in [("critical", 9), ("budgeted", 7), ("protected", 5)] {
        let latest = deadline - SignedDuration::from_secs(grace);
        let left = latest.duration_since(stage.rig.clock.now());
        tokio::time::sleep(Duration::try_from(left).unwrap()).await;
        assert!(!stage.is_going(pod).await, "{pod} has time left");
        tokio::time::sleep(Duration::from_millis(2)).await;
        let seconds = stage.get_pod(pod).await.unwrap().metadata.deletion_grace_period_seconds;
        assert_eq!(seconds, Some(grace - 1), "{pod} has all whole seconds that are left");
    }
}

// spec 04 #95 and #96
#[tokio::test(start_paused = true)]
async fn a_pod_whose_grace_is_longer_than_the_nodes_goes_at_once() {
    let stage = TerminationEnv::new(json!({"terminationGracePeriod": "300s"})).await;
    let seconds = |seconds: u32| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "spec": {"terminationGracePeriodSeconds": seconds}});
    stage.pod("equal", seconds(300)).await;
    stage.pod("longer", seconds(600)).await;
    let mut critical = seconds(600);
    merge(&mut critical, json!({"spec": {"priorityClassName": "system-cluster-critical"}}));
    stage.pod("critical", critical).await;
    stage.pod("short", seconds(60)).await;
    stage.delete_node().await;
    stage.rig.wait(4).await;
    assert_eq!(stage.going(&["equal", "longer", "critical", "short"]).await, ["equal", "longer", "critical"]);
}

// spec 04 #97, #98 and #99
#[tokio::test(start_paused = true)]
async fn a_deadline_that_comes_later_or_has_passed_is_kept() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.pod("going", json!({"spec": {"terminationGracePeriodSeconds": 3600}})).await;
    stage.pod("stays", protected()).await;
    stage.delete_node().await;
    stage.rig.wait(5).await;
    let seconds = |pod: Option<Pod>| pod.unwrap().metadata.deletion_grace_period_seconds;
    assert_eq!(seconds(stage.get_pod("going").await), Some(3600));
    assert!(!stage.is_going("stays").await);
    let past =
        json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2025-12-31T23:00:00Z"}}});
    stage.rig.patch::<NodeClaim>("c", past).await;
    stage.rig.wait(2).await;
    assert_eq!(seconds(stage.get_pod("stays").await), Some(1), "never zero");
    assert_eq!(seconds(stage.get_pod("going").await), Some(1), "a grace period that is too long is cut short");
}

// spec 04 #100
#[tokio::test(start_paused = true)]
async fn another_pod_of_the_same_name_is_not_evicted() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.pod("p", json!({})).await;
    stage.budget("b", "p", 0).await;
    stage.delete_node().await;
    stage.rig.wait(5).await;
    assert!(stage.evictions("429") > 0.0);
    stage.take_away("p").await;
    stage.pod("p", json!({"spec": {"nodeName": "elsewhere"}})).await;
    stage.allow("b", 1).await;
    stage.rig.wait(60).await;
    assert!(!stage.is_going("p").await);
}

// spec 04 #101
#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_go_is_waited_for_one_minute() {
    let stage = TerminationEnv::new(json!({})).await;
    stage.pod("p", json!({"spec": {"terminationGracePeriodSeconds": 10}})).await;
    stage.delete_node().await;
    stage.rig.wait(68).await;
    assert!(stage.get_node().await.is_some());
    stage.rig.wait(8).await;
    assert!(stage.get_node().await.is_none() && stage.get_pod("p").await.is_some());
}

// spec 04 #102
#[tokio::test(start_paused = true)]
async fn a_node_whose_machine_is_gone_is_let_go_unless_its_kubelet_answers() {
    for (ready, is_let_go) in [("False", true), ("Unknown", true), ("True", false)] {
        let stage = TerminationEnv::new(json!({})).await;
        stage.pod("p", json!({})).await;
        stage.rig.node_condition("n", ready).await;
        stage.cloud.left.lock().unwrap().clear();
        stage.rig.wait(1).await;
        stage.delete_node().await;
        stage.rig.wait(2).await;
        assert_eq!(stage.get_node().await.is_none(), is_let_go, "Ready={ready}");
    }
}

/// A volume with its claim, attached to the node.
async fn attach(stage: &TerminationEnv, name: &str) {
    let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": name}}});
    stage.rig.create::<PersistentVolume>(volume).await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(stage.rig.client.clone());
    let claim = json!({"metadata": {"name": name}, "spec": {"volumeName": name, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let attachment = json!({"metadata": {"name": name}, "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": name}}});
    stage.rig.create::<VolumeAttachment>(attachment).await;
}

fn using(volume: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": volume}}]}})
}

// spec 04 #103
#[tokio::test(start_paused = true)]
async fn volumes_of_pods_that_leave_are_waited_for() {
    let stage = TerminationEnv::new(json!({})).await;
    attach(&stage, "mine").await;
    attach(&stage, "stays").await;
    stage.pod("p", using("mine")).await;
    let mut staying = using("stays");
    merge(&mut staying, json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    stage.pod("s", staying).await;
    stage.delete_node().await;
    stage.rig.wait(2).await;
    stage.take_away("p").await;
    stage.rig.wait(30).await;
    assert_eq!(of_claim(&stage.get_claim().await.unwrap(), "VolumesDetached"), "Unknown/AwaitingVolumeDetachment");
    let told = stage.rig.events("AwaitingVolumeDetachment");
    assert_eq!(told[0].1, "Awaiting deletion of bound volumeattachments (mine)");
    stage.rig.all::<VolumeAttachment>().delete("mine", &DeleteParams::default()).await.unwrap();
    stage.rig.wait(5).await;
    assert!(stage.get_node().await.is_none());
}

// spec 04 #103: after the deadline.
#[tokio::test(start_paused = true)]
async fn after_the_deadline_volumes_hold_nobody_up() {
    let stage = TerminationEnv::new(json!({"terminationGracePeriod": "60s"})).await;
    stage.cloud.add("m", 1);
    attach(&stage, "mine").await;
    stage.delete_node().await;
    stage.rig.wait(50).await;
    assert_eq!(stage.cloud.deletions(), 0);
    stage.rig.wait(13).await;
    assert_eq!(of_claim(&stage.get_claim().await.unwrap(), "VolumesDetached"), "False/TerminationGracePeriodElapsed");
    stage.rig.wait(10).await;
    assert!(stage.get_node().await.is_none());
}

// spec 04 #105
#[tokio::test(start_paused = true)]
async fn ten_nodes_of_one_claim_all_go() {
    let stage = TerminationEnv::empty().await;
    stage.cloud.add("m", 3);
    stage.claim("c", "m", json!({})).await;
    for i in 0..10 {
        stage.node(&format!("n{i}"), "m").await;
    }
    stage.rig.wait(1).await;
    for i in 0..10 {
        stage.rig.all::<Node>().delete(&format!("n{i}"), &DeleteParams::default()).await.unwrap();
    }
    stage.rig.wait(60).await;
    assert!(stage.rig.list::<Node>().await.is_empty());
    assert!(stage.get_claim().await.is_none());
}
