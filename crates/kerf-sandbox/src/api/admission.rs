//! The default admission plugins of kube-apiserver that clients rely on. Namespaces must exist.
//! Pods get the defaults of LimitRanges, a priority, default tolerations and the overhead of their
//! runtime class. New nodes get the not-ready taint. Claims get the default storage class.

mod limit_range;

use std::sync::Arc;

use serde_json::{Value, json};

use super::call::{Call, parse_stored};
use super::object;
use super::selector::Selection;
use super::status::{ApiResult, Cause, GroupResource, StatusError};
use super::storage::{ObjectKey, PageQuery, StoredObject};
use super::write::WriteOperation;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Changes or rejects an object of a built-in kind before validation.
pub(crate) fn admit(call: &Call<'_>, change: WriteOperation<'_>, object: &mut Value) -> ApiResult<()> {
    if let WriteOperation::Create = change {
        check_namespace_open(call, object)?;
    }
    if !call.subresource().is_empty() {
        return Ok(());
    }
    match (call.resource.group.as_str(), call.resource.plural.as_str(), change) {
        ("", "pods", WriteOperation::Create) => {
            limit_range::admit_pod(call, object)?;
            set_priority(call, object)?;
            set_runtime_class(call, object)?;
            check_service_account_exists(call, object)?;
            default_pod(object);
            Ok(())
        }
        ("", "pods", WriteOperation::Update(old)) => {
            for key in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"] {
                if let Some(value) = object::at(old, &["spec", key]) {
                    object::ensure_object(object, &["spec"]).entry(key).or_insert_with(|| value.clone());
                }
            }
            add_tolerations(object);
            Ok(())
        }
        ("", "nodes", WriteOperation::Create) => {
            add_not_ready_taint(object);
            Ok(())
        }
        ("", "persistentvolumeclaims", WriteOperation::Create) => set_storage_class(call, object),
        _ => Ok(()),
    }
}

/// Checks that the namespace of a new object exists and is not terminating.
pub(crate) fn check_namespace_open(call: &Call<'_>, object: &Value) -> ApiResult<()> {
    let Some(name) = call.namespace() else { return Ok(()) };
    let namespaces = call.registry.find("", "namespaces");
    let namespace = namespaces.and_then(|all| call.server.storage.get(all.table, &ObjectKey::new(None, name)));
    let Some(stored) = namespace else {
        return Err(StatusError::not_found(GroupResource { group: "", resource: "namespaces" }, name));
    };
    // Every create request needs the phase, so it is read without parsing the namespace.
    let phase = namespaces.and_then(|all| all.selector_attribute(&stored, "status.phase"));
    if phase.is_none_or(|phase| phase != "Terminating") {
        return Ok(());
    }
    let reason = format!("unable to create new content in namespace {name} because it is being terminated");
    let message = format!("namespace {name} is being terminated");
    let cause = Cause { reason: "NamespaceTerminating", message, field: "metadata.namespace".into() };
    Err(StatusError::forbidden(call.resource.group_resource(), object::name(object), &reason, vec![cause]))
}

/// Returns a cluster-scoped object, parsed, or `None` if it does not exist.
fn find(call: &Call<'_>, group: &str, plural: &str, name: &str) -> ApiResult<Option<Value>> {
    let Some(resource) = call.registry.find(group, plural) else { return Ok(None) };
    call.server.storage.get(resource.table, &ObjectKey::new(None, name)).map(|stored| parse_stored(&stored)).transpose()
}

/// Checks that the pod's service account exists. The account `default` is not checked, because
/// every namespace gets it eventually.
fn check_service_account_exists(call: &Call<'_>, pod: &Value) -> ApiResult<()> {
    let name = object::text(pod, &["spec", "serviceAccountName"]);
    let (Some(namespace), false) = (call.namespace(), name.is_empty() || name == "default") else { return Ok(()) };
    let Some(accounts) = call.registry.find("", "serviceaccounts") else { return Ok(()) };
    if call.server.storage.get(accounts.table, &ObjectKey::new(Some(namespace), name)).is_some() {
        return Ok(());
    }
    let reason = format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
    forbid(call, pod, &reason)
}

/// Returns all objects of a cluster-scoped resource whose JSON text contains `part`, parsed.
fn all(call: &Call<'_>, group: &str, plural: &str, part: &str) -> ApiResult<Vec<Value>> {
    let Some(resource) = call.registry.find(group, plural) else { return Ok(Vec::new()) };
    let select_all = Selection::default();
    let query = PageQuery { namespace: None, selection: &select_all, from: None, at_revision: None, limit: None };
    let page = call
        .server
        .storage
        .page(resource.table, query)
        .map_err(|_| StatusError::internal("the present is never compacted"))?;
    let has = |stored: &&Arc<StoredObject>| std::str::from_utf8(stored.bytes()).is_ok_and(|text| text.contains(part));
    page.objects.iter().filter(has).map(|stored| parse_stored(stored)).collect()
}

fn forbid<T>(call: &Call<'_>, object: &Value, reason: &str) -> ApiResult<T> {
    Err(StatusError::forbidden(call.resource.group_resource(), object::name(object), reason, Vec::new()))
}

/// Sets the priority of the pod's class. Without a class it is that of the global default class, or
/// zero.
fn set_priority(call: &Call<'_>, pod: &mut Value) -> ApiResult<()> {
    let name = object::text(pod, &["spec", "priorityClassName"]).to_string();
    let class = if name.is_empty() {
        let classes = all(call, "scheduling.k8s.io", "priorityclasses", "\"globalDefault\":true")?;
        let defaults = classes.into_iter().filter(|class| object::flag(class, &["globalDefault"]));
        defaults.max_by_key(|class| std::cmp::Reverse(object::number(class, &["value"])))
    } else {
        match find(call, "scheduling.k8s.io", "priorityclasses", &name)? {
            Some(class) => Some(class),
            None => return forbid(call, pod, &format!("no PriorityClass with name {name} was found")),
        }
    };
    let priority = class.as_ref().and_then(|class| object::number(class, &["value"])).unwrap_or_default();
    let policy =
        class.as_ref().map_or("PreemptLowerPriority", |class| match object::text(class, &["preemptionPolicy"]) {
            "" => "PreemptLowerPriority",
            policy => policy,
        });
    if let Some(requested) = object::number(pod, &["spec", "priority"]).filter(|requested| *requested != priority) {
        let reason = format!(
            "the integer value of priority ({requested}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return forbid(call, pod, &reason);
    }
    let requested = object::text(pod, &["spec", "preemptionPolicy"]);
    if !requested.is_empty() && requested != policy {
        let reason = format!(
            "the string value of PreemptionPolicy ({requested}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return forbid(call, pod, &reason);
    }
    let policy = policy.to_string();
    let spec = object::ensure_object(pod, &["spec"]);
    spec.insert("priority".into(), priority.into());
    spec.insert("preemptionPolicy".into(), policy.into());
    if let Some(class) = class.filter(|_| name.is_empty()) {
        spec.insert("priorityClassName".into(), object::name(&class).into());
    }
    Ok(())
}

/// Sets the overhead of the pod's runtime class and where the class can run.
fn set_runtime_class(call: &Call<'_>, pod: &mut Value) -> ApiResult<()> {
    let name = object::text(pod, &["spec", "runtimeClassName"]).to_string();
    if name.is_empty() {
        return Ok(());
    }
    let Some(class) = find(call, "node.k8s.io", "runtimeclasses", &name)? else {
        return forbid(call, pod, &format!("pod rejected: RuntimeClass \"{name}\" not found"));
    };
    if let Some(overhead) = object::at(&class, &["overhead", "podFixed"]) {
        if object::at(pod, &["spec", "overhead"]).is_some_and(|requested| requested != overhead) {
            return forbid(call, pod, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
        }
        object::ensure_object(pod, &["spec"]).insert("overhead".into(), overhead.clone());
    }
    for (key, required) in
        object::at(&class, &["scheduling", "nodeSelector"]).and_then(Value::as_object).into_iter().flatten()
    {
        let requested = object::text(pod, &["spec", "nodeSelector", key]).to_string();
        let required = required.as_str().unwrap_or_default();
        if !requested.is_empty() && requested != required {
            let reason = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {required}; pod.spec.nodeSelector[{key}] = {requested}"
            );
            return forbid(call, pod, &reason);
        }
        object::ensure_object(pod, &["spec", "nodeSelector"]).insert(key.clone(), required.into());
    }
    for toleration in object::list(&class, &["scheduling", "tolerations"]) {
        push_new(pod, &["spec"], "tolerations", toleration.clone());
    }
    Ok(())
}

fn default_pod(pod: &mut Value) {
    let spec = object::ensure_object(pod, &["spec"]);
    let account = spec.entry("serviceAccountName").or_insert_with(|| "default".into()).clone();
    spec.entry("serviceAccount").or_insert(account);
    add_tolerations(pod);
}

/// Adds tolerations for not-ready and unreachable nodes of five minutes, unless the pod has its
/// own.
fn add_tolerations(pod: &mut Value) {
    for key in [NOT_READY, UNREACHABLE] {
        let tolerated = object::list(pod, &["spec", "tolerations"]).iter().any(|toleration| {
            let (own_key, effect) = (object::text(toleration, &["key"]), object::text(toleration, &["effect"]));
            (own_key == key || own_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            push_new(pod, &["spec"], "tolerations", toleration);
        }
    }
}

/// Adds the taint that a node keeps until the node controller reports it as ready.
fn add_not_ready_taint(node: &mut Value) {
    let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
    push_new(node, &["spec"], "taints", taint);
}

/// Sets the default storage class of a claim without a class. Of several defaults the newest is
/// used.
fn set_storage_class(call: &Call<'_>, claim: &mut Value) -> ApiResult<()> {
    if object::at(claim, &["spec", "storageClassName"]).is_some() {
        return Ok(());
    }
    let is_default = |class: &Value| {
        object::text(class, &["metadata", "annotations", "storageclass.kubernetes.io/is-default-class"]) == "true"
    };
    let mut classes: Vec<Value> =
        all(call, "storage.k8s.io", "storageclasses", "is-default-class")?.into_iter().filter(is_default).collect();
    classes.sort_by_key(|class| {
        (
            object::text(class, &["metadata", "creationTimestamp"]).to_string(),
            std::cmp::Reverse(object::name(class).to_string()),
        )
    });
    if let Some(class) = classes.last() {
        object::ensure_object(claim, &["spec"]).insert("storageClassName".into(), object::name(class).into());
    }
    Ok(())
}

/// Appends an item to a list that does not contain it.
fn push_new(object: &mut Value, path: &[&str], key: &str, item: Value) {
    let list = object::ensure_object(object, path).entry(key).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut().filter(|list| !list.contains(&item)) {
        list.push(item);
    }
}
