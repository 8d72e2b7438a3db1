//! Deletion of one object or a collection: at once, after a grace period, or after the last
//! finalizer was removed.

use bytes::Bytes;
use serde_json::{Value, json};

use super::call::{Call, PROTOBUF, parse_stored};
use super::encode::EncodedObject;
use super::json::parse_json;
use super::respond::Reply;
use super::status::{ApiResult, GroupResource, StatusError};
use super::storage::{ObjectKey, PageQuery};
use super::{after_write, field, object, protobuf, read};

/// The finalizers that propagation policies set for the garbage collector.
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";
/// The maximum number of attempts of a deletion without a resource version when other writers
/// change the object at the same time.
const MAX_DELETE_ATTEMPTS: usize = 16;

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<String>,
    pub(crate) dry_run: bool,
}

/// The result of a deletion.
pub(crate) enum DeleteOutcome {
    /// The object was removed; this is its last state.
    Deleted(Value),
    /// The object is terminating; this is its current state.
    Terminating(Value),
}

/// Handles `DELETE` of an object.
pub(crate) fn delete(call: &Call<'_>) -> ApiResult<Reply> {
    let options = options(call)?;
    match delete_object(call, &call.key(), call.name(), &options)? {
        DeleteOutcome::Terminating(object) => {
            Ok(Reply::new(200, Bytes::from(call.to_served_form(&object).to_string())))
        }
        DeleteOutcome::Deleted(object) if call.resource.is("", "pods") => {
            Ok(Reply::new(200, Bytes::from(call.to_served_form(&object).to_string())))
        }
        DeleteOutcome::Deleted(object) => {
            let mut details =
                json!({"name": call.name(), "kind": call.resource.plural.as_str(), "uid": object::uid(&object)});
            if !call.resource.group.is_empty() {
                details["group"] = call.resource.group.as_str().into();
            }
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
            Ok(Reply::json(200, &status))
        }
    }
}

/// Handles `DELETE` of a collection.
pub(crate) fn delete_collection(call: &Call<'_>) -> ApiResult<Reply> {
    let options = options(call)?;
    let selection = read::selection(call)?;
    let page_query =
        PageQuery { namespace: call.namespace(), selection: &selection, from: None, at_revision: None, limit: None };
    let page = call
        .server
        .storage
        .page(call.resource.table, page_query)
        .map_err(|_| StatusError::internal("the present is never compacted"))?;
    let mut items = Vec::new();
    for stored in page.objects {
        let object = parse_stored(&stored)?;
        let namespace = object::namespace(&object);
        let name = object::name(&object);
        let key = ObjectKey::new((!namespace.is_empty()).then_some(namespace), name);
        match delete_object(call, &key, name, &options) {
            Ok(DeleteOutcome::Deleted(object) | DeleteOutcome::Terminating(object)) => {
                items.push(call.to_served_form(&object).into_owned());
            }
            // Another client has deleted the object in the meantime.
            Err(error) if error.code() == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = json!({"resourceVersion": call.server.storage.revision().to_string()});
    let list = json!({"kind": call.resource.list_kind.as_str(), "apiVersion": call.resource.api_version(), "metadata": metadata, "items": items});
    Ok(Reply::json(200, &list))
}

/// Reads the options from the body, or from the query if the body is empty.
pub(crate) fn options(call: &Call<'_>) -> ApiResult<DeleteOptions> {
    if call.body.is_empty() {
        let text = |key: &str| Some(call.query.text(key)).filter(|text| !text.is_empty()).map(str::to_string);
        let options = DeleteOptions {
            grace_seconds: call.query.number("gracePeriodSeconds")?,
            propagation: text("propagationPolicy"),
            dry_run: call.dry_run()?,
            ..DeleteOptions::default()
        };
        return options.checked();
    }
    let unsupported = || {
        StatusError::unsupported_media_type("application/json, application/yaml, application/vnd.kubernetes.protobuf")
    };
    let body = match call.content_type.as_str() {
        "" | "application/json" => parse_json(&call.body).map_err(StatusError::bad_request)?.value,
        "application/yaml" => super::json::parse_yaml(&call.body).map_err(StatusError::bad_request)?.value,
        PROTOBUF => protobuf::parse(&call.body).ok_or_else(unsupported)?,
        _ => return Err(unsupported()),
    };
    let options = read_options(&body)?;
    DeleteOptions { dry_run: options.dry_run || call.dry_run()?, ..options }.checked()
}

/// Parses a `DeleteOptions` object.
pub(crate) fn read_options(body: &Value) -> ApiResult<DeleteOptions> {
    let text = |path: &[&str]| Some(object::text(body, path)).filter(|text| !text.is_empty()).map(str::to_string);
    let kind = object::text(body, &["kind"]);
    if !body.is_object() || !matches!(kind, "" | "DeleteOptions") {
        let version = object::text(body, &["apiVersion"]);
        return Err(StatusError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    let grace = match body.get("gracePeriodSeconds") {
        None | Some(Value::Null) => None,
        Some(seconds) => Some(
            seconds.as_i64().ok_or_else(|| StatusError::bad_request("gracePeriodSeconds must be a whole number"))?,
        ),
    };
    let policy = text(&["propagationPolicy"]);
    if let (Some(policy), Some(Value::Bool(_))) = (&policy, body.get("orphanDependents")) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        let error = field::invalid("propagationPolicy", policy.as_str(), detail);
        return Err(StatusError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
    }
    let orphan = body
        .get("orphanDependents")
        .and_then(Value::as_bool)
        .map(|orphan| if orphan { "Orphan" } else { "Background" });
    Ok(DeleteOptions {
        grace_seconds: grace,
        uid: text(&["preconditions", "uid"]),
        version: text(&["preconditions", "resourceVersion"]),
        propagation: policy.or_else(|| orphan.map(str::to_string)),
        dry_run: object::list(body, &["dryRun"]).iter().any(|value| value == "All"),
    })
}

impl DeleteOptions {
    fn checked(self) -> ApiResult<Self> {
        match self.propagation.as_deref() {
            None | Some("Foreground" | "Background" | "Orphan") => {}
            Some(other) => {
                let known = &["Foreground", "Background", "Orphan", "nil"];
                let error = field::not_supported("propagationPolicy", other, known);
                return Err(StatusError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
            }
        }
        if self.grace_seconds.is_some_and(|seconds| seconds < 0) {
            // The real server changes a negative grace period to one second.
            return Ok(Self { grace_seconds: Some(1), ..self });
        }
        Ok(self)
    }

    fn check(&self, call: &Call<'_>, object: &Value, name: &str, revision: u64) -> ApiResult<()> {
        // These two errors name the kind. All other errors name the resource.
        let kind_resource = GroupResource { group: &call.resource.group, resource: &call.resource.kind };
        let conflict = |what: &str, expected: &str, actual: &str, cause: &str| {
            let reason = format!(
                "the {what} in the precondition ({expected}) does not match the {what} in record ({actual}). The object might have been {cause}"
            );
            Err(StatusError::conflict(kind_resource, name, &reason))
        };
        match (&self.uid, &self.version) {
            (Some(uid), _) if uid != object::uid(object) => {
                conflict("UID", uid, object::uid(object), "deleted and then recreated")
            }
            (_, Some(version)) if *version != revision.to_string() => {
                conflict("ResourceVersion", version, &revision.to_string(), "modified")
            }
            _ => Ok(()),
        }
    }
}

/// Deletes one object of the call's resource.
pub(crate) fn delete_object(
    call: &Call<'_>,
    key: &ObjectKey,
    name: &str,
    options: &DeleteOptions,
) -> ApiResult<DeleteOutcome> {
    let storage = &call.server.storage;
    for _ in 0..MAX_DELETE_ATTEMPTS {
        let stored = storage
            .get(call.resource.table, key)
            .ok_or_else(|| StatusError::not_found(call.resource.group_resource(), name))?;
        let mut object = parse_stored(&stored)?;
        options.check(call, &object, name, stored.revision)?;
        after_write::check_may_delete(call, &object)?;
        let is_terminating = mark_terminating(call, &mut object, options);
        if options.dry_run {
            return Ok(if is_terminating {
                DeleteOutcome::Terminating(object)
            } else {
                DeleteOutcome::Deleted(object)
            });
        }
        if !is_terminating {
            let Ok(bytes) = storage.delete(call.resource.table, key, stored.revision) else { continue };
            let deleted: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            after_write::on_deleted(call, &deleted);
            // The client gets the marked object with the revision of its deletion.
            object::set_meta(&mut object, "resourceVersion", object::text(&deleted, &["metadata", "resourceVersion"]));
            return Ok(DeleteOutcome::Deleted(object));
        }
        let old = parse_stored(&stored)?;
        if object == old {
            return Ok(DeleteOutcome::Terminating(object));
        }
        let attributes = call.resource.selector_attributes(&object);
        let Ok(updated) =
            storage.put(call.resource.table, key, Some(stored.revision), &EncodedObject::new(&object), attributes)
        else {
            continue;
        };
        after_write::on_updated(call, &object);
        return Ok(DeleteOutcome::Terminating(parse_stored(&updated)?));
    }
    Err(StatusError::resource_version_conflict(call.resource.group_resource(), name))
}

/// Marks an object as terminating if it cannot be removed at once. Returns true if it stays for
/// now.
fn mark_terminating(call: &Call<'_>, object: &mut Value, options: &DeleteOptions) -> bool {
    if let Some(is_held) = after_write::mark_held_for_cleanup(call, object) {
        // Namespaces and CRDs: other components delete their content first.
        let finalizers = finalizers_with_propagation(object, options);
        if is_held && !object::is_deleting(object) {
            object::set_meta(object, "deletionTimestamp", object::rfc3339_seconds(call.now()));
        }
        set_finalizers(object, finalizers);
        return is_held || !object::finalizers(object).is_empty();
    }
    let finalizers = finalizers_with_propagation(object, options);
    let grace = grace_seconds(call, object, options);
    let is_deleting = object::is_deleting(object);
    let current_grace = object::number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    if is_deleting {
        // A grace period can be shortened but not extended.
        if grace < current_grace {
            shorten_grace_period(call, object, grace);
        }
    } else if grace > 0 || !finalizers.is_empty() || call.resource.is("", "pods") {
        // A pod that is removed at once is also returned with its deletion timestamp.
        set_deletion_timestamp(call, object, grace);
    }
    set_finalizers(object, finalizers);
    let remaining_seconds = object::number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    !object::finalizers(object).is_empty() || (remaining_seconds > 0 && grace > 0)
}

/// Returns the remaining grace period in seconds. Only pods have one; it is zero for pods without a
/// node and for pods that have terminated.
fn grace_seconds(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> i64 {
    if !call.resource.is("", "pods") {
        return 0;
    }
    let has_node = !object::text(object, &["spec", "nodeName"]).is_empty();
    let has_terminated = matches!(object::text(object, &["status", "phase"]), "Succeeded" | "Failed");
    if !has_node || has_terminated {
        return 0;
    }
    let pod_grace = object::number(object, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    options.grace_seconds.unwrap_or(pod_grace).max(0)
}

fn finalizers_with_propagation(object: &Value, options: &DeleteOptions) -> Vec<Value> {
    let mut finalizers: Vec<Value> = object::finalizers(object).to_vec();
    let propagation_finalizer = match options.propagation.as_deref() {
        Some("Foreground") => Some(FOREGROUND_FINALIZER),
        Some("Orphan") => Some(ORPHAN_FINALIZER),
        Some(_) => None,
        None => return finalizers,
    };
    finalizers.retain(|finalizer| finalizer != FOREGROUND_FINALIZER && finalizer != ORPHAN_FINALIZER);
    finalizers.extend(propagation_finalizer.map(Value::from));
    finalizers
}

fn set_finalizers(object: &mut Value, finalizers: Vec<Value>) {
    if finalizers.is_empty() {
        object::remove(object, &["metadata", "finalizers"]);
    } else {
        object::set_meta(object, "finalizers", finalizers);
    }
}

/// Sets the deletion timestamp to `grace` seconds from now.
fn set_deletion_timestamp(call: &Call<'_>, object: &mut Value, grace: i64) {
    let at = call.now().saturating_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(jiff::Timestamp::MAX);
    object::set_meta(object, "deletionTimestamp", object::rfc3339_seconds(at));
    object::set_meta(object, "deletionGracePeriodSeconds", grace);
    if let Some(generation) = object::number(object, &["metadata", "generation"]).filter(|generation| *generation > 0) {
        object::set_meta(object, "generation", generation + 1);
    }
}

/// Replaces the deletion timestamp with an earlier one.
fn shorten_grace_period(call: &Call<'_>, object: &mut Value, grace: i64) {
    let at = call.now().saturating_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(jiff::Timestamp::MAX);
    object::set_meta(object, "deletionTimestamp", object::rfc3339_seconds(at));
    object::set_meta(object, "deletionGracePeriodSeconds", grace);
}
