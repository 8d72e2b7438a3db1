//! Watches of one second each: their events from a given version on, their beginning and their end.

use serde_json::json;

use super::{Section, config_map};
use crate::fidelity::step::{MERGE, TABLE};

const MAPS: &str = "/api/v1/namespaces/watches/configmaps";
const WATCH: &str = "/api/v1/namespaces/watches/configmaps?watch=true&timeoutSeconds=1";

pub(super) fn section() -> Section {
    let mut s = Section::new("watches");
    s.namespace("watches");
    let mut labelled = config_map("a");
    labelled["metadata"]["labels"] = json!({"w": "1"});
    s.post("a map", MAPS, labelled).capture("watches-rv", "/metadata/resourceVersion");
    s.patch("changed", &format!("{MAPS}/a"), MERGE, json!({"data": {"a": "2"}}))
        .capture("watches-rv2", "/metadata/resourceVersion");
    s.patch("changed in its labels", &format!("{MAPS}/a"), MERGE, json!({"metadata": {"labels": {"w": "2"}}}));
    s.post("another", MAPS, config_map("b"));
    s.delete("gone", &format!("{MAPS}/a"), json!(null));
    // Every namespace gets a ConfigMap with the cluster's certificates at some time.
    let ours = "fieldSelector=metadata.name!%3Dkube-root-ca.crt";
    s.get("from the first change", &format!("{WATCH}&resourceVersion={{watches-rv}}&{ours}"));
    s.get("from the second", &format!("{WATCH}&resourceVersion={{watches-rv2}}&{ours}"));
    s.get("by a label that comes and goes", &format!("{WATCH}&resourceVersion={{watches-rv}}&labelSelector=w%3D2"));
    s.get("by a label that goes", &format!("{WATCH}&resourceVersion={{watches-rv}}&labelSelector=w%3D1"));
    s.get("by name", &format!("{WATCH}&resourceVersion={{watches-rv}}&fieldSelector=metadata.name%3Db"));
    s.get("from now", &format!("{WATCH}&resourceVersion=0&fieldSelector=metadata.name%3Db"));
    s.get("from the beginning", &format!("{WATCH}&fieldSelector=metadata.name%3Db"));
    s.get("with a beginning and its end", &format!("{WATCH}&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&fieldSelector=metadata.name%3Db"))
        .ignore(&["/1/object/metadata/annotations"]);
    s.get("a beginning without a match", &format!("{WATCH}&sendInitialEvents=true"));
    s.get("a match without a beginning", &format!("{WATCH}&resourceVersionMatch=NotOlderThan"));
    s.get(
        "a beginning that is not watched",
        &format!("{MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
    );
    s.get("from a version that is none", &format!("{WATCH}&resourceVersion=x"));
    s.get("for a time that is none", &format!("{MAPS}?watch=true&timeoutSeconds=x"));
    s.get("as a table", &format!("{WATCH}&resourceVersion={{watches-rv2}}&labelSelector=w%3D2"))
        .accept(TABLE)
        .ignore(&["/*/object/columnDefinitions", "/*/object/rows/*/cells"]);
    s.get("metadata alone", &format!("{WATCH}&resourceVersion={{watches-rv2}}&labelSelector=w%3D2"))
        .accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    s.get("by the old path", "/api/v1/watch/namespaces/watches/configmaps/b?watch=true&timeoutSeconds=1");
    s.get("of one object", &format!("{MAPS}/b?watch=true&timeoutSeconds=1"));
    s.get("of a missing resource", "/api/v1/namespaces/watches/widgets?watch=true&timeoutSeconds=1");
    s
}
