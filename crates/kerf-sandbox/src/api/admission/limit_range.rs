//! The admission plugin `LimitRanger` for pods: containers without requests and limits get the
//! defaults of the LimitRanges in their namespace, and pods outside the bounds are rejected.

use std::collections::BTreeMap;

use kerf_api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::api::call::{Call, parse_stored};
use crate::api::object;
use crate::api::selector::Selection;
use crate::api::status::{ApiResult, StatusError};
use crate::api::storage::PageQuery;

/// Annotation in which the plugin lists the values that it has set.
const SET_BY_PLUGIN: &str = "kubernetes.io/limit-ranger";

/// Quantities of resources such as `cpu`, by name.
type AmountsByResource = BTreeMap<String, Quantity>;

/// Applies the LimitRanges of the pod's namespace, in the order of their names.
pub(super) fn admit_pod(call: &Call<'_>, pod: &mut Value) -> ApiResult<()> {
    let ranges = ranges_in_namespace(call)?;
    for range in &ranges {
        set_defaults(pod, range);
    }
    for range in &ranges {
        let problems = problems(pod, range);
        if !problems.is_empty() {
            let reason = if problems.len() == 1 { problems.concat() } else { format!("[{}]", problems.join(", ")) };
            return super::forbid(call, pod, &reason);
        }
    }
    Ok(())
}

fn ranges_in_namespace(call: &Call<'_>) -> ApiResult<Vec<Value>> {
    let (Some(resource), Some(namespace)) = (call.registry.find("", "limitranges"), call.namespace()) else {
        return Ok(Vec::new());
    };
    let everything = Selection::default();
    let query =
        PageQuery { namespace: Some(namespace), selection: &everything, from: None, at_revision: None, limit: None };
    let page = call.server.storage.page(resource.table, query);
    let page = page.map_err(|_| StatusError::internal("the present is never compacted"))?;
    page.objects.iter().map(|stored| parse_stored(stored)).collect()
}

fn items<'r>(range: &'r Value, kind: &'r str) -> impl Iterator<Item = &'r Value> {
    object::list(range, &["spec", "limits"]).iter().filter(move |item| object::text(item, &["type"]) == kind)
}

/// Sets the requests and limits that containers lack, and lists them in an annotation.
fn set_defaults(pod: &mut Value, range: &Value) {
    let mut set: Vec<String> = Vec::new();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        for container in object::list_mut(pod, &["spec", list]) {
            let name = object::text(container, &["name"]).to_owned();
            for (field, source, noun) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")] {
                let mut defaults = Map::new();
                for item in items(range, "Container") {
                    let amounts = object::at(item, &[source]).and_then(Value::as_object);
                    defaults.extend(amounts.into_iter().flatten().map(|(key, amount)| (key.clone(), amount.clone())));
                }
                defaults.retain(|key, _| object::at(container, &["resources", field, key]).is_none());
                if !defaults.is_empty() {
                    let keys: Vec<&str> = defaults.keys().map(String::as_str).collect();
                    set.push(format!("{} {noun} for {word} {name}", keys.join(", ")));
                    object::ensure_object(container, &["resources", field]).extend(defaults);
                }
            }
        }
    }
    if !set.is_empty() {
        let text = format!("LimitRanger plugin set: {}", set.join("; "));
        object::ensure_object(pod, &["metadata", "annotations"]).insert(SET_BY_PLUGIN.to_owned(), text.into());
    }
}

/// Returns the bounds of a LimitRange that a pod violates.
fn problems(pod: &Value, range: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for item in items(range, "Container") {
        for list in ["initContainers", "containers"] {
            for container in object::list(pod, &["spec", list]) {
                let (requests, limits) = (amounts(container, "requests"), amounts(container, "limits"));
                problems.extend(item_problems(item, "Container", &requests, &limits));
            }
        }
    }
    for item in items(range, "Pod") {
        problems.extend(item_problems(item, "Pod", &of_whole_pod(pod, "requests"), &of_whole_pod(pod, "limits")));
    }
    problems
}

fn amounts(container: &Value, field: &str) -> AmountsByResource {
    resource_list(object::at(container, &["resources", field]))
}

fn resource_list(list: Option<&Value>) -> AmountsByResource {
    let entries = list.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, amount)| Some((key.clone(), amount.as_str()?.parse().ok()?))).collect()
}

/// Returns the amounts of all containers together, or of the largest init container if that is
/// more.
fn of_whole_pod(pod: &Value, field: &str) -> AmountsByResource {
    let mut total = AmountsByResource::new();
    for container in object::list(pod, &["spec", "containers"]) {
        for (key, amount) in amounts(container, field) {
            let sum = total.entry(key).or_default();
            *sum += amount;
        }
    }
    for container in object::list(pod, &["spec", "initContainers"]) {
        for (key, amount) in amounts(container, field) {
            let largest = total.entry(key).or_default();
            *largest = (*largest).max(amount);
        }
    }
    total
}

fn item_problems(item: &Value, kind: &str, requests: &AmountsByResource, limits: &AmountsByResource) -> Vec<String> {
    let bounds = |field: &str| resource_list(object::at(item, &[field]));
    let mut problems = Vec::new();
    for (key, min) in bounds("min") {
        let bound = format!("minimum {key} usage per {kind} is {min}");
        match (requests.get(&key), limits.get(&key)) {
            (None, _) => problems.push(format!("{bound}.  No request is specified")),
            (Some(request), _) if *request < min => problems.push(format!("{bound}, but request is {request}")),
            (Some(_), Some(limit)) if *limit < min => problems.push(format!("{bound}, but limit is {limit}")),
            (Some(_), Some(_) | None) => {}
        }
    }
    for (key, max) in bounds("max") {
        let bound = format!("maximum {key} usage per {kind} is {max}");
        match (requests.get(&key), limits.get(&key)) {
            (_, None) => problems.push(format!("{bound}.  No limit is specified")),
            (_, Some(limit)) if *limit > max => problems.push(format!("{bound}, but limit is {limit}")),
            (Some(request), Some(_)) if *request > max => problems.push(format!("{bound}, but request is {request}")),
            (Some(_) | None, Some(_)) => {}
        }
    }
    for (key, ratio) in bounds("maxLimitRequestRatio") {
        let bound = format!("{key} max limit to request ratio per {kind} is {ratio}");
        let amount = |amounts: &AmountsByResource| {
            amounts.get(&key).map(|amount| amount.milli_value()).filter(|amount| *amount != 0)
        };
        match (amount(requests), amount(limits)) {
            (None, _) => problems.push(format!("{bound}, but no request is specified or request is 0")),
            (Some(_), None) => problems.push(format!("{bound}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let actual = limit as f64 / request as f64;
                if actual * 1000.0 > ratio.milli_value() as f64 {
                    problems.push(format!("{bound}, but provided ratio is {actual:.6}"));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(limits: Value) -> Value {
        json!({"metadata": {"name": "r"}, "spec": {"limits": limits}})
    }

    #[test]
    fn containers_without_requests_get_the_defaults() {
        let range = range(json!([
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Gi"}},
            {"type": "Pod", "max": {"cpu": "4"}},
        ]));
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}, {"name": "b"}],
        }});
        set_defaults(&mut pod, &range);
        let all = json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        assert_eq!(pod["spec"]["initContainers"][0]["resources"], all);
        assert_eq!(pod["spec"]["containers"][1]["resources"], all);
        let own = json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "2"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], own, "its own request stays");
        assert_eq!(
            pod["metadata"]["annotations"][SET_BY_PLUGIN],
            "LimitRanger plugin set: memory request for container a; cpu limit for container a; \
             cpu, memory request for container b; cpu limit for container b; \
             cpu, memory request for init container i; cpu limit for init container i"
        );
    }

    #[test]
    fn pods_outside_the_bounds_are_rejected_with_every_problem() {
        let container = |request: &str, limit: &str| json!({"name": "c", "resources": {"requests": {"cpu": request}, "limits": {"cpu": limit}}});
        let pod = |containers: Value| json!({"spec": {"containers": containers}});
        let bounds = json!({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"},
            "maxLimitRequestRatio": {"cpu": "2"}});
        let range = range(json!([bounds, {"type": "Pod", "max": {"cpu": "1500m"}}]));
        assert_eq!(problems(&pod(json!([container("500m", "1")])), &range), Vec::<String>::new());
        assert_eq!(
            problems(&pod(json!([container("50m", "2"), {"name": "d"}])), &range),
            [
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum cpu usage per Container is 1, but limit is 2",
                "cpu max limit to request ratio per Container is 2, but provided ratio is 40.000000",
                "minimum cpu usage per Container is 100m.  No request is specified",
                "maximum cpu usage per Container is 1.  No limit is specified",
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
                "maximum cpu usage per Pod is 1500m, but limit is 2",
            ]
        );
    }
}
