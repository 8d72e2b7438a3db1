//! Tests of which pods are considered, and from which pools they may get capacity (spec 02 §2 and
//! §5.1).

use kerf_api::slim::Pod;

use crate::check_solution::{check, solution_text, unplaced_reason};
use crate::fixture::Fixture;

#[test]
fn spec_02_6_only_pods_that_new_capacity_could_help_are_considered() {
    check(
        "settings require-unschedulable
         pool p
         pod stuck cpu=1 unschedulable
         pod unseen cpu=1
         pod fargate cpu=1 fargate
         pod preempting cpu=1 unschedulable nominated=n9
         pod daemon cpu=1 unschedulable owner=DaemonSet/d
         pod static cpu=1 unschedulable owner=Node/n9
         pod gated cpu=1 unschedulable gated",
        "claim pool=p types=t pods=stuck",
    );
    // Files may omit the condition (spec 09 §2.1). A condition with another reason counts as it is.
    check(
        "pool p
         pod stuck cpu=1 unschedulable
         pod unseen cpu=1
         pod fargate cpu=1 fargate
         pod held cpu=1 held
         pod scheduled cpu=1 scheduled",
        "claim pool=p types=t pods=stuck,unseen",
    );
    // Q2: kube-scheduler will never bind these.
    check(
        "pool p
         pod going cpu=1 terminating
         pod done cpu=1 phase=Succeeded
         pod broken cpu=1 phase=Failed",
        "",
    );
}

#[test]
fn spec_02_7_the_scheduler_of_a_pod_does_not_matter() {
    let mut fixture = Fixture::new("settings require-unschedulable \n pool p");
    let pod = r#"{"metadata": {"name": "own", "namespace": "default"},
        "spec": {"schedulerName": "mine", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "True", "reason": "Unschedulable"}]}}"#;
    fixture.input.pods.push(serde_json::from_str::<Pod>(pod).unwrap().into());
    assert_eq!(solution_text(&fixture.input, &fixture.solve()), "claim pool=p types=t pods=own\n");
}

// spec 02 #8 (only that the pod is ignored; times and histogram belong to the controller)
#[test]
fn spec_02_9_pods_with_restricted_labels_are_rejected() {
    for key in ["karpenter.sh/test", "karpenter.k8s.aws/test", "sub.karpenter.sh/test", "kubernetes.io/hostname"] {
        let selecting = format!("pool p \n pod bad cpu=1 sel={key}:x \n pod good cpu=1");
        check(&selecting, "claim pool=p types=t pods=good \n unplaced bad InvalidPod");
        let requiring = format!("pool p \n pod bad cpu=1 req=\"{key} In x\" \n pod good cpu=1");
        check(&requiring, "claim pool=p types=t pods=good \n unplaced bad InvalidPod");
        // Preferred terms are not validated.
        let preferring = format!("pool p \n pod odd cpu=1 pref=\"1 {key} In x\"");
        check(&preferring, "claim pool=p types=t pods=odd");
    }
}

#[test]
fn spec_02_10_a_pod_may_opt_out_of_managed_nodes() {
    let opted_out = "pool p \n pod p cpu=1 req=\"pool DoesNotExist\"";
    check(opted_out, "unplaced p OptedOut");
    // The heaviest preference counts as well.
    check("pool p \n pod p cpu=1 pref=\"1 pool DoesNotExist\"", "unplaced p OptedOut");
    check("pool p \n pod p cpu=1 req=\"pool NotIn x\"", "claim pool=p types=t pods=p");
    assert_eq!(
        unplaced_reason("pool p \n pod p cpu=1 req=\"pool DoesNotExist\" pvc=none", "p"),
        "configured to not run on a Karpenter provisioned node (requirement=karpenter.sh/nodepool DoesNotExist); \
         getting persistent volume claim, persistentvolumeclaims \"none\" not found (PersistentVolumeClaim=none)"
    );
}

#[test]
fn spec_02_11_a_pod_with_a_missing_volume_claim_does_not_block_others() {
    check(
        "pool p \n pod bad cpu=1 pvc=none \n pod good x2 cpu=1",
        "claim pool=p types=t pods=good-1..2 \n unplaced bad VolumeNotUsable",
    );
}

#[test]
fn spec_02_12_without_a_usable_pool_every_pod_waits() {
    for pools in ["", "pool p deleting", "pool p notready", "pool p static", "pool p static \n pool q deleting"] {
        check(&format!("{pools} \n pod a cpu=1 \n pod b cpu=1"), "unplaced a,b NoNodePool");
        // The result of the pass is empty, even if nodes exist.
        check(&format!("{pools} \n node n1 \n pod a cpu=1"), "unplaced a NoNodePool");
    }
    assert_eq!(unplaced_reason("pod a cpu=1", "a"), "no dynamic nodepools found");
}

#[test]
fn spec_02_13_static_pools_launch_nothing_for_pods() {
    check(
        "pool static static weight=100 \n pool dynamic \n pod a x3 cpu=2",
        "claim pool=dynamic types=t pods=a-1..2 \n claim pool=dynamic types=t pods=a-3",
    );
}

#[test]
fn spec_02_14_pods_of_a_deleting_node_are_placed_elsewhere() {
    for node in ["node n1 pool=p deleting", "node n1 pool=p marked", "node n1 deleting"] {
        check(&format!("pool p \n {node} \n pod a cpu=1 on=n1"), "claim pool=p types=t pods=a");
    }
    check("pool p \n node n1 pool=p \n pod a cpu=1 on=n1", "");
}

#[test]
fn spec_02_15_of_terminating_pods_only_stateful_ones_are_placed() {
    let terminating = |pod: &str| format!("pool p \n node n1 pool=p deleting \n pod a cpu=1 on=n1 terminating {pod}");
    check(&terminating("owner=ReplicaSet/r"), "");
    check(&terminating("owner=DaemonSet/d"), "");
    check(&terminating("owner=StatefulSet/s"), "claim pool=p types=t pods=a");
    // A protected pod stays on its node.
    let running = |pod: &str| format!("pool p \n node n1 pool=p deleting \n pod a cpu=1 on=n1 {pod}");
    check(&running("protect=true"), "");
    check(&running("protect=1h started=60"), "");
    check(&running("protect=1h"), "");
    check(&running("protect=1m started=3600"), "claim pool=p types=t pods=a");
    check(&running("protect=false"), "claim pool=p types=t pods=a");
    check(&running("owner=DaemonSet/d"), "");
    check(&running("owner=Node/n1"), "");
}

#[test]
fn spec_02_16_pods_with_fully_blocking_budgets_stay() {
    let with = |budgets: &str, pod: &str| {
        format!("pool p \n node n1 pool=p deleting \n {budgets} \n pod a cpu=1 on=n1 labels=app:web {pod}")
    };
    for budget in ["max=0", "max=0%", "min=100%"] {
        check(&with(&format!("pdb b sel=app=web {budget}"), ""), "");
        // A budget blocks only evictions, and only of the pods that it selects.
        check(
            &with(&format!("pdb b sel=app=web {budget}"), "tol=karpenter.sh/disrupted"),
            "claim pool=p types=t pods=a",
        );
        check(&with(&format!("pdb b sel=app=other {budget}"), ""), "claim pool=p types=t pods=a");
        check(&with(&format!("pdb b ns=other sel=app=web {budget}"), ""), "claim pool=p types=t pods=a");
        check(&with(&format!("pdb b sel=app=web {budget} always"), "unready"), "claim pool=p types=t pods=a");
        check(&with(&format!("pdb b sel=app=web {budget} always"), ""), "");
    }
    check(&with("pdb b sel=app=web max=1 \n pdb c sel=* max=1", ""), "");
    check(&with("pdb b sel=app=web max=1 always \n pdb c sel=* max=1 always", "unready"), "");
    for budget in ["max=1", "max=1%", "min=99%", "min=1"] {
        check(&with(&format!("pdb b sel=app=web {budget}"), ""), "claim pool=p types=t pods=a");
    }
}

#[test]
fn spec_02_17_rescheduled_and_new_pods_are_packed_together() {
    check(
        "pool p \n node n1 pool=p deleting \n pod old x2 cpu=1 on=n1 \n pod new x2 cpu=1",
        "claim pool=p types=t pods=new-1..2,old-1..2",
    );
    // Q16: a pod whose volumes cannot be resolved is left out, not placed as if it had none.
    check(
        "pool p \n node n1 pool=p deleting \n pod old cpu=1 on=n1 pvc=none \n pod new cpu=1",
        "claim pool=p types=t pods=new \n unplaced old VolumeNotUsable",
    );
}
