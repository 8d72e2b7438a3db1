//! Volumes, claims and their classes.

use serde_json::{Value, json};

use super::defaults::DefaultValue::{Flag, Text};
use super::defaults::{fill, fill_value};
use super::{KindStrategy, NO_OP_STRATEGY, WriteContext};
use crate::api::field::{self, FieldError};
use crate::api::object;

pub(super) const PERSISTENT_VOLUME_CLAIM: KindStrategy = KindStrategy {
    default: |claim| {
        fill(object::made(claim, &["spec"]), &[("volumeMode", Text("Filesystem"))]);
        fill(object::made(claim, &["status"]), &[("phase", Text("Pending"))]);
    },
    on_create: |claim, _| {
        object::made(claim, &[]).insert("status".into(), json!({"phase": "Pending"}));
        protect(claim, "kubernetes.io/pvc-protection");
    },
    judge: judge_claim,
    ..NO_OP_STRATEGY
};

pub(super) const PERSISTENT_VOLUME: KindStrategy = KindStrategy {
    default: |volume| {
        let defaults = [("persistentVolumeReclaimPolicy", Text("Retain")), ("volumeMode", Text("Filesystem"))];
        fill(object::made(volume, &["spec"]), &defaults);
        if let Some(path) = object::map_mut(volume, &["spec", "hostPath"]) {
            path.entry("type").or_insert_with(|| "".into());
        }
    },
    on_create: |volume, moment| {
        let status = json!({"phase": "Pending", "lastPhaseTransitionTime": object::seconds(moment.now)});
        object::made(volume, &[]).insert("status".into(), status);
        protect(volume, "kubernetes.io/pv-protection");
    },
    judge: judge_volume,
    on_status: on_volume_status,
    ..NO_OP_STRATEGY
};

pub(super) const STORAGE_CLASS: KindStrategy = KindStrategy {
    default: |class| fill_value(class, &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))]),
    judge: |class, old, errors| {
        let (mode, known) = (object::text(class, &["volumeBindingMode"]), ["Immediate", "WaitForFirstConsumer"]);
        if !known.contains(&mode) {
            errors.push(field::not_supported("volumeBindingMode", mode, &known));
        }
        if object::text(class, &["provisioner"]).is_empty() {
            errors.push(field::required("provisioner", ""));
        }
        let Some(old) = old else { return };
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if old.get(field) != class.get(field) {
                errors.push(field::forbidden(field, format!("updates to {field} are forbidden.")));
            }
        }
        if old.get("volumeBindingMode") != class.get("volumeBindingMode") {
            let mode = class.get("volumeBindingMode").cloned().unwrap_or_default();
            errors.push(field::invalid("volumeBindingMode", mode, "field is immutable"));
        }
    },
    ..NO_OP_STRATEGY
};

pub(super) const CSI_DRIVER: KindStrategy = KindStrategy {
    default: |driver| {
        let spec = object::made(driver, &["spec"]);
        fill(
            spec,
            &[
                ("attachRequired", Flag(true)),
                ("podInfoOnMount", Flag(false)),
                ("storageCapacity", Flag(false)),
                ("fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
                ("requiresRepublish", Flag(false)),
                ("seLinuxMount", Flag(false)),
            ],
        );
        spec.entry("volumeLifecycleModes").or_insert_with(|| json!(["Persistent"]));
    },
    ..NO_OP_STRATEGY
};

pub(super) const ATTACHMENT: KindStrategy = KindStrategy {
    on_create: |attachment, _| drop(object::made(attachment, &[]).insert("status".into(), json!({"attached": false}))),
    ..NO_OP_STRATEGY
};

/// What is in use does not vanish: the finalizer that says so is there from the start.
fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = object::made(object, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|other| other == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

fn judge_volume(volume: &Value, _: Option<&Value>, errors: &mut Vec<FieldError>) {
    const PLAIN_FIELDS: [&str; 9] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    if object::at(volume, &["spec", "capacity"]).is_none() {
        errors.push(field::required("spec.capacity", ""));
        errors.push(field::not_supported("spec.capacity", Value::Null, &["storage"]));
    }
    let mut fields = volume.get("spec").and_then(Value::as_object).into_iter().flatten();
    if fields.all(|(field, _)| PLAIN_FIELDS.contains(&field.as_str())) {
        errors.push(field::required("spec", "must specify a volume type"));
    }
}

fn judge_claim(claim: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if object::list(claim, &["spec", "accessModes"]).is_empty() {
        errors.push(field::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in object::list(claim, &["spec", "accessModes"]).iter().filter_map(Value::as_str) {
        if !known.contains(&mode) {
            errors.push(field::not_supported("spec.accessModes", mode, &known));
        }
    }
    if object::at(claim, &["spec", "resources", "requests", "storage"]).is_none() {
        errors.push(field::required("spec.resources[storage]", ""));
    }
    let Some(old) = old else { return };
    let fixed = |claim: &Value| {
        let mut spec = claim.get("spec").cloned().unwrap_or_default();
        object::remove(&mut spec, &["volumeAttributesClassName"]);
        // The binder writes the volume's name, once; the size may grow.
        object::remove(&mut spec, &["resources", "requests"]);
        if object::text(old, &["spec", "volumeName"]).is_empty() {
            object::remove(&mut spec, &["volumeName"]);
        }
        if object::at(old, &["spec", "storageClassName"]).is_none() {
            object::remove(&mut spec, &["storageClassName"]);
        }
        spec
    };
    if fixed(claim) != fixed(old) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(field::forbidden("spec", detail));
    }
}

fn on_volume_status(volume: &mut Value, old: &Value, moment: &mut WriteContext<'_>) {
    let phase = |volume: &Value| object::text(volume, &["status", "phase"]).to_string();
    let since = |volume: &Value| object::at(volume, &["status", "lastPhaseTransitionTime"]).cloned();
    if phase(volume) != phase(old) && since(volume) == since(old) {
        object::made(volume, &["status"]).insert("lastPhaseTransitionTime".into(), object::seconds(moment.now).into());
    } else if since(volume).is_none()
        && let Some(since) = since(old)
    {
        object::made(volume, &["status"]).insert("lastPhaseTransitionTime".into(), since);
    }
}
