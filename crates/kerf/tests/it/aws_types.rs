//! Plans with EC2 instance types: which pods fit on them.

use serde_json::{Value, json};

use crate::program::kerf;

const POOL_AND_CLASS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/aws/getting-started.yaml");

fn pod(name: &str, requests: &Value, node_selector: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
            "nodeSelector": node_selector,
        },
    })
}

/// Returns the pods of each NodeClaim of the plan, and the pods that stay pending.
fn plan(pods: &[Value]) -> (Vec<String>, Vec<String>) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods}).to_string();
    let arguments = [
        "plan",
        "--provider",
        "aws",
        "--region",
        "us-west-2",
        "-o",
        "json",
        "--no-stats",
        "-f",
        POOL_AND_CLASS,
        "-f",
        "-",
    ];
    let output = kerf(&arguments).stdin(&list).run();
    let plan: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.stderr));
    let provisioning = &plan["provisioning"];
    let texts = |list: &Value| {
        let names = list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().replace("default/", ""));
        names.collect::<Vec<_>>().join(",")
    };
    let claims = provisioning["nodeClaims"].as_array().unwrap().iter().map(|claim| texts(&claim["pods"])).collect();
    let pending = provisioning["unschedulable"].as_array().unwrap();
    (claims, pending.iter().map(|entry| entry["pod"].as_str().unwrap().replace("default/", "")).collect())
}

// spec 05 #26
#[test]
fn spec_05_26_pods_share_the_ephemeral_storage_of_the_root_volume() {
    let with_storage = |name: &str, amount: &str| pod(name, &json!({"ephemeral-storage": amount}), &json!({}));
    let none: Vec<String> = Vec::new();
    assert_eq!(plan(&[with_storage("a", "19Gi")]), (none.clone(), vec!["a".to_owned()]));
    assert_eq!(plan(&[with_storage("a", "10Gi")]), (vec!["a".to_owned()], none.clone()));
    let (mut claims, pending) = plan(&[with_storage("a", "10Gi"), with_storage("b", "10Gi")]);
    claims.sort();
    assert_eq!((claims, pending), (vec!["a".to_owned(), "b".to_owned()], none));
}

// spec 05 #29
#[test]
fn spec_05_29_a_type_without_trunking_has_no_pod_interfaces() {
    let on = |name: &str| {
        pod(name, &json!({"vpc.amazonaws.com/pod-eni": "1"}), &json!({"node.kubernetes.io/instance-type": name}))
    };
    let (claims, pending) = plan(&[on("r5.large"), on("m4.large")]);
    assert_eq!((claims, pending), (vec!["r5.large".to_owned()], vec!["m4.large".to_owned()]));
}

// spec 05 #9
#[test]
fn spec_05_9_old_labels_and_the_ebs_zone_label_are_those_of_today() {
    for selector in [
        json!({"topology.ebs.csi.aws.com/zone": "us-west-2b"}),
        json!({"failure-domain.beta.kubernetes.io/zone": "us-west-2b", "beta.kubernetes.io/arch": "amd64"}),
        json!({"beta.kubernetes.io/instance-type": "m5.large", "beta.kubernetes.io/os": "linux"}),
    ] {
        let (claims, pending) = plan(&[pod("a", &json!({"cpu": "1"}), &selector)]);
        assert_eq!((claims, pending), (vec!["a".to_owned()], Vec::new()), "{selector}");
    }
    let (claims, pending) =
        plan(&[pod("a", &json!({"cpu": "1"}), &json!({"topology.ebs.csi.aws.com/zone": "us-east-1b"}))]);
    assert_eq!((claims, pending), (Vec::new(), vec!["a".to_owned()]));
}
