//! Requests and limits of containers and of whole pods: defaults, rejections and messages.

use serde_json::{Value, json};

use super::Section;

const PODS: &str = "/api/v1/namespaces/resources/pods?dryRun=All";

/// Returns a pod with one container for each entry of `containers`, and the pod-level resources
/// `own`.
fn pod(containers: &[Value], own: &Value) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .enumerate()
        .map(|(index, resources)| json!({"name": format!("c{index}"), "image": "a", "resources": resources}))
        .collect();
    json!({"metadata": {"name": "x"}, "spec": {"automountServiceAccountToken": false, "containers": containers, "resources": own}})
}

fn cpu_request(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu}})
}

pub(super) fn section() -> Section {
    let mut s = Section::new("resources");
    s.namespace("resources");
    whole_pods(&mut s);
    init_containers(&mut s);
    huge_pages(&mut s);
    containers(&mut s);
    s
}

fn whole_pods(s: &mut Section) {
    let half = || cpu_request("500m");
    for (title, pod) in [
        ("requests with room", pod(&[half(), half()], &cpu_request("1"))),
        ("requests below the containers'", pod(&[half(), half()], &cpu_request("900m"))),
        ("requests below one container's", pod(&[half()], &cpu_request("100m"))),
        (
            "memory below the containers'",
            pod(&[json!({"requests": {"memory": "1Gi"}})], &json!({"requests": {"memory": "512Mi"}})),
        ),
        (
            "memory in other units",
            pod(
                &[json!({"requests": {"memory": "1000M"}}), json!({"requests": {"memory": "1Gi"}})],
                &json!({"requests": {"memory": "1Gi"}}),
            ),
        ),
        ("requests beside the containers'", pod(&[json!({"requests": {"memory": "1Gi"}})], &half())),
        ("limits alone", pod(&[json!({})], &json!({"limits": {"cpu": "2", "memory": "1Gi"}}))),
        ("limits beside requests of containers", pod(&[half()], &json!({"limits": {"cpu": "2", "memory": "1Gi"}}))),
        ("limits below a container's requests", pod(&[half(), half()], &json!({"limits": {"cpu": "900m"}}))),
        (
            "limits below a container's limits",
            pod(&[json!({"limits": {"cpu": "2"}})], &json!({"limits": {"cpu": "1"}, "requests": {"cpu": "3"}})),
        ),
        (
            "a limit below a container's limit",
            pod(&[json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})], &json!({"limits": {"cpu": "1"}})),
        ),
        (
            "limits below those of all containers",
            pod(
                &[
                    json!({"limits": {"cpu": "1"}, "requests": {"cpu": "0"}}),
                    json!({"limits": {"cpu": "1"}, "requests": {"cpu": "0"}}),
                ],
                &json!({"limits": {"cpu": "1"}}),
            ),
        ),
        ("requests beyond limits", pod(&[json!({})], &json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}))),
        ("negative requests", pod(&[json!({})], &cpu_request("-1"))),
        ("an unsupported resource", pod(&[json!({})], &json!({"requests": {"ephemeral-storage": "1Gi"}}))),
        (
            "an unsupported limit",
            pod(&[json!({})], &json!({"limits": {"ephemeral-storage": "1Gi"}, "requests": {"cpu": "1"}})),
        ),
        ("a device", pod(&[json!({})], &json!({"limits": {"example.com/gpu": "1"}}))),
        ("an unknown resource", pod(&[json!({})], &json!({"requests": {"gold": "1"}}))),
        ("nothing at all", pod(&[half()], &json!({}))),
    ] {
        s.post(&format!("pod: {title}"), PODS, pod);
    }
    let mut windows = pod(&[half()], &cpu_request("1"));
    windows["spec"]["os"] = json!({"name": "windows"});
    s.post("pod: on Windows", PODS, windows);
    let mut claiming = pod(&[half()], &json!({"requests": {"cpu": "1"}, "claims": [{"name": "g"}]}));
    claiming["spec"]["resourceClaims"] = json!([{"name": "g", "resourceClaimTemplateName": "t"}]);
    s.post("pod: with claims", PODS, claiming);
    let mut template = pod(&[half(), half()], &cpu_request("900m"));
    template["metadata"] = json!({"labels": {"a": "b"}});
    let deployment =
        json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    s.post("a template with too little", "/apis/apps/v1/namespaces/resources/deployments?dryRun=All", deployment);
}

fn init_containers(s: &mut Section) {
    let with = |init: Value, own: &str| {
        let mut pod = pod(&[cpu_request("500m")], &cpu_request(own));
        pod["spec"]["initContainers"] = init;
        pod
    };
    let first = json!([{"name": "i", "image": "a", "resources": cpu_request("2")}]);
    let sidecar = json!([{"name": "i", "image": "a", "restartPolicy": "Always", "resources": cpu_request("1")}]);
    let both = json!([
        {"name": "i", "image": "a", "restartPolicy": "Always", "resources": cpu_request("1")},
        {"name": "j", "image": "a", "resources": cpu_request("2")},
        {"name": "k", "image": "a", "restartPolicy": "Always", "resources": cpu_request("250m")},
    ]);
    for (title, pod) in [
        ("an init container that needs more", with(first.clone(), "1")),
        ("an init container that fits", with(first, "2")),
        ("a sidecar that is too much", with(sidecar.clone(), "1")),
        ("a sidecar that fits", with(sidecar, "1500m")),
        ("an init container beside a sidecar", with(both.clone(), "2")),
        ("an init container and sidecars that fit", with(both, "3")),
    ] {
        s.post(&format!("pod: {title}"), PODS, pod);
    }
}

fn huge_pages(s: &mut Section) {
    let pages = |amount: &str| json!({"limits": {"hugepages-2Mi": amount}, "requests": {"cpu": "100m", "hugepages-2Mi": amount}});
    for (title, pod) in [
        ("huge pages", pod(&[pages("2Mi"), pages("4Mi")], &cpu_request("1"))),
        (
            "huge pages below the containers'",
            pod(
                &[pages("2Mi")],
                &json!({"limits": {"hugepages-2Mi": "0"}, "requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}),
            ),
        ),
        ("huge pages alone", pod(&[json!({})], &json!({"limits": {"hugepages-2Mi": "2Mi"}}))),
        ("huge pages without a limit", pod(&[json!({})], &json!({"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}))),
        (
            "part of a huge page",
            pod(
                &[json!({})],
                &json!({"limits": {"cpu": "1", "hugepages-2Mi": "1Mi"}, "requests": {"hugepages-2Mi": "2Mi"}}),
            ),
        ),
    ] {
        s.post(&format!("pod: {title}"), PODS, pod);
    }
}

fn containers(s: &mut Section) {
    let container = |resources: Value| json!({"metadata": {"name": "x"}, "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "a", "resources": resources}]}});
    for (title, pod) in [
        ("storage", container(json!({"requests": {"storage": "1Gi"}}))),
        ("what only quotas have", container(json!({"requests": {"requests.cpu": "1"}}))),
        ("a bad name", container(json!({"requests": {"_cpu": "1"}}))),
        (
            "a device of another name",
            container(
                json!({"limits": {"requests.example.com/gpu": "1"}, "requests": {"requests.example.com/gpu": "1"}}),
            ),
        ),
        (
            "fewer devices than the limit",
            container(json!({"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}})),
        ),
        ("huge pages alone", container(json!({"limits": {"hugepages-2Mi": "2Mi"}}))),
        (
            "part of a huge page",
            container(
                json!({"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}}),
            ),
        ),
        (
            "huge pages of no size",
            container(json!({"limits": {"cpu": "1", "hugepages-many": "2Mi"}, "requests": {"cpu": "1"}})),
        ),
    ] {
        s.post(&format!("container: {title}"), PODS, pod);
    }
}
