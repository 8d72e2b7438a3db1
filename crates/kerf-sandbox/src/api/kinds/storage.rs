//! PersistentVolumes, claims, StorageClasses, CSIDrivers and VolumeAttachments.

use serde_json::{Value, json};

use super::defaults::DefaultValue::{Flag, Text};
use super::defaults::{set_defaults, set_defaults_if_object};
use super::{KindStrategy, NO_OP_STRATEGY, WriteContext};
use crate::api::field::{self, FieldError};
use crate::api::object;

pub(super) const PERSISTENT_VOLUME_CLAIM: KindStrategy = KindStrategy {
    default: |claim| {
        set_defaults(object::ensure_object(claim, &["spec"]), &[("volumeMode", Text("Filesystem"))]);
        set_defaults(object::ensure_object(claim, &["status"]), &[("phase", Text("Pending"))]);
    },
    prepare_for_create: |claim, _| {
        object::ensure_object(claim, &[]).insert("status".into(), json!({"phase": "Pending"}));
        add_protection_finalizer(claim, "kubernetes.io/pvc-protection");
    },
    validate: validate_claim,
    ..NO_OP_STRATEGY
};

pub(super) const PERSISTENT_VOLUME: KindStrategy = KindStrategy {
    default: |volume| {
        let defaults = [("persistentVolumeReclaimPolicy", Text("Retain")), ("volumeMode", Text("Filesystem"))];
        set_defaults(object::ensure_object(volume, &["spec"]), &defaults);
        if let Some(path) = object::map_mut(volume, &["spec", "hostPath"]) {
            path.entry("type").or_insert_with(|| "".into());
        }
    },
    prepare_for_create: |volume, context| {
        let status = json!({"phase": "Pending", "lastPhaseTransitionTime": object::rfc3339_seconds(context.now)});
        object::ensure_object(volume, &[]).insert("status".into(), status);
        add_protection_finalizer(volume, "kubernetes.io/pv-protection");
    },
    validate: validate_volume,
    prepare_for_status_update: prepare_volume_status_update,
    ..NO_OP_STRATEGY
};

pub(super) const STORAGE_CLASS: KindStrategy = KindStrategy {
    default: |class| {
        set_defaults_if_object(class, &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))]);
    },
    validate: |class, old, errors| {
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
        let spec = object::ensure_object(driver, &["spec"]);
        set_defaults(
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
    prepare_for_create: |attachment, _| {
        drop(object::ensure_object(attachment, &[]).insert("status".into(), json!({"attached": false})));
    },
    ..NO_OP_STRATEGY
};

/// Adds the finalizer that protects volumes and claims from deletion while they are in use.
fn add_protection_finalizer(object: &mut Value, finalizer: &str) {
    let finalizers = object::ensure_object(object, &["metadata"]).entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|other| other == finalizer)
    {
        finalizers.push(finalizer.into());
    }
}

fn validate_volume(volume: &Value, _: Option<&Value>, errors: &mut Vec<FieldError>) {
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

fn validate_claim(claim: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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
        // The volume binder writes the volume's name once; the size may grow.
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

fn prepare_volume_status_update(volume: &mut Value, old: &Value, context: &mut WriteContext<'_>) {
    let phase = |volume: &Value| object::text(volume, &["status", "phase"]).to_string();
    let transition_time = |volume: &Value| object::at(volume, &["status", "lastPhaseTransitionTime"]).cloned();
    if phase(volume) != phase(old) && transition_time(volume) == transition_time(old) {
        object::ensure_object(volume, &["status"])
            .insert("lastPhaseTransitionTime".into(), object::rfc3339_seconds(context.now).into());
    } else if transition_time(volume).is_none()
        && let Some(transition_time) = transition_time(old)
    {
        object::ensure_object(volume, &["status"]).insert("lastPhaseTransitionTime".into(), transition_time);
    }
}
