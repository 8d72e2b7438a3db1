//! Tests of volume topology and of the number of volumes that a node can attach (spec 02 §9).

use std::fmt::Write as _;

use crate::check_solution::{check, pod_counts_per_domain, solved_text, unplaced_reason};
use crate::fixture::Fixture;

#[test]
fn spec_02_108_volumes_and_pods_must_agree_on_the_zone() {
    let class = "pool p \n sc fast term=\"zone In b,c\" \n pvc data sc=fast";
    check(&format!("{class} \n pod x cpu=1 pvc=data req=\"zone In a,c\""), "claim pool=p types=t pods=x zone=c");
    check(&format!("{class} \n pod x cpu=1 pvc=data req=\"zone In a\""), "unplaced x VolumeTopology");
    check(&format!("{class} \n pod x cpu=1 pvc=data"), "claim pool=p types=t pods=x zone=b|c");
    check(&format!("{class} \n node n1 zone=a \n node n2 zone=b \n pod x cpu=1 pvc=data"), "node n2 pods=x");
    check(&format!("{class} \n node n1 \n pod x cpu=1 pvc=data"), "claim pool=p types=t pods=x zone=b|c");
    // A claim of a generic ephemeral volume.
    check(
        "pool p \n sc fast term=\"zone In b\" \n pvc x-scratch sc=fast \n pod x cpu=1 ephemeral=scratch",
        "claim pool=p types=t pods=x zone=b",
    );
}

#[test]
fn spec_02_109_volume_alternatives_serve_pods_with_zone_anti_affinity() {
    for (pv, claim) in [
        ("pv one term=\"zone In a\" term=\"zone In b\" \n pv two term=\"zone In a\" term=\"zone In b\"", "pv="),
        ("sc one term=\"zone In a\" term=\"zone In b\" \n sc two term=\"zone In a\" term=\"zone In b\"", "sc="),
    ] {
        check(
            &format!(
                "pool p \n {pv} \n pvc c1 {claim}one \n pvc c2 {claim}two
                 pod x cpu=1 labels=app:web anti=zone:app=web pvc=c1 \n pod y cpu=1 labels=app:web anti=zone:app=web pvc=c2"
            ),
            "claim pool=p types=t pods=x zone=a \n claim pool=p types=t pods=y zone=b",
        );
    }
}

#[test]
fn spec_02_110_a_compatible_combination_of_volume_alternatives_is_found() {
    let volumes =
        "pool p \n pv one term=\"zone In a\" term=\"zone In b\" \n pv two term=\"zone In b\" term=\"zone In c\"
        pvc c1 pv=one \n pvc c2 pv=two";
    check(&format!("{volumes} \n pod x cpu=1 pvc=c1,c2"), "claim pool=p types=t pods=x zone=b");
    // No combination exists: the pod's volumes contradict each other.
    check(
        "pool p \n pv one term=\"zone In a\" \n pv two term=\"zone In b\" \n pvc c1 pv=one \n pvc c2 pv=two \n pod x cpu=1 pvc=c1,c2",
        "unplaced x NoInstanceTypeFits",
    );
}

#[test]
fn spec_02_111_a_local_volume_does_not_restrict_its_pod_to_a_host() {
    let fixture = |kind: &str, term: &str| {
        format!(
            "pool p \n node n1 zone=a \n node n2 zone=b cpu=0 \n pv v {kind} term=\"{term}\" \n pvc data pv=v \n pod x cpu=1 pvc=data"
        )
    };
    check(&fixture("local", "host In n2"), "node n1 pods=x");
    check(&fixture("", "host In n2"), "unplaced x VolumeTopology");
    check(&fixture("", "host In n1"), "node n1 pods=x");
    check(&fixture("local", "host In n2 & zone In b"), "claim pool=p types=t pods=x zone=b");
    // The expressions of one alternative hold or fail together.
    check(
        "pool p limit=nodes:0 \n node n1 zone=b \n node n2 zone=a
         pv v term=\"host In n1 & zone In a\" term=\"host In n2 & zone In b\" \n pvc data pv=v \n pod x cpu=1 pvc=data",
        "unplaced x LimitExceeded",
    );
}

#[test]
fn spec_02_112_a_node_attaches_a_limited_number_of_volumes() {
    let mut fixture = String::from("pool p \n node n1 cpu=100 \n csinode n1 limit=ebs.csi.aws.com:10 \n sc fast");
    for pod in 1..=6 {
        write!(fixture, "\n pvc a-{pod} sc=fast \n pvc b-{pod} sc=fast \n pod x-{pod} cpu=1 pvc=a-{pod},b-{pod}")
            .unwrap();
    }
    check(&fixture, "claim pool=p types=t pods=x-6 \n node n1 pods=x-1..5");
    check(
        "pool p \n node n1 cpu=100 \n csinode n1 limit=ebs.csi.aws.com:10 \n sc fast \n pvc shared sc=fast \n pod x x100 cpu=1 pvc=shared",
        "node n1 pods=x-1..100",
    );
    // In-tree names count for the CSI driver that replaced them, and volumes of running pods count.
    let bound = |provisioner: &str| {
        format!(
            "pool p \n node n1 \n csinode n1 limit=ebs.csi.aws.com:1 \n sc fast provisioner={provisioner} \n pvc old sc=fast \n pvc new sc=fast
             pod old on=n1 pvc=old \n pod x cpu=1 pvc=new"
        )
    };
    check(&bound("kubernetes.io/aws-ebs"), "claim pool=p types=t pods=x");
    check(&bound("ebs.csi.aws.com"), "claim pool=p types=t pods=x");
    check(&bound("nfs.csi.k8s.io"), "node n1 pods=x");
    // A volume without a driver, and a node without limits.
    check(
        "pool p \n node n1 \n csinode n1 limit=ebs.csi.aws.com:0 \n pv v \n pvc c pv=v \n pod x cpu=1 pvc=c",
        "node n1 pods=x",
    );
    check("pool p \n node n1 \n sc fast \n pvc c sc=fast \n pod x cpu=1 pvc=c", "node n1 pods=x");
}

#[test]
fn spec_02_113_pods_with_unusable_volume_claims_launch_nothing() {
    for volumes in [
        "pvc c sc=fast deleting",
        "pvc c pv=v lost",
        "pvc c sc=now",
        "pvc c pv=v unannotated",
        "pvc c pv=none",
        "pvc c pv=old",
        "pvc c ns=other sc=fast",
    ] {
        let fixture = format!(
            "pool p \n sc fast \n sc now immediate \n pv v \n pv old deleting \n {volumes} \n pod x cpu=1 pvc=c"
        );
        check(&fixture, "unplaced x VolumeNotUsable");
    }
}

#[test]
fn spec_02_114_a_bound_claim_needs_no_storage_class() {
    for class in ["", "sc=", "sc=missing"] {
        check(&format!("pool p \n pv v \n pvc c pv=v {class} \n pod x cpu=1 pvc=c"), "claim pool=p types=t pods=x");
        check(&format!("pool p \n pvc c {class} \n pod x cpu=1 pvc=c"), "unplaced x VolumeNotUsable");
    }
}

#[test]
fn section_9_1_every_problem_of_a_claim_has_a_message() {
    let reason = |claim: &str| {
        unplaced_reason(&format!("pool p \n sc fast \n sc now immediate \n sc rack term=\"rack In r1\" \n pv v driver=d \n pv old deleting
        unsupported provisioner=d key=rack \n {claim} \n pod x cpu=1 pvc=c"), "x")
    };
    assert_eq!(
        reason(""),
        "getting persistent volume claim, persistentvolumeclaims \"c\" not found (PersistentVolumeClaim=c)"
    );
    for (claim, problem) in [
        ("pvc c sc=fast deleting", "persistentvolumeclaim is being deleted (PersistentVolumeClaim=default/c)"),
        (
            "pvc c pv=v lost",
            "persistentvolumeclaim bound to non-existent persistentvolume (PersistentVolume=v, PersistentVolumeClaim=default/c)",
        ),
        (
            "pvc c pv=none",
            "failed to validate pvc, persistentvolumes \"none\" not found (PersistentVolume=none, \
             PersistentVolumeClaim=default/c, StorageClass=)",
        ),
        (
            "pvc c pv=old sc=fast",
            "failed to validate pvc, persistentvolume is being deleted (PersistentVolume=old, \
             PersistentVolumeClaim=default/c, StorageClass=fast)",
        ),
        (
            "pvc c pv=v unannotated",
            "pvc is considered unbound because it does not contain annotation (PersistentVolume=v, \
             PersistentVolumeClaim=default/c, annotation=pv.kubernetes.io/bind-completed)",
        ),
        ("pvc c", "unbound pvc must define a storage class (PersistentVolumeClaim=default/c, StorageClass=)"),
        (
            "pvc c sc=missing",
            "failed to validate pvc, failed to get storage class, storageclasses.storage.k8s.io \"missing\" not found \
             (PersistentVolumeClaim=default/c, StorageClass=missing)",
        ),
        (
            "pvc c sc=now",
            "failed to validate pvc, pvc with immediate volume binding mode must be bound (PersistentVolumeClaim=default/c, \
             StorageClass=now)",
        ),
        (
            "pvc c sc=rack",
            "failed to validate pvc, storage class uses unsupported topology key (PersistentVolumeClaim=default/c, \
             StorageClass=rack, TopologyKey=rack)",
        ),
        (
            "pvc c pv=v",
            "failed to validate pvc, provisioner is not supported (PersistentVolumeClaim=default/c, Provisioner=d, \
             StorageClass=)",
        ),
    ] {
        assert_eq!(reason(claim), problem, "{claim}");
    }
}

#[test]
fn the_message_names_the_first_of_two_invalid_claims() {
    let fixture = "pool p \n pod x cpu=1 pvc=one,two";
    assert!(unplaced_reason(fixture, "x").contains("\"one\" not found"), "{}", solved_text(fixture));
    // Spread and volumes together: the volume decides the zone, and the pod's own rules count.
    assert_eq!(
        pod_counts_per_domain(
            "pool p \n pv v term=\"zone In a\" \n pvc c pv=v \n pod x x2 cpu=1 labels=app:x spread=zone:1:app=x pvc=c",
            "zone"
        ),
        [1]
    );
    assert_eq!(Fixture::new("pod x cpu=1").input.pods.len(), 1);
}
