//! Creating and replacing: names, versions, dry runs, strictness, and invalid bodies.

use serde_json::json;

use super::{Section, config_map, pod};
use crate::fidelity::step::JSON;

const MAPS: &str = "/api/v1/namespaces/bodies/configmaps";
const PODS: &str = "/api/v1/namespaces/bodies/pods";

pub(super) fn section() -> Section {
    let mut s = Section::new("bodies");
    s.namespace("bodies");
    s.post("a map", MAPS, config_map("a"))
        .capture("bodies-rv", "/metadata/resourceVersion")
        .capture("bodies-uid", "/metadata/uid");
    s.post("the same map again", MAPS, config_map("a"));
    s.get("the map", &format!("{MAPS}/a"));
    s.put("replaced", &format!("{MAPS}/a"), json!({"metadata": {"name": "a"}, "data": {"a": "2"}}))
        .compare_managed_fields();
    s.put(
        "replaced, of an old version",
        &format!("{MAPS}/a"),
        json!({"metadata": {"name": "a", "resourceVersion": "{bodies-rv}"}}),
    );
    s.put(
        "replaced, with another uid",
        &format!("{MAPS}/a"),
        json!({"metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}}),
    );
    s.put(
        "replaced, with its uid",
        &format!("{MAPS}/a"),
        json!({"metadata": {"name": "a", "uid": "{bodies-uid}", "labels": {"x": "y"}}}),
    );
    s.put("replaced by another name", &format!("{MAPS}/a"), config_map("b"));
    s.put("replaced where there is nothing", &format!("{MAPS}/none"), config_map("none"));
    s.put("replaced without a name", &format!("{MAPS}/a"), json!({"data": {"a": "4"}}));
    s.put(
        "replaced in another namespace",
        &format!("{MAPS}/a"),
        json!({"metadata": {"name": "a", "namespace": "default"}}),
    );
    s.put(
        "replaced by another kind",
        &format!("{MAPS}/a"),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
    );
    s.put(
        "replaced by another group",
        &format!("{MAPS}/a"),
        json!({"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    );
    s.put("a collection", MAPS, config_map("a"));
    s.post("to a name", &format!("{MAPS}/a"), config_map("a"));
    s.post("with a version", MAPS, json!({"metadata": {"name": "v", "resourceVersion": "7"}}));
    s.post(
        "with a uid of its own",
        MAPS,
        json!({"metadata": {"name": "u", "uid": "11111111-1111-1111-1111-111111111111"}}),
    );
    s.post("in another namespace", MAPS, json!({"metadata": {"name": "n", "namespace": "default"}}));
    s.post("where there is no namespace", "/api/v1/namespaces/nowhere/configmaps", config_map("a"));
    s.post("with a generated name", MAPS, json!({"metadata": {"generateName": "gen-"}}));
    s.post("with a generated name that is too long", MAPS, json!({"metadata": {"generateName": "g".repeat(260)}}))
        .ignore(&["/details/name", "/message"]);
    s.post("with long labels", MAPS, json!({"metadata": {"name": "l", "labels": {"a".repeat(64): "b".repeat(64)}}}));
    s.post("without a name", MAPS, json!({"metadata": {}}));
    s.post("with a bad name", MAPS, json!({"metadata": {"name": "A_b"}}));
    s.post("with a long name", MAPS, json!({"metadata": {"name": "a".repeat(254)}}));
    // One error per request: the real server lists several in random order.
    s.post("with a bad label", MAPS, json!({"metadata": {"name": "l", "labels": {"a b": "c", "ok": "x"}}}));
    s.post("with a bad value of a label", MAPS, json!({"metadata": {"name": "l", "labels": {"d": "e f", "ok": "x"}}}));
    s.post("with bad annotations", MAPS, json!({"metadata": {"name": "l", "annotations": {"a b": "c"}}}));
    s.post("with a bad finalizer", MAPS, json!({"metadata": {"name": "l", "finalizers": ["unqualified"]}}));
    s.post("with a bad owner", MAPS, json!({"metadata": {"name": "l", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]}}));
    s.post("with two controllers", MAPS, json!({"metadata": {"name": "l", "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "a", "controller": true}, {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "b", "controller": true}]}}));
    s.post("with a bad key", MAPS, json!({"metadata": {"name": "k"}, "data": {"a b": "c"}}));
    s.post(
        "with one key in both",
        MAPS,
        json!({"metadata": {"name": "k"}, "data": {"a": "c"}, "binaryData": {"a": "AA=="}}),
    );
    s.post("immutable", MAPS, json!({"metadata": {"name": "fixed"}, "immutable": true, "data": {"a": "b"}}));
    s.put(
        "immutable, changed",
        &format!("{MAPS}/fixed"),
        json!({"metadata": {"name": "fixed"}, "immutable": true, "data": {"a": "c"}}),
    );
    s.put("immutable no more", &format!("{MAPS}/fixed"), json!({"metadata": {"name": "fixed"}, "data": {"a": "b"}}));
    s.post("dry", &format!("{MAPS}?dryRun=All"), config_map("dry"));
    s.get("nothing of it remains", &format!("{MAPS}/dry"));
    s.post("half dry", &format!("{MAPS}?dryRun=Some"), config_map("dry"));
    s.put(
        "replaced in a dry run",
        &format!("{MAPS}/a?dryRun=All"),
        json!({"metadata": {"name": "a"}, "data": {"z": "z"}}),
    );
    s.get("unchanged by it", &format!("{MAPS}/a"));
    let odd = json!({"metadata": {"name": "odd", "foo": 1}, "bar": {"x": 1}});
    s.post("unknown fields, strictly", &format!("{MAPS}?fieldValidation=Strict"), odd.clone());
    s.post("unknown fields, with a warning", &format!("{MAPS}?fieldValidation=Warn"), odd.clone());
    s.post("unknown fields, ignored", &format!("{MAPS}?fieldValidation=Ignore&dryRun=All"), odd.clone());
    s.post("an unknown strictness", &format!("{MAPS}?fieldValidation=Maybe"), odd);
    s.post("a field twice, strictly", &format!("{MAPS}?fieldValidation=Strict"), json!(null))
        .text(r#"{"metadata":{"name":"t"},"data":{"a":"1"},"data":{"a":"2"}}"#);
    s.post("a pod with unknown fields, strictly", &format!("{PODS}?fieldValidation=Strict"), {
        let mut odd = pod("odd");
        odd["spec"]["containers"][0]["imagine"] = json!("x");
        odd
    });
    s.post("a number for a text", MAPS, json!({"metadata": {"name": "t"}, "data": {"a": 1}}));
    s.post("a list for an object", MAPS, json!({"metadata": [], "data": {}}));
    s.post("no JSON", MAPS, json!(null)).text("{not json");
    s.post("half of JSON", MAPS, json!(null)).text(r#"{"metadata":{"#);
    s.post("a text", MAPS, json!("text"));
    s.post("an empty body", MAPS, json!(null)).text(" ");
    s.post("another kind", MAPS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}));
    s.post("another version", MAPS, json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}}));
    s.post("YAML", MAPS, json!(null)).content("application/yaml").text("metadata: {name: yaml}\ndata: {a: b}\n");
    s.post("YAML with tabs", MAPS, json!(null)).content("application/yaml").text("metadata:\n\tname: x\n");
    s.post("plain text", MAPS, json!(null)).content("text/plain").text("hello");
    s.post("XML", MAPS, json!(null)).content("application/xml").text("<a/>");
    s.get("as HTML", &format!("{MAPS}/a")).accept("text/html");
    s.get("as anything", &format!("{MAPS}/a")).accept("*/*");
    s.step("an unknown method", "BREW", &format!("{MAPS}/a"), JSON, &json!(null));
    s.step("a patch of a collection", "PATCH", MAPS, JSON, &json!({}));
    s
}
