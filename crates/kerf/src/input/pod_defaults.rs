//! What an API server adds to a pod on its way in, for pods and pod templates that never passed one: requests from limits, the number
//! behind the priority class, the overhead of the runtime class, the host ports of the host network, the selectors that
//! `matchLabelKeys` stands for. A pod with a uid has passed one and is taken as it is.

use std::collections::BTreeMap;

use kerf_api::slim::{Container, DaemonSet, Pod, PodSpec, Str};
use serde_json::{Value, json};

use super::decode::{decode, decode_tree};
use super::documents::Body;
use super::objects::{Given, Outcome, Reading};
use super::parts::Parts;

/// Parts of the names of the fields that are completed from. An object without any of them in its text needs no second look.
const MARKS: [&str; 3] = ["ClassName", "hostNetwork", "LabelKeys"];

/// The priorities that every cluster knows.
const SYSTEM_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The cluster's classes, as far as they say something about pods.
#[derive(Debug, Default)]
pub(super) struct PodDefaults {
    /// The number behind each priority class.
    priorities: BTreeMap<Str, i32>,
    /// The number of pods that name no priority class.
    default_priority: Option<i32>,
    /// What each runtime class adds, as it is written.
    overheads: BTreeMap<Str, Value>,
}

/// A priority class.
#[derive(Debug)]
pub(super) struct PriorityClass {
    pub(super) name: Str,
    value: i32,
    is_default: bool,
}

/// A runtime class.
#[derive(Debug)]
pub(super) struct RuntimeClass {
    pub(super) name: Str,
    overhead: Value,
}

/// Reads a priority class.
pub(super) fn read_priority_class(body: &Body<'_>) -> Outcome<PriorityClass> {
    let mut parts = Parts::of(body)?;
    let name = Str::from(parts.get::<String>("metadata.name"));
    let class = PriorityClass { name, value: parts.get("value"), is_default: parts.get("globalDefault") };
    Ok(Reading::of(parts.finish(class)?))
}

/// Reads a runtime class.
pub(super) fn read_runtime_class(body: &Body<'_>) -> Outcome<RuntimeClass> {
    let mut parts = Parts::of(body)?;
    let name = Str::from(parts.get::<String>("metadata.name"));
    let class = RuntimeClass { name, overhead: parts.get("overhead.podFixed") };
    Ok(Reading::of(parts.finish(class)?))
}

impl PodDefaults {
    /// What these classes say of pods.
    pub(super) fn new(priorities: Vec<Given<PriorityClass>>, runtimes: Vec<Given<RuntimeClass>>) -> Self {
        // Of several defaults the API server takes the lowest.
        let defaults = priorities.iter().filter(|class| class.object.is_default).map(|class| class.object.value);
        let default_priority = defaults.min();
        let system = SYSTEM_PRIORITIES.map(|(name, value)| (Str::new_static(name), value));
        let named = priorities.into_iter().map(|class| (class.object.name, class.object.value));
        let overheads = runtimes.into_iter().map(|class| (class.object.name, class.object.overhead));
        Self { priorities: system.into_iter().chain(named).collect(), default_priority, overheads: overheads.collect() }
    }

    /// Reads a pod.
    pub(super) fn read_pod(&self, body: &Body<'_>) -> Outcome<Pod> {
        let mut pod: Pod = decode(body)?;
        if !pod.metadata.uid.is_empty() {
            return Ok(Reading::of(pod));
        }
        if mentions_any(body, &MARKS) {
            let mut tree = body.tree().map_err(|problem| vec![problem])?;
            self.complete(&mut tree);
            pod = decode_tree(tree)?;
        }
        pod.spec.priority = pod.spec.priority.or(self.default_priority);
        requests_from_limits(&mut pod.spec);
        Ok(Reading::of(pod))
    }

    /// Reads a daemon set. Its template's requests are completed where the daemons of a node are counted (spec 02 section 4.5).
    pub(super) fn read_daemon_set(&self, body: &Body<'_>) -> Outcome<DaemonSet> {
        if !mentions_any(body, &MARKS) {
            return Ok(Reading::of(decode(body)?));
        }
        let mut tree = body.tree().map_err(|problem| vec![problem])?;
        if let Some(template) = tree.pointer_mut("/spec/template") {
            self.complete(template);
        }
        Ok(Reading::of(decode_tree(tree)?))
    }

    /// Completes a pod or pod template as it is written. What is not as it should be stays, for the decoder to complain of.
    pub(super) fn complete(&self, pod: &mut Value) {
        let labels = pod.pointer("/metadata/labels").cloned().unwrap_or(Value::Null);
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };

        let class = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
        if let Some(priority) = class("priorityClassName").and_then(|name| self.priorities.get(name.as_str())) {
            spec.entry("priority").or_insert_with(|| json!(priority));
        }
        let class = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
        if let Some(overhead) = class("runtimeClassName").and_then(|name| self.overheads.get(name.as_str())) {
            spec.entry("overhead").or_insert_with(|| overhead.clone());
        }
        if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
            for list in ["containers", "initContainers"] {
                let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
                containers.for_each(open_ports_on_host);
            }
        }
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(terms) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
            for strength in
                ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
            {
                for entry in terms.get_mut(strength).and_then(Value::as_array_mut).into_iter().flatten() {
                    let is_weighted = entry.get("podAffinityTerm").is_some();
                    let term = if is_weighted { entry.get_mut("podAffinityTerm") } else { Some(entry) };
                    if let Some(term) = term {
                        select_by_label_keys(term, &labels);
                    }
                }
            }
        }
    }
}

/// A request that is not given is what the limit says.
pub(super) fn requests_from_limits(spec: &mut PodSpec) {
    let complete = |container: &mut Container| {
        let resources = &mut container.resources;
        if resources.limits.iter().any(|(name, _)| resources.requests.get(name).is_none()) {
            // Of a name that comes twice the last one counts: what is requested wins over the limit.
            let limits = resources.limits.iter().map(|(name, limit)| (name.clone(), limit));
            let requests = resources.requests.iter().map(|(name, request)| (name.clone(), request));
            resources.requests = limits.chain(requests).collect();
        }
    };
    spec.containers.iter_mut().chain(&mut spec.init_containers).for_each(complete);
}

/// On the host's network a container's port is the host's.
fn open_ports_on_host(container: &mut Value) {
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = port.as_object_mut()
            && let Some(number) = fields.get("containerPort").cloned()
        {
            fields.entry("hostPort").or_insert(number);
        }
    }
}

/// Writes out the expressions that `matchLabelKeys` and `mismatchLabelKeys` of an affinity term stand for.
fn select_by_label_keys(term: &mut Value, labels: &Value) {
    let mut expressions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({ "key": key, "operator": operator, "values": [value] }));
            }
        }
    }
    let selector = term.get_mut("labelSelector").and_then(Value::as_object_mut);
    if let (Some(selector), false) = (selector, expressions.is_empty())
        && let Some(list) = selector.entry("matchExpressions").or_insert_with(|| json!([])).as_array_mut()
    {
        list.extend(expressions);
    }
}

fn mentions_any(body: &Body<'_>, marks: &[&str]) -> bool {
    match body {
        Body::Json(text) => marks.iter().any(|mark| text.contains(mark)),
        Body::Tree(_) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    fn defaults() -> PodDefaults {
        let class = |text: &str| read_priority_class(&Body::Json(text)).unwrap().object;
        let runtime = |text: &str| read_runtime_class(&Body::Json(text)).unwrap().object;
        PodDefaults {
            default_priority: Some(7),
            ..PodDefaults::new(
                vec![given(class(r#"{"metadata":{"name":"high"},"value":1000}"#))],
                vec![given(runtime(r#"{"metadata":{"name":"vm"},"overhead":{"podFixed":{"memory":"64Mi"}}}"#))],
            )
        }
    }

    fn given<T>(object: T) -> Given<T> {
        let origin = crate::input::source::Origin { source: 0, document: 1, item: 0, line: 1 };
        Given { origin, object }
    }

    fn pod(object: &Value) -> Pod {
        let from_text = defaults().read_pod(&Body::Json(&object.to_string())).unwrap().object;
        assert_eq!(defaults().read_pod(&Body::Tree(object.clone())).unwrap().object, from_text);
        from_text
    }

    #[test]
    fn requests_come_from_limits_where_they_are_missing() {
        let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        let spec = json!({"containers": [{"resources": resources}], "initContainers": [{"resources": resources}]});
        let pod = pod(&json!({"metadata": {"name": "a"}, "spec": spec}));
        for container in [&pod.spec.containers[0], &pod.spec.init_containers[0]] {
            let requests: Vec<String> =
                container.resources.requests.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect();
            assert_eq!(requests, ["cpu=1", "memory=1Gi"]);
        }
    }

    #[test]
    fn classes_give_priority_and_overhead() {
        let of = |spec: Value| pod(&json!({"metadata": {"name": "a"}, "spec": spec})).spec;
        assert_eq!(of(json!({"priorityClassName": "high"})).priority, Some(1000));
        assert_eq!(of(json!({"priorityClassName": "system-node-critical"})).priority, Some(2_000_001_000));
        assert_eq!(of(json!({"priorityClassName": "high", "priority": 3})).priority, Some(3));
        assert_eq!(of(json!({})).priority, Some(7));
        assert_eq!(of(json!({"runtimeClassName": "vm"})).overhead.get("memory").unwrap().to_string(), "64Mi");
        assert!(of(json!({"runtimeClassName": "unknown"})).overhead.is_empty());
    }

    #[test]
    fn ports_on_the_host_network_are_host_ports() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]);
        let of = |host: bool| {
            pod(&json!({"metadata": {"name": "a"}, "spec": {"hostNetwork": host, "containers": [{"ports": ports}]}}))
        };
        let numbers = |pod: &Pod| pod.spec.containers[0].ports.iter().map(|port| port.port).collect::<Vec<_>>();
        assert_eq!((numbers(&of(true)), numbers(&of(false))), (vec![80, 8081], vec![8081]));
    }

    #[test]
    fn label_keys_become_expressions() {
        let term = json!({"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["rev", "absent"], "mismatchLabelKeys": ["tenant"]});
        let affinity = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
        }});
        let pod = pod(
            &json!({"metadata": {"name": "a", "labels": {"rev": "1", "tenant": "x"}}, "spec": {"affinity": affinity}}),
        );
        let anti = &pod.spec.affinity.as_ref().unwrap().pod_anti_affinity;
        for term in [&anti.required[0], &anti.preferred[0].pod_affinity_term] {
            let expressions = &term.label_selector.as_ref().unwrap().match_expressions;
            let keys: Vec<_> = expressions.iter().map(|expression| expression.key.as_str()).collect();
            assert_eq!(keys, ["rev", "tenant"]);
        }
    }

    #[test]
    fn a_pod_that_passed_an_api_server_is_taken_as_it_is() {
        let spec = json!({"priorityClassName": "high", "containers": [{"resources": {"limits": {"cpu": "1"}}}]});
        let pod = pod(&json!({"metadata": {"name": "a", "uid": "u"}, "spec": spec}));
        assert!(pod.spec.priority.is_none() && pod.spec.containers[0].resources.requests.is_empty());
    }

    #[test]
    fn what_is_no_pod_does_not_confuse_it() {
        for spec in [
            json!(1),
            json!({"affinity": {"podAffinity": 3}, "hostNetwork": true, "containers": {}}),
            json!({"containers": [1]}),
        ] {
            let mut pod = json!({"metadata": [], "spec": spec});
            let before = pod.clone();
            defaults().complete(&mut pod);
            assert_eq!(pod, before);
        }
    }
}
