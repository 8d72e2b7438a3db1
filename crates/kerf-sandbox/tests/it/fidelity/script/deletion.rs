//! Deletion: grace periods, finalizers, preconditions, collections, owners and dependents,
//! namespaces.

use serde_json::{Value, json};

use super::{Section, config_map, pod};
use crate::fidelity::step::{JSON_PATCH, MERGE};

const MAPS: &str = "/api/v1/namespaces/deletion/configmaps";
const PODS: &str = "/api/v1/namespaces/deletion/pods";

/// Returns a `ConfigMap` with an owner reference.
fn owned(name: &str, by: &str, uid: &str, blocks: bool) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": by, "uid": uid, "blockOwnerDeletion": blocks}]}})
}

pub(super) fn section() -> Section {
    let mut s = Section::new("deletion");
    s.namespace("deletion");
    s.post("a map", MAPS, config_map("a"))
        .capture("deletion-uid", "/metadata/uid")
        .capture("deletion-rv", "/metadata/resourceVersion");
    s.delete(
        "of another uid",
        &format!("{MAPS}/a"),
        json!({"preconditions": {"uid": "44444444-4444-4444-4444-444444444444"}}),
    );
    s.delete("of another version", &format!("{MAPS}/a"), json!({"preconditions": {"resourceVersion": "1"}}));
    s.delete("in a dry run", &format!("{MAPS}/a?dryRun=All"), json!(null));
    s.delete(
        "with two ways to orphan",
        &format!("{MAPS}/a"),
        json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
    );
    s.delete("with an unknown way", &format!("{MAPS}/a?propagationPolicy=Sideways"), json!(null));
    s.delete("with an unknown way in its body", &format!("{MAPS}/a"), json!({"propagationPolicy": "Sideways"}));
    s.delete("with options that are none", &format!("{MAPS}/a"), json!({"kind": "Pod", "apiVersion": "v1"}));
    s.delete("with a grace that is none", &format!("{MAPS}/a?gracePeriodSeconds=x"), json!(null));
    s.delete(
        "with its uid and version",
        &format!("{MAPS}/a"),
        json!({"preconditions": {"uid": "{deletion-uid}", "resourceVersion": "{deletion-rv}"}}),
    );
    s.delete("again", &format!("{MAPS}/a"), json!(null));

    s.post(
        "a held map",
        MAPS,
        json!({"metadata": {"name": "held", "finalizers": ["example.com/one", "example.com/two"]}}),
    );
    s.delete("the held map", &format!("{MAPS}/held"), json!(null));
    s.delete("the held map again", &format!("{MAPS}/held"), json!(null));
    s.patch(
        "a finalizer more",
        &format!("{MAPS}/held"),
        MERGE,
        json!({"metadata": {"finalizers": ["example.com/one", "example.com/two", "example.com/three"]}}),
    );
    s.patch("other data while it goes", &format!("{MAPS}/held"), MERGE, json!({"data": {"still": "here"}}));
    s.patch("life again", &format!("{MAPS}/held"), MERGE, json!({"metadata": {"deletionTimestamp": null}}));
    s.patch(
        "a finalizer less",
        &format!("{MAPS}/held"),
        JSON_PATCH,
        json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
    );
    s.post("its name is taken", MAPS, config_map("held"));
    s.patch("the last finalizer", &format!("{MAPS}/held"), MERGE, json!({"metadata": {"finalizers": null}}));
    s.get("it is gone", &format!("{MAPS}/held"));

    s.post("a pod", PODS, pod("p"));
    s.delete("a pod that runs nowhere", &format!("{PODS}/p"), json!(null));
    s.post("a node for pods", "/api/v1/nodes", json!({"metadata": {"name": "deletion-node"}}));
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = json!("deletion-node");
    s.post("a bound pod", PODS, bound);
    s.delete("a pod that runs", &format!("{PODS}/bound?gracePeriodSeconds=20"), json!(null));
    s.delete("with more grace than before", &format!("{PODS}/bound?gracePeriodSeconds=40"), json!(null));
    s.delete("with less grace", &format!("{PODS}/bound"), json!({"gracePeriodSeconds": 5}));
    s.delete("with no grace below zero", &format!("{PODS}/bound?gracePeriodSeconds=-3"), json!(null));
    s.delete("at once", &format!("{PODS}/bound?gracePeriodSeconds=0"), json!(null));
    s.get("the pod is gone", &format!("{PODS}/bound"));
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/one"]);
    s.post("a held pod", PODS, held);
    s.delete("the held pod at once", &format!("{PODS}/held?gracePeriodSeconds=0"), json!(null));
    s.patch("the held pod is let go", &format!("{PODS}/held"), MERGE, json!({"metadata": {"finalizers": []}}));

    for name in ["m1", "m2", "m3"] {
        s.post(
            &format!("map {name}"),
            MAPS,
            json!({"metadata": {"name": name, "labels": {"many": "x", "name": name}}}),
        );
    }
    s.delete("many by label", &format!("{MAPS}?labelSelector=name%20in%20(m1,m2)"), json!(null));
    s.get("one is left", &format!("{MAPS}?labelSelector=many"));
    s.delete("many by field", &format!("{MAPS}?fieldSelector=metadata.name%3Dm3"), json!(null));
    s.delete("all of nothing", &format!("{MAPS}?labelSelector=many"), json!(null));

    s.post("an owner", MAPS, config_map("owner")).capture("owner", "/metadata/uid");
    s.post("a child", MAPS, owned("child", "owner", "{owner}", true));
    s.delete(
        "the owner, children in the background",
        &format!("{MAPS}/owner"),
        json!({"propagationPolicy": "Background"}),
    );
    s.get("the child follows", &format!("{MAPS}/child")).until_code(404);
    s.post("a second owner", MAPS, config_map("owner")).capture("owner2", "/metadata/uid");
    s.post("a second child", MAPS, owned("child", "owner", "{owner2}", true));
    s.delete("the owner, children first", &format!("{MAPS}/owner?propagationPolicy=Foreground"), json!(null));
    s.get("both are gone", &format!("{MAPS}/owner")).until_code(404);
    s.get("the child too", &format!("{MAPS}/child"));
    s.post("a third owner", MAPS, config_map("owner")).capture("owner3", "/metadata/uid");
    s.post("a third child", MAPS, owned("child", "owner", "{owner3}", true));
    s.delete("the owner, children stay", &format!("{MAPS}/owner?propagationPolicy=Orphan"), json!(null));
    s.get("the owner is gone", &format!("{MAPS}/owner")).until_code(404);
    s.get("the child is an orphan", &format!("{MAPS}/child"));
    s.post("a child of nobody", MAPS, owned("lost", "never", "55555555-5555-5555-5555-555555555555", false));
    s.get("it is collected", &format!("{MAPS}/lost")).until_code(404);

    s.post("a namespace", "/api/v1/namespaces", json!({"metadata": {"name": "doomed"}}));
    s.post(
        "a map in it",
        "/api/v1/namespaces/doomed/configmaps",
        json!({"metadata": {"name": "x", "finalizers": ["example.com/hold"]}}),
    );
    s.delete("the namespace goes", "/api/v1/namespaces/doomed", json!(null)).ignore(&["/metadata/managedFields"]);
    s.get("the map is told", "/api/v1/namespaces/doomed/configmaps/x").until("/metadata/deletionGracePeriodSeconds", 0);
    s.post("nothing new in it", "/api/v1/namespaces/doomed/configmaps", config_map("y"));
    s.patch("the map goes", "/api/v1/namespaces/doomed/configmaps/x", MERGE, json!({"metadata": {"finalizers": null}}));
    s.get("the namespace is gone", "/api/v1/namespaces/doomed").until_code(404);
    s.delete("no namespace", "/api/v1/namespaces/doomed", json!(null));
    s.delete("the default namespace", "/api/v1/namespaces/default", json!(null));
    s.delete("all namespaces", "/api/v1/namespaces", json!(null));
    s
}
