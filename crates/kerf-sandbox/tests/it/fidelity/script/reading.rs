//! Lists: selectors, pages, tables, metadata only, versions.

use serde_json::{Value, json};

use super::Section;
use crate::fidelity::step::TABLE;

const MAPS: &str = "/api/v1/namespaces/reading/configmaps";
const PODS: &str = "/api/v1/namespaces/reading/pods";

pub(super) fn section() -> Section {
    let mut s = Section::new("reading");
    s.namespace("reading");
    for (name, tier, track) in
        [("a", "front", "1"), ("b", "front", "2"), ("c", "back", "1"), ("d", "back", "2"), ("e", "", "10")]
    {
        let labels: Value = [("tier", tier), ("track", track)]
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect();
        s.post(&format!("map {name}"), MAPS, json!({"metadata": {"name": name, "labels": labels}}));
    }
    let names = ["/items/*/data", "/items/*/metadata/creationTimestamp"];
    for (title, selector) in [
        ("equal", "tier%3Dfront"),
        ("equal twice", "tier%3D%3Dfront"),
        ("unequal", "tier!%3Dfront,track"),
        ("both", "tier%3Dfront,track%3D2"),
        ("in", "track%20in%20(1,10)"),
        ("not in", "tier%20notin%20(front),track"),
        ("exists", "tier"),
        ("does not", "!tier,track"),
        ("greater", "track%3E1"),
        ("less", "track%3C10"),
        ("nothing matches", "tier%3Dnone"),
        ("empty value", "tier%3D"),
        ("a broken one", "tier%3D%3D%3Dx"),
        ("an open bracket", "tier%20in%20(a"),
        ("a bad key", "a%20b%3Dc"),
        ("a bad value", "tier%3Da%20b"),
        ("greater than a word", "track%3Ex"),
        ("an empty set", "tier%20in%20()"),
    ] {
        s.get(&format!("label {title}"), &format!("{MAPS}?labelSelector={selector}")).ignore(&names);
    }
    for (title, selector) in [
        ("by name", "metadata.name%3Da"),
        ("by name, not", "metadata.name!%3Da"),
        ("by namespace", "metadata.namespace%3Dreading"),
        ("by another namespace", "metadata.namespace%3Dother"),
        ("by what is not selectable", "data.a%3D1"),
        ("by nonsense", "x"),
        ("by a set", "metadata.name%20in%20(a)"),
    ] {
        s.get(&format!("field {title}"), &format!("{MAPS}?labelSelector=track&fieldSelector={selector}"))
            .ignore(&names);
    }
    s.get("both selectors", &format!("{MAPS}?fieldSelector=metadata.name%3Da&labelSelector=tier%3Dfront"))
        .ignore(&names);

    for (name, node, phase) in [("p", "", "Always"), ("q", "reading-node", "Never")] {
        let mut pod = super::pod(name);
        pod["spec"]["restartPolicy"] = json!(phase);
        if !node.is_empty() {
            pod["spec"]["nodeName"] = json!(node);
        }
        // Pods of missing nodes are deleted after a while; this one is read at once.
        s.post(&format!("pod {name}"), PODS, pod);
    }
    for (title, selector) in [
        ("by phase", "status.phase%3DPending"),
        ("by another phase", "status.phase%3DRunning"),
        ("by node", "spec.nodeName%3Dreading-node"),
        ("without a node", "spec.nodeName%3D"),
        ("by restart policy", "spec.restartPolicy%3DNever"),
        ("by scheduler", "spec.schedulerName%3Dnobody"),
        ("by an unknown field", "spec.priority%3D0"),
        ("by host network", "spec.hostNetwork%3Dfalse"),
        ("by account", "spec.serviceAccountName%3Ddefault"),
    ] {
        s.get(&format!("pods {title}"), &format!("{PODS}?fieldSelector={selector}")).ignore(&[
            "/items/*/spec",
            "/items/*/status",
            "/items/*/metadata/labels",
        ]);
    }
    s.get("pods as a table", PODS).accept(TABLE).ignore(&[
        "/rows/*/cells",
        "/columnDefinitions/*/description",
        "/rows/*/object/metadata/creationTimestamp",
    ]);
    s.get("a pod as a table", &format!("{PODS}/p?includeObject=None"))
        .accept(TABLE)
        .ignore(&["/columnDefinitions/*/description", "/rows/*/cells"]);
    s.get("maps as a table with objects", &format!("{MAPS}?includeObject=Object&labelSelector=tier%3Dfront"))
        .accept(TABLE)
        .ignore(&["/columnDefinitions/*/description", "/rows/*/cells"]);
    s.get("metadata alone", &format!("{MAPS}/a"))
        .accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    s.get("metadata of all", &format!("{MAPS}?labelSelector=track"))
        .accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    s.get("an unknown shape", &format!("{MAPS}/a")).accept("application/json;as=Poem;v=v1;g=meta.k8s.io");

    s.get("the first page", &format!("{MAPS}?limit=2&labelSelector=track"))
        .capture("reading-token", "/metadata/continue")
        .ignore(&names);
    s.get("the second page", &format!("{MAPS}?limit=2&labelSelector=track&continue={{reading-token}}")).ignore(&names);
    s.get("a page that ends it", &format!("{MAPS}?limit=3&labelSelector=tier")).ignore(&names);
    s.get("a token that is none", &format!("{MAPS}?limit=2&continue=nonsense"));
    s.get("a limit that is none", &format!("{MAPS}?limit=many"));
    s.get("a negative limit", &format!("{MAPS}?limit=-1&labelSelector=tier%3Dfront")).ignore(&names);
    s.get("from the cache", &format!("{MAPS}?resourceVersion=0&labelSelector=tier%3Dfront"))
        .ignore(&names)
        .until("/items/1/metadata/name", "b");
    s.get("a version that is none", &format!("{MAPS}?resourceVersion=x"));
    s.get("exactly what", &format!("{MAPS}?resourceVersionMatch=Exact"));
    s.get("exactly nothing", &format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion=0"));
    s.get("an unknown match", &format!("{MAPS}?resourceVersionMatch=Rough&resourceVersion=1"));
    s.get(
        "a token and a match",
        &format!("{MAPS}?limit=2&resourceVersionMatch=NotOlderThan&resourceVersion=1&continue={{reading-token}}"),
    );
    s.get("of one object, at a version that is none", &format!("{MAPS}/a?resourceVersion=x"));
    s.get("maps of all namespaces", "/api/v1/configmaps?labelSelector=tier%3Dback").ignore(&names);
    s.get("a namespace without objects", "/api/v1/namespaces/nowhere/configmaps");
    s.get("a missing object", &format!("{MAPS}/zz"));
    s.get("a missing object of a group", "/apis/apps/v1/namespaces/reading/deployments/zz");
    s.get("a missing resource", "/api/v1/namespaces/reading/widgets");
    s.get("a missing group", "/apis/example.com/v1/widgets");
    s.get("a missing version", "/apis/apps/v9/deployments");
    s.get("a missing subresource", &format!("{MAPS}/a/status"));
    s.get("nothing at all", "/nowhere");
    s.get("the namespace", "/api/v1/namespaces/reading").until("/status/phase", "Active");
    s.get("the version", "/version").ignore(&[
        "/gitVersion",
        "/gitCommit",
        "/gitTreeState",
        "/buildDate",
        "/goVersion",
        "/compiler",
        "/platform",
        "/minor",
        "/emulationMajor",
        "/emulationMinor",
        "/minCompatibilityMajor",
        "/minCompatibilityMinor",
    ]);
    s.get("is it well", "/healthz");
    s.get("is it ready", "/readyz");
    s.get("is it alive", "/livez");
    s.get("the resources of policy", "/apis/policy/v1").ignore(&["/resources/*/storageVersionHash"]);
    s.get("the resources of coordination", "/apis/coordination.k8s.io/v1").ignore(&["/resources/*/storageVersionHash"]);
    s.get("the group of policy", "/apis/policy");
    s.get("core versions", "/api").ignore(&["/serverAddressByClientCIDRs"]);
    s
}
