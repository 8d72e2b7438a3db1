//! Kinds whose controllers create pods: defaults, initial status, and validation of updates.

use serde_json::{Value, json};

use super::defaults::DefaultValue::{EmptyObject, Flag, Number, Text};
use super::defaults::set_defaults;
use super::small_kinds::immutable_field_error;
use super::{KindStrategy, NO_OP_STRATEGY, WriteContext, pod_spec};
use crate::api::field::{self, FieldError};
use crate::api::object;
use crate::api::selector::LabelSelector;

pub(super) const POD_TEMPLATE: KindStrategy =
    KindStrategy { default: |object| default_template(object, &["template"]), ..NO_OP_STRATEGY };

pub(super) const REPLICATION_CONTROLLER: KindStrategy = KindStrategy {
    default: |controller| {
        set_defaults(object::ensure_object(controller, &["spec"]), &[("replicas", Number(1))]);
        default_template(controller, &["spec", "template"]);
        let labels = object::at(controller, &["spec", "template", "metadata", "labels"]).cloned();
        if let Some(labels) = labels {
            object::ensure_object(controller, &["spec"]).entry("selector").or_insert_with(|| labels.clone());
            object::ensure_object(controller, &["metadata"]).entry("labels").or_insert(labels);
        }
    },
    prepare_for_create: |controller, _| {
        drop(object::ensure_object(controller, &[]).insert("status".into(), json!({"replicas": 0})));
    },
    ..NO_OP_STRATEGY
};

pub(super) const REPLICA_SET: KindStrategy = KindStrategy {
    default: |set| {
        set_defaults(object::ensure_object(set, &["spec"]), &[("replicas", Number(1))]);
        default_template(set, &["spec", "template"]);
    },
    prepare_for_create: |set, _| drop(object::ensure_object(set, &[]).insert("status".into(), json!({"replicas": 0}))),
    validate: validate_selector_and_template,
    ..NO_OP_STRATEGY
};

pub(super) const DEPLOYMENT: KindStrategy = KindStrategy {
    default: |deployment| {
        let spec = object::ensure_object(deployment, &["spec"]);
        set_defaults(
            spec,
            &[("replicas", Number(1)), ("revisionHistoryLimit", Number(10)), ("progressDeadlineSeconds", Number(600))],
        );
        let bounds = [("maxUnavailable", Text("25%")), ("maxSurge", Text("25%"))];
        default_rolling_update(deployment, "strategy", &bounds);
        default_template(deployment, &["spec", "template"]);
    },
    prepare_for_create: |deployment, _| drop(object::ensure_object(deployment, &[]).insert("status".into(), json!({}))),
    validate: validate_deployment,
    ..NO_OP_STRATEGY
};

pub(super) const DAEMON_SET: KindStrategy = KindStrategy {
    default: |set| {
        set_defaults(object::ensure_object(set, &["spec"]), &[("revisionHistoryLimit", Number(10))]);
        default_rolling_update(set, "updateStrategy", &[("maxUnavailable", Number(1)), ("maxSurge", Number(0))]);
        default_template(set, &["spec", "template"]);
    },
    prepare_for_create: |set, _| {
        let status = json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0});
        object::ensure_object(set, &[]).insert("status".into(), status);
    },
    validate: validate_selector_and_template,
    ..NO_OP_STRATEGY
};

pub(super) const STATEFUL_SET: KindStrategy = KindStrategy {
    default: |set| {
        let spec = object::ensure_object(set, &["spec"]);
        set_defaults(
            spec,
            &[
                ("podManagementPolicy", Text("OrderedReady")),
                ("replicas", Number(1)),
                ("revisionHistoryLimit", Number(10)),
                ("persistentVolumeClaimRetentionPolicy", EmptyObject),
                ("serviceName", Text("")),
            ],
        );
        let retention = object::ensure_object(set, &["spec", "persistentVolumeClaimRetentionPolicy"]);
        set_defaults(retention, &[("whenDeleted", Text("Retain")), ("whenScaled", Text("Retain"))]);
        default_rolling_update(set, "updateStrategy", &[("partition", Number(0))]);
        default_template(set, &["spec", "template"]);
        for claim in object::list_mut(set, &["spec", "volumeClaimTemplates"]) {
            let kind = [("apiVersion", Text("v1")), ("kind", Text("PersistentVolumeClaim"))];
            set_defaults(object::ensure_object(claim, &[]), &kind);
            set_defaults(object::ensure_object(claim, &["spec"]), &[("volumeMode", Text("Filesystem"))]);
            object::ensure_object(claim, &["status"]).entry("phase").or_insert_with(|| "Pending".into());
        }
    },
    prepare_for_create: |set, _| {
        drop(object::ensure_object(set, &[]).insert("status".into(), json!({"replicas": 0, "availableReplicas": 0})));
    },
    validate: validate_stateful_set,
    ..NO_OP_STRATEGY
};

pub(super) const JOB: KindStrategy = KindStrategy {
    default: default_job,
    prepare_for_create: prepare_job_for_create,
    validate: validate_job,
    ..NO_OP_STRATEGY
};

pub(super) const CRON_JOB: KindStrategy = KindStrategy {
    default: |cron| {
        let spec = object::ensure_object(cron, &["spec"]);
        set_defaults(
            spec,
            &[
                ("concurrencyPolicy", Text("Allow")),
                ("suspend", Flag(false)),
                ("successfulJobsHistoryLimit", Number(3)),
                ("failedJobsHistoryLimit", Number(1)),
            ],
        );
        default_template(cron, &["spec", "jobTemplate", "spec", "template"]);
        for path in [&["spec", "jobTemplate", "metadata"][..], &["spec", "jobTemplate", "spec", "template", "metadata"]]
        {
            object::ensure_object(cron, path);
        }
    },
    prepare_for_create: |cron, _| drop(object::ensure_object(cron, &[]).insert("status".into(), json!({}))),
    validate: |cron, _, errors| {
        let schedule = object::text(cron, &["spec", "schedule"]);
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        if schedule.is_empty() {
            errors.push(field::required("spec.schedule", ""));
        } else if !schedule.starts_with('@') && fields.len() != 5 {
            let detail = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
            errors.push(field::invalid("spec.schedule", schedule, detail));
        }
        validate_template(cron, &["spec", "jobTemplate", "spec", "template"], errors);
    },
    ..NO_OP_STRATEGY
};

/// Sets the defaults of the pod template at `path`.
fn default_template(object: &mut Value, path: &[&str]) {
    let spec =
        path.iter().try_fold(object, |value, key| value.get_mut(key)).and_then(|template| template.get_mut("spec"));
    if let Some(spec) = spec {
        pod_spec::default(spec);
    }
}

/// Sets the strategy type to `RollingUpdate` if it is omitted, and then the bounds of a rolling
/// update.
fn default_rolling_update(object: &mut Value, strategy: &str, bounds: &[(&str, super::defaults::DefaultValue)]) {
    let fields = object::ensure_object(object, &["spec", strategy]);
    set_defaults(fields, &[("type", Text("RollingUpdate"))]);
    if fields.get("type").is_some_and(|kind| kind == "RollingUpdate") {
        set_defaults(object::ensure_object(object, &["spec", strategy, "rollingUpdate"]), bounds);
    }
}

fn default_job(job: &mut Value) {
    let spec = object::ensure_object(job, &["spec"]);
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    let backoff = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set_defaults(
        spec,
        &[
            ("parallelism", Number(1)),
            ("backoffLimit", Number(backoff)),
            ("completionMode", Text("NonIndexed")),
            ("suspend", Flag(false)),
            ("podReplacementPolicy", Text(replacement)),
            ("manualSelector", Flag(false)),
        ],
    );
    default_template(job, &["spec", "template"]);
    if let Some(labels) = object::at(job, &["spec", "template", "metadata", "labels"]).cloned() {
        object::ensure_object(job, &["metadata"]).entry("labels").or_insert(labels);
    }
}

/// Sets the selector of a job and the labels of its pods, which identify the pods by the job's uid.
fn prepare_job_for_create(job: &mut Value, _: &mut WriteContext<'_>) {
    object::ensure_object(job, &[]).insert("status".into(), json!({}));
    if object::flag(job, &["spec", "manualSelector"]) {
        return;
    }
    let (uid, name) = (object::uid(job).to_string(), object::name(job).to_string());
    let labels = object::ensure_object(job, &["spec", "template", "metadata", "labels"]);
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.entry(key).or_insert_with(|| value.as_str().into());
    }
    let template_labels = labels.clone();
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    object::ensure_object(job, &["spec"]).entry("selector").or_insert(selector);
    object::ensure_object(job, &["metadata"]).entry("labels").or_insert(template_labels.into());
}

fn validate_template(object: &Value, path: &[&str], errors: &mut Vec<FieldError>) {
    let empty = json!({});
    let spec = object::at(object, path).and_then(|template| template.get("spec")).unwrap_or(&empty);
    // The pods of a StatefulSet get one volume for each claim template, by its name.
    let claim_templates = object::list(object, &["spec", "volumeClaimTemplates"]);
    let claim_volumes: Vec<&str> = claim_templates.iter().map(object::name).collect();
    pod_spec::validate_pod_spec(spec, &claim_volumes, &format!("{}.spec", path.join(".")), errors);
}

/// Validates that the selector exists, selects the pods of the template, and does not change.
fn validate_selector_and_template(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let selector = object::at(object, &["spec", "selector"]);
    let empty = json!({});
    let labels = object::at(object, &["spec", "template", "metadata", "labels"]).unwrap_or(&empty);
    match LabelSelector::from_object(selector) {
        None => {
            errors.push(field::required("spec.selector", ""));
            let detail = "`selector` does not match template `labels`";
            let labels = object::at(object, &["spec", "template", "metadata", "labels"]).cloned().unwrap_or_default();
            errors.push(field::invalid("spec.template.metadata.labels", labels, detail));
        }
        Some(_) if selector == Some(&empty) => {
            errors.push(field::invalid("spec.selector", empty.clone(), "empty selector is invalid for deployment"));
        }
        Some(selector) => {
            let attributes = object::selector_attributes(&json!({"metadata": {"labels": labels}}), std::iter::empty());
            if !selector.matches(&attributes.labels) {
                let detail = "`selector` does not match template `labels`";
                errors.push(field::invalid("spec.template.metadata.labels", labels.clone(), detail));
            }
        }
    }
    if old.is_some_and(|old| object::at(old, &["spec", "selector"]) != selector) {
        errors.push(immutable_field_error("spec.selector", selector));
    }
    validate_template(object, &["spec", "template"], errors);
    let policy = object::text(object, &["spec", "template", "spec", "restartPolicy"]);
    if !policy.is_empty() && policy != "Always" {
        errors.push(field::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    let replicas = object::number(object, &["spec", "replicas"]).unwrap_or_default();
    if replicas < 0 {
        errors.push(field::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
    }
}

fn validate_deployment(deployment: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    validate_selector_and_template(deployment, old, errors);
    let strategy = object::text(deployment, &["spec", "strategy", "type"]);
    let rolling_update = object::at(deployment, &["spec", "strategy", "rollingUpdate"]);
    match strategy {
        "Recreate" if rolling_update.is_some() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(field::forbidden("spec.strategy.rollingUpdate", detail));
        }
        "RollingUpdate" => {
            let is_zero = |field: &str| matches!(rolling_update.and_then(|rolling_update| rolling_update.get(field)), Some(bound) if bound == &json!(0) || bound == "0%");
            if is_zero("maxUnavailable") && is_zero("maxSurge") {
                let bound = rolling_update
                    .and_then(|rolling_update| rolling_update.get("maxUnavailable"))
                    .cloned()
                    .unwrap_or_default();
                let path = "spec.strategy.rollingUpdate.maxUnavailable";
                errors.push(field::invalid(path, bound, "may not be 0 when `maxSurge` is 0"));
            }
        }
        "Recreate" => {}
        other => {
            let value = json!({"Type": other, "RollingUpdate": null});
            errors.push(field::not_supported("spec.strategy", value, &["Recreate", "RollingUpdate"]));
        }
    }
    let seconds = |field: &str| object::number(deployment, &["spec", field]);
    if let Some(deadline) = seconds("progressDeadlineSeconds")
        && deadline <= seconds("minReadySeconds").unwrap_or_default()
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(field::invalid("spec.progressDeadlineSeconds", deadline, detail));
    }
}

fn validate_stateful_set(set: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    validate_selector_and_template(set, None, errors);
    let Some(old) = old else { return };
    let fixed = |set: &Value| {
        let mut spec = set.get("spec").cloned().unwrap_or_default();
        for field in [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ] {
            object::remove(&mut spec, &[field]);
        }
        spec
    };
    if fixed(set) != fixed(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                      'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(field::forbidden("spec", detail));
    }
}

fn validate_job(job: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    validate_template(job, &["spec", "template"], errors);
    if !["OnFailure", "Never"].contains(&object::text(job, &["spec", "template", "spec", "restartPolicy"])) {
        errors.push(field::required("spec.template.spec.restartPolicy", "valid values: \"OnFailure\", \"Never\""));
    }
    for field in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"] {
        let value = object::number(job, &["spec", field]).unwrap_or_default();
        if value < 0 {
            errors.push(field::invalid(format!("spec.{field}"), value, "must be greater than or equal to 0"));
        }
    }
    let Some(old) = old else { return };
    for field in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"] {
        let current = object::at(job, &["spec", field]);
        if object::at(old, &["spec", field]) != current {
            errors.push(immutable_field_error(&format!("spec.{field}"), current));
        }
    }
    // A suspended job that has not started may change how its pods are scheduled. Everything else
    // in the template is immutable.
    let started = !object::text(old, &["status", "startTime"]).is_empty();
    let fixed = |job: &Value| {
        let mut template = object::at(job, &["spec", "template"]).cloned().unwrap_or_default();
        if object::flag(old, &["spec", "suspend"]) && !started {
            for field in ["nodeSelector", "tolerations", "affinity", "schedulingGates"] {
                object::remove(&mut template, &["spec", field]);
            }
            object::remove(&mut template, &["metadata"]);
        }
        template
    };
    if fixed(job) != fixed(old) {
        errors.push(immutable_field_error("spec.template", object::at(job, &["spec", "template"])));
    }
}
