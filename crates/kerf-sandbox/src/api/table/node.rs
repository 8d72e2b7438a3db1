//! The table of nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::layout::{TableLayout, TableRow};
use crate::api::object;

pub(super) const LAYOUTS: &[TableLayout] = &[TableLayout {
    group: "",
    plural: "nodes",
    columns: &[
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
        "*Internal-IP",
        "*External-IP",
        "*OS-Image",
        "*Kernel-Version",
        "*Container-Runtime",
    ],
    cells,
}];

fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let info = |key: &str| row.text_or(&["status", "nodeInfo", key], "<unknown>");
    let kernel = match object::text(row.object, &["status", "nodeInfo", "architecture"]) {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion").as_str().unwrap_or_default()).into(),
    };
    vec![
        row.name(),
        status(row.object).into(),
        roles(row.object).into(),
        row.age(),
        row.text(&["status", "nodeInfo", "kubeletVersion"]),
        address(row.object, "InternalIP").into(),
        address(row.object, "ExternalIP").into(),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}

fn status(node: &Value) -> String {
    let ready = object::list(node, &["status", "conditions"])
        .iter()
        .find(|condition| object::text(condition, &["type"]) == "Ready");
    let mut status = match ready.map(|condition| object::text(condition, &["status"])) {
        Some("True") => "Ready".to_string(),
        Some(_) => "NotReady".to_string(),
        None => "Unknown".to_string(),
    };
    if object::flag(node, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let labels = object::at(node, &["metadata", "labels"]).and_then(Value::as_object);
    let mut roles = BTreeSet::new();
    for (key, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => drop(roles.insert(role)),
            None if key == "kubernetes.io/role" && !value.is_empty() => drop(roles.insert(value)),
            _ => {}
        }
    }
    if roles.is_empty() { "<none>".into() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let entry =
        object::list(node, &["status", "addresses"]).iter().find(|address| object::text(address, &["type"]) == kind);
    entry.map_or("<none>", |address| object::text(address, &["address"]))
}
