//! Tables of volumes, claims, storage classes and CSI kinds.

use serde_json::Value;

use super::layout::{TableLayout, TableRow};
use crate::api::object;

pub(super) const LAYOUTS: &[TableLayout] = &[
    TableLayout {
        group: "",
        plural: "persistentvolumes",
        columns: &[
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            "*VolumeMode",
        ],
        cells: |row| {
            let claim = object::at(row.object, &["spec", "claimRef"]);
            let claim = claim
                .map(|claim| format!("{}/{}", object::text(claim, &["namespace"]), object::text(claim, &["name"])))
                .unwrap_or_default();
            vec![
                row.name(),
                row.text_or(&["spec", "capacity", "storage"], "0"),
                access_modes(row.object, &["spec", "accessModes"]).into(),
                row.text(&["spec", "persistentVolumeReclaimPolicy"]),
                phase(row),
                claim.into(),
                row.text(&["spec", "storageClassName"]),
                row.text_or(&["spec", "volumeAttributesClassName"], "<unset>"),
                row.text(&["status", "reason"]),
                row.age(),
                row.text_or(&["spec", "volumeMode"], "<unset>"),
            ]
        },
    },
    TableLayout {
        group: "",
        plural: "persistentvolumeclaims",
        columns: &[
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            "*VolumeMode",
        ],
        cells: |row| {
            let bound = !object::text(row.object, &["spec", "volumeName"]).is_empty();
            let capacity = if bound { row.text_or(&["status", "capacity", "storage"], "0") } else { "".into() };
            let modes = if bound { access_modes(row.object, &["status", "accessModes"]) } else { String::new() };
            vec![
                row.name(),
                phase(row),
                row.text(&["spec", "volumeName"]),
                capacity,
                modes.into(),
                row.text(&["spec", "storageClassName"]),
                row.text_or(&["spec", "volumeAttributesClassName"], "<unset>"),
                row.age(),
                row.text_or(&["spec", "volumeMode"], "<unset>"),
            ]
        },
    },
    TableLayout {
        group: "storage.k8s.io",
        plural: "storageclasses",
        columns: &["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"],
        cells: |row| {
            let annotation = ["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"];
            let default = if object::text(row.object, &annotation) == "true" { " (default)" } else { "" };
            vec![
                format!("{}{default}", object::name(row.object)).into(),
                row.text(&["provisioner"]),
                row.text_or(&["reclaimPolicy"], "Delete"),
                row.text_or(&["volumeBindingMode"], "Immediate"),
                object::flag(row.object, &["allowVolumeExpansion"]).into(),
                row.age(),
            ]
        },
    },
    TableLayout {
        group: "storage.k8s.io",
        plural: "volumeattachments",
        columns: &["Name", "Attacher", "PV", "Node", "Attached?", "Age"],
        cells: |row| {
            vec![
                row.name(),
                row.text(&["spec", "attacher"]),
                row.text(&["spec", "source", "persistentVolumeName"]),
                row.text(&["spec", "nodeName"]),
                object::flag(row.object, &["status", "attached"]).into(),
                row.age(),
            ]
        },
    },
    TableLayout {
        group: "storage.k8s.io",
        plural: "csinodes",
        columns: &["Name", "Drivers#", "Age"],
        cells: |row| vec![row.name(), row.count(&["spec", "drivers"]).into(), row.age()],
    },
    TableLayout {
        group: "storage.k8s.io",
        plural: "csidrivers",
        columns: &[
            "Name",
            "AttachRequired?",
            "PodInfoOnMount?",
            "StorageCapacity?",
            "TokenRequests",
            "RequiresRepublish?",
            "Modes",
            "Age",
        ],
        cells: |row| {
            let flag = |field: &str| Value::from(object::flag(row.object, &["spec", field]));
            let modes: Vec<&str> =
                object::list(row.object, &["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str).collect();
            let audiences: Vec<&str> = object::list(row.object, &["spec", "tokenRequests"])
                .iter()
                .map(|request| object::text(request, &["audience"]))
                .collect();
            vec![
                row.name(),
                flag("attachRequired"),
                flag("podInfoOnMount"),
                flag("storageCapacity"),
                if audiences.is_empty() { "<unset>".into() } else { audiences.join(",").into() },
                flag("requiresRepublish"),
                if modes.is_empty() { "<none>".into() } else { modes.join(",").into() },
                row.age(),
            ]
        },
    },
    TableLayout {
        group: "storage.k8s.io",
        plural: "csistoragecapacities",
        columns: &["Name", "StorageClassName", "Capacity"],
        cells: |row| vec![row.name(), row.text(&["storageClassName"]), row.text(&["capacity"])],
    },
];

fn phase(row: &TableRow<'_>) -> Value {
    if object::is_deleting(row.object) { "Terminating".into() } else { row.text(&["status", "phase"]) }
}

/// Returns the access modes in their short forms, in the order that kubectl prints.
fn access_modes(object: &Value, path: &[&str]) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = object::list(object, path);
    let shown: Vec<&str> =
        SHORT.iter().filter(|(long, _)| modes.iter().any(|mode| mode == long)).map(|(_, short)| *short).collect();
    shown.join(",")
}
