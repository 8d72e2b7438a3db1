//! Missing pods of workloads.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::*;
use crate::input::decode::decode;
use crate::input::documents;

/// Returns the names of the pods that the workloads of a text lack, and of the
/// PersistentVolumeClaims that are created with them.
fn created_names(text: &str) -> (Vec<String>, Vec<String>) {
    let split = documents::split(0, text);
    assert_eq!(split.unreadable, []);
    fn all<T>(
        objects: &[documents::RawObject<'_>],
        kind: InputKind,
        read: impl Fn(&ObjectBody<'_>) -> T,
    ) -> Vec<WithOrigin<T>> {
        let of_kind = objects.iter().filter(|objects| InputKind::of(&objects.api_version, &objects.kind) == Some(kind));
        of_kind.map(|objects| WithOrigin { origin: objects.origin, object: read(&objects.body) }).collect()
    }
    let of_workloads =
        |kind| all(&split.objects, kind, |body| read(kind, body, &PodDefaults::default()).unwrap().object);
    let workloads = Workloads {
        deployments: of_workloads(InputKind::Deployment),
        replica_sets: of_workloads(InputKind::ReplicaSet),
        stateful_sets: of_workloads(InputKind::StatefulSet),
        replication_controllers: of_workloads(InputKind::ReplicationController),
        jobs: of_workloads(InputKind::Job),
    };
    let pods = all(&split.objects, InputKind::Pod, |body| decode(body).unwrap());
    let claims = all(&split.objects, InputKind::PersistentVolumeClaim, |body| decode(body).unwrap());
    let created = create_missing_pods(&workloads, &pods, &claims).unwrap();
    let pod = |entry: &WithOrigin<Pod>| entry.object.metadata.name.to_string();
    let claim = |entry: &WithOrigin<PersistentVolumeClaim>| entry.object.metadata.name.to_string();
    (created.pods.iter().map(pod).collect(), created.volume_claims.iter().map(claim).collect())
}

fn created_pod_names(text: &str) -> Vec<String> {
    created_names(text).0
}

const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, uid: u1}\nspec: {replicas: 3, template: {metadata: {labels: {app: web}}}}\n";

fn pod(name: &str, owner: &str, rest: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{pod-template-hash: 5d4f}}, ownerReferences: [{owner}]}}\n{rest}\n"
    )
}

const OWNED_BY_DEPLOYMENT: &str = "{apiVersion: apps/v1, kind: Deployment, name: web}";
const OWNED_BY_REPLICA_SET: &str = "{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f, controller: true}";
const REPLICA_SET: &str = "---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-5d4f, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u1}]}\nspec: {replicas: 3}\n";

#[test]
fn spec_09_16_a_deployment_of_three_with_two_pods_lacks_one() {
    assert_eq!(created_pod_names(DEPLOYMENT), ["web-0", "web-1", "web-2"]);
    for owner in [OWNED_BY_DEPLOYMENT, OWNED_BY_REPLICA_SET] {
        let two = format!("{DEPLOYMENT}{}{}", pod("web-0", owner, ""), pod("web-x", owner, ""));
        assert_eq!(created_pod_names(&two), ["web-1"], "{owner}");
        // The ReplicaSet between Deployment and pods makes no difference and lacks no pods of its
        // own.
        assert_eq!(created_pod_names(&format!("{two}{REPLICA_SET}")), ["web-1"], "{owner}");
    }
    assert_eq!(created_pod_names(&format!("{DEPLOYMENT}{REPLICA_SET}")), ["web-0", "web-1", "web-2"]);
}

// spec 09 #16: pods of other owners do not count
#[test]
fn only_owned_pods_count() {
    for owner in [
        "{apiVersion: apps/v1, kind: Deployment, name: web, uid: another}",
        "{apiVersion: apps/v1, kind: Deployment, name: other}",
        "{apiVersion: apps/v1, kind: ReplicaSet, name: web-ffff}",
        "{apiVersion: apps/v1, kind: StatefulSet, name: web}",
        "{apiVersion: v1, kind: Deployment, name: web}",
    ] {
        assert_eq!(created_pod_names(&format!("{DEPLOYMENT}{}", pod("x", owner, ""))).len(), 3, "{owner}");
    }
}

// The controller of a workload that is being deleted creates no pods, even while a finalizer delays
// the deletion.
#[test]
fn a_workload_that_is_being_deleted_lacks_no_pods() {
    let deleting = |text: &str| text.replace("metadata: {", "metadata: {deletionTimestamp: 2026-03-04T11:00:00Z, ");
    assert_eq!(created_pod_names(&deleting(DEPLOYMENT)), Vec::<String>::new());
    assert_eq!(created_pod_names(&format!("{}{REPLICA_SET}", deleting(DEPLOYMENT))), Vec::<String>::new());
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: 2}\n";
    assert_eq!((created_pod_names(job).len(), created_pod_names(&deleting(job)).len()), (2, 0));
}

#[test]
fn finished_and_terminating_pods_are_replaced() {
    for rest in ["status: {phase: Succeeded}", "status: {phase: Failed}"] {
        assert_eq!(
            created_pod_names(&format!("{DEPLOYMENT}{}", pod("x", OWNED_BY_DEPLOYMENT, rest))).len(),
            3,
            "{rest}"
        );
    }
    let deleting = pod("x", OWNED_BY_DEPLOYMENT, "")
        .replace("metadata: {", "metadata: {deletionTimestamp: \"2026-03-04T12:00:00Z\", ");
    assert_eq!(created_pod_names(&format!("{DEPLOYMENT}{deleting}")).len(), 3);
    let set = DEPLOYMENT.replace("Deployment", "StatefulSet");
    assert_eq!(created_pod_names(&format!("{set}{}", deleting.replace("Deployment", "StatefulSet"))).len(), 2);
}

#[test]
fn a_replica_set_without_its_deployment_lacks_pods() {
    let alone = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r}\nspec: {replicas: 2}\n";
    assert_eq!(created_pod_names(alone), ["r-0", "r-1"]);
    assert_eq!(created_pod_names(&REPLICA_SET.replace("---\n", "")), ["web-5d4f-0", "web-5d4f-1", "web-5d4f-2"]);
}

#[test]
fn replicas_default_to_one_and_may_be_zero() {
    assert_eq!(created_pod_names("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}\n"), ["d-0"]);
    assert_eq!(
        created_pod_names("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 0}\n"),
        [""; 0]
    );
}

fn job(spec: &str, status: &str) -> String {
    format!("apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{{spec}}}\nstatus: {{{status}}}\n")
}

#[test]
fn spec_09_17_a_job_lacks_the_pods_that_may_run_now() {
    let by_job = "{apiVersion: batch/v1, kind: Job, name: j}";
    assert_eq!(created_pod_names(&job("parallelism: 5, completions: 3", "")), ["j-0", "j-1", "j-2"]);
    assert_eq!(created_pod_names(&job("parallelism: 5, completions: 3, suspend: true", "")), [""; 0]);
    for end in ["Complete", "Failed"] {
        let status = format!("conditions: [{{type: {end}, status: \"True\"}}]");
        assert_eq!(created_pod_names(&job("parallelism: 5, completions: 3", &status)), [""; 0]);
    }
    assert_eq!(
        created_pod_names(&job("parallelism: 5, completions: 3", "conditions: [{type: Complete, status: \"False\"}]"))
            .len(),
        3
    );
    assert_eq!(created_pod_names(&job("", "")), ["j-0"]);
    assert_eq!(created_pod_names(&job("parallelism: 0, completions: 3", "")), [""; 0]);
    assert_eq!(created_pod_names(&job("parallelism: 2, completions: 3", "succeeded: 2")).len(), 1);
    // A work queue runs `parallelism` pods until one of them succeeds.
    assert_eq!(created_pod_names(&job("parallelism: 4", "")).len(), 4);
    assert_eq!(created_pod_names(&job("parallelism: 4", "succeeded: 1")), [""; 0]);
    let running = job("parallelism: 2, completions: 3", "") + &pod("a", by_job, "status: {phase: Running}");
    assert_eq!(created_pod_names(&running).len(), 1);
    let done = job("parallelism: 5, completions: 3", "") + &pod("a", by_job, "status: {phase: Succeeded}");
    assert_eq!(created_pod_names(&done).len(), 2);
}

#[test]
fn stateful_sets_fill_gaps_in_ordinals_and_create_claims() {
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {replicas: 3, ordinals: {start: 5}, volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: fast}}]}\n";
    let owner = "{apiVersion: apps/v1, kind: StatefulSet, name: db}";
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-db-7}\n";
    let (pods, claims) = created_names(&format!("{set}{}{claim}", pod("db-6", owner, "")));
    assert_eq!((pods, claims), (vec!["db-5".to_owned(), "db-7".to_owned()], vec!["data-db-5".to_owned()]));
}

#[test]
fn a_replication_controller_lacks_pods_like_a_replica_set() {
    let controller = "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: old}\nspec: {replicas: 2, selector: {app: old}}\n";
    let owner = "{apiVersion: v1, kind: ReplicationController, name: old}";
    assert_eq!(created_pod_names(&format!("{controller}{}", pod("x", owner, ""))), ["old-0"]);
}

#[test]
fn pods_of_two_workloads_with_one_name_have_different_names() {
    let both = format!("{DEPLOYMENT}---\n{}", DEPLOYMENT.replace("Deployment", "StatefulSet"));
    assert_eq!(created_pod_names(&both), ["web-0", "web-1", "web-2", "web-3", "web-4", "web-5"]);
}

#[test]
fn created_pods_have_the_labels_of_the_template_and_an_owner() {
    let split = documents::split(0, DEPLOYMENT);
    let deployment = read(InputKind::Deployment, &split.objects[0].body, &PodDefaults::default()).unwrap().object;
    let deployments = vec![WithOrigin { origin: split.objects[0].origin, object: deployment }];
    let created = create_missing_pods(&Workloads { deployments, ..Workloads::default() }, &[], &[]).unwrap();
    let metadata = &created.pods[0].object.metadata;
    assert!(metadata.labels.has_value("app", "web") && metadata.is_owned_by("apps/v1", "ReplicaSet"));
    assert_eq!(metadata.controller().unwrap().uid, "u1");
}

#[test]
fn too_many_pods_are_an_error() {
    let text = DEPLOYMENT.replace("replicas: 3", "replicas: 2000000000");
    let split = documents::split(0, &text);
    let deployment = read(InputKind::Deployment, &split.objects[0].body, &PodDefaults::default()).unwrap().object;
    let deployments = vec![WithOrigin { origin: split.objects[0].origin, object: deployment }];
    let (_, message) = create_missing_pods(&Workloads { deployments, ..Workloads::default() }, &[], &[]).unwrap_err();
    assert_eq!(message, "Deployment `web` needs 2000000000 more pods; the input would then have more than 1000000");
}
