//! Defaults that an API server adds to a pod, for pods and pod templates that never passed one:
//! requests from limits, the value of the priority class, the additions of the runtime class, host
//! ports on the host network, and the selectors that `matchLabelKeys` implies. A pod with a uid has
//! passed an API server and is not changed.

use std::collections::BTreeMap;

use kerf_api::slim::{Container, DaemonSet, Pod, PodSpec, Str};
use serde_json::{Value, json};

use super::decode::{FieldProblem, decode, decode_tree};
use super::documents::ObjectBody;
use super::field_reader::FieldReader;
use super::objects::{ReadObject, ReadResult, WithOrigin};
use super::runtime_class::RuntimeClass;

/// Parts of the names of fields that imply defaults. An object whose text contains none of them
/// needs no defaults from its tree.
const DEFAULTED_FIELD_MARKERS: [&str; 3] = ["ClassName", "hostNetwork", "LabelKeys"];

/// Priority classes that exist in every cluster.
const SYSTEM_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The cluster's priority and runtime classes.
#[derive(Debug, Default)]
pub(super) struct PodDefaults {
    /// Priority by name of the priority class.
    priorities: BTreeMap<Str, i32>,
    /// Priority of pods that name no priority class; `None` if no class is the global default.
    default_priority: Option<i32>,
    runtimes: BTreeMap<Str, RuntimeClass>,
}

/// The fields of a PriorityClass that matter for pods.
#[derive(Debug)]
pub(super) struct PriorityClass {
    pub(super) name: Str,
    value: i32,
    is_default: bool,
}

/// Remarks on a pod that arose while its defaults were applied.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) warnings: Vec<String>,
    /// Problems for which an API server rejects the pod.
    pub(super) rejections: Vec<FieldProblem>,
}

impl Findings {
    /// Returns warnings and problems as warnings: an API server accepts a template and rejects its
    /// pods.
    pub(super) fn into_template_warnings(self) -> Vec<String> {
        let rejections =
            self.rejections.into_iter().map(|problem| format!("an API server would reject its pods: {problem}"));
        self.warnings.into_iter().chain(rejections).collect()
    }
}

pub(super) fn read_priority_class(body: &ObjectBody<'_>) -> ReadResult<PriorityClass> {
    let mut reader = FieldReader::of(body)?;
    let name = Str::from(reader.get::<String>("metadata.name"));
    let class = PriorityClass { name, value: reader.get("value"), is_default: reader.get("globalDefault") };
    Ok(ReadObject::of(reader.finish(class)?))
}

impl PodDefaults {
    /// Collects the defaults that these classes imply.
    pub(super) fn new(priorities: Vec<WithOrigin<PriorityClass>>, runtimes: Vec<WithOrigin<RuntimeClass>>) -> Self {
        // If several classes are the global default, the API server uses the lowest value.
        let defaults = priorities.iter().filter(|class| class.object.is_default).map(|class| class.object.value);
        let default_priority = defaults.min();
        let system = SYSTEM_PRIORITIES.map(|(name, value)| (Str::new_static(name), value));
        let named = priorities.into_iter().map(|class| (class.object.name, class.object.value));
        let runtimes = runtimes.into_iter().map(|class| (class.object.name.clone(), class.object));
        Self { priorities: system.into_iter().chain(named).collect(), default_priority, runtimes: runtimes.collect() }
    }

    /// Decodes a pod and applies the defaults.
    pub(super) fn read_pod(&self, body: &ObjectBody<'_>) -> ReadResult<Pod> {
        let mut pod: Pod = decode(body)?;
        if !pod.metadata.uid.is_empty() {
            return Ok(ReadObject::of(pod));
        }
        let mut warnings = Vec::new();
        if contains_any(body, &DEFAULTED_FIELD_MARKERS) {
            let mut tree = body.tree().map_err(|problem| vec![problem])?;
            let findings = self.apply_defaults(&mut tree);
            if !findings.rejections.is_empty() {
                return Err(findings.rejections.into());
            }
            warnings = findings.warnings;
            pod = decode_tree(tree)?;
        }
        // A bound pod needs no requests any more. A pending pod without containers has probably
        // lost its requests.
        let is_pending = pod.spec.node_name.as_ref().is_none_or(Str::is_empty);
        if is_pending && pod.spec.containers.is_empty() {
            warnings.push("spec.containers: Required value: an API server rejects a pod without containers".to_owned());
        }
        pod.spec.priority = pod.spec.priority.or(self.default_priority);
        default_requests_to_limits(&mut pod.spec);
        Ok(ReadObject { object: pod, warnings })
    }

    /// Decodes a DaemonSet and applies the defaults to its template. Requests are defaulted to
    /// limits where the daemons of a node are counted (spec 02 section 4.5).
    pub(super) fn read_daemon_set(&self, body: &ObjectBody<'_>) -> ReadResult<DaemonSet> {
        if !contains_any(body, &DEFAULTED_FIELD_MARKERS) {
            return Ok(ReadObject::of(decode(body)?));
        }
        let mut tree = body.tree().map_err(|problem| vec![problem])?;
        let findings = tree.pointer_mut("/spec/template").map(|template| self.apply_defaults(template));
        let object: DaemonSet = decode_tree(tree)?;
        // A DaemonSet that was read from a cluster comes without the classes of the cluster.
        let is_from_cluster = !object.metadata.uid.is_empty();
        let warnings = findings.filter(|_| !is_from_cluster).unwrap_or_default().into_template_warnings();
        Ok(ReadObject { object, warnings })
    }

    /// Applies the defaults to the tree of a pod or pod template. Invalid values stay, so that the
    /// decoder reports them.
    pub(super) fn apply_defaults(&self, pod: &mut Value) -> Findings {
        let mut findings = Findings::default();
        let labels = pod.pointer("/metadata/labels").cloned().unwrap_or(Value::Null);
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return findings };

        let class = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
        if let Some(priority) = class("priorityClassName").and_then(|name| self.priorities.get(name.as_str())) {
            spec.entry("priority").or_insert_with(|| json!(priority));
        }
        let class = |field: &str| spec.get(field).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = class("runtimeClassName").filter(|name| !name.is_empty()) {
            match self.runtimes.get(name.as_str()) {
                Some(class) => findings.rejections = class.apply_to_spec(spec),
                None => findings.warnings.push(format!(
                    "RuntimeClass `{name}` is not in the input: its overhead is not counted, and an API server without the class rejects the pod"
                )),
            }
        }
        if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
            for list in ["containers", "initContainers"] {
                let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
                containers.for_each(set_host_ports);
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
                        expand_label_keys(term, &labels);
                    }
                }
            }
        }
        findings
    }
}

/// Sets each missing request to the container's limit.
pub(super) fn default_requests_to_limits(spec: &mut PodSpec) {
    let complete = |container: &mut Container| {
        let resources = &mut container.resources;
        if resources.limits.iter().any(|(name, _)| resources.requests.get(name).is_none()) {
            // If a name occurs twice, the last value counts: a request wins over the limit.
            let limits = resources.limits.iter().map(|(name, limit)| (name.clone(), limit));
            let requests = resources.requests.iter().map(|(name, request)| (name.clone(), request));
            resources.requests = limits.chain(requests).collect();
        }
    };
    spec.containers.iter_mut().chain(&mut spec.init_containers).for_each(complete);
}

/// Sets host ports equal to container ports, as on the host network.
fn set_host_ports(container: &mut Value) {
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = port.as_object_mut()
            && let Some(number) = fields.get("containerPort").cloned()
        {
            fields.entry("hostPort").or_insert(number);
        }
    }
}

/// Adds the expressions that `matchLabelKeys` and `mismatchLabelKeys` of an affinity term imply.
fn expand_label_keys(term: &mut Value, labels: &Value) {
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

fn contains_any(body: &ObjectBody<'_>, markers: &[&str]) -> bool {
    match body {
        ObjectBody::Json(text) => markers.iter().any(|marker| text.contains(marker)),
        ObjectBody::Tree(_) => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;
    use crate::input::runtime_class::read_runtime_class;

    fn defaults() -> PodDefaults {
        let class = |text: &str| read_priority_class(&ObjectBody::Json(text)).unwrap().object;
        let runtime = |text: &str| read_runtime_class(&ObjectBody::Json(text)).unwrap().object;
        PodDefaults {
            default_priority: Some(7),
            ..PodDefaults::new(
                vec![with_origin(class(r#"{"metadata":{"name":"high"},"value":1000}"#))],
                vec![with_origin(runtime(
                    r#"{"metadata":{"name":"vm"},"overhead":{"podFixed":{"memory":"64Mi"}},"scheduling":{
                        "nodeSelector":{"vm":"yes"},"tolerations":[{"key":"vm","operator":"Exists"}]}}"#,
                ))],
            )
        }
    }

    fn with_origin<T>(object: T) -> WithOrigin<T> {
        let origin = crate::input::source::ObjectOrigin { source: 0, document: 1, item: 0, line: 1 };
        WithOrigin { origin, object }
    }

    fn pod(object: &Value) -> Pod {
        let from_text = defaults().read_pod(&ObjectBody::Json(&object.to_string())).unwrap().object;
        assert_eq!(defaults().read_pod(&ObjectBody::Tree(object.clone())).unwrap().object, from_text);
        from_text
    }

    #[test]
    fn missing_requests_are_set_to_limits() {
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
    fn classes_set_priority_and_overhead() {
        let spec_of = |spec: Value| pod(&json!({"metadata": {"name": "a"}, "spec": spec})).spec;
        assert_eq!(spec_of(json!({"priorityClassName": "high"})).priority, Some(1000));
        assert_eq!(spec_of(json!({"priorityClassName": "system-node-critical"})).priority, Some(2_000_001_000));
        assert_eq!(spec_of(json!({"priorityClassName": "high", "priority": 3})).priority, Some(3));
        assert_eq!(spec_of(json!({})).priority, Some(7));
        assert_eq!(spec_of(json!({"runtimeClassName": "vm"})).overhead.get("memory").unwrap().to_string(), "64Mi");
        assert!(spec_of(json!({"runtimeClassName": "unknown"})).overhead.is_empty());
    }

    // Spec 09 section 2.1: what the API server's admission does with a runtime class.
    #[test]
    fn a_runtime_class_adds_its_selector_and_tolerations() {
        let own = json!({"key": "own", "operator": "Exists"});
        let spec = json!({"runtimeClassName": "vm", "nodeSelector": {"disk": "ssd"}, "tolerations": [own]});
        let spec = pod(&json!({"metadata": {"name": "a"}, "spec": spec})).spec;
        assert_eq!((spec.node_selector.get("vm"), spec.node_selector.get("disk")), (Some("yes"), Some("ssd")));
        let tolerated: Vec<&str> = spec.tolerations.iter().map(|toleration| toleration.key.as_str()).collect();
        assert_eq!(tolerated, ["own", "vm"]);
        // A toleration that the pod already has is not added again.
        let same = json!({"runtimeClassName": "vm", "tolerations": [{"key": "vm", "operator": "Exists"}]});
        assert_eq!(pod(&json!({"metadata": {"name": "a"}, "spec": same})).spec.tolerations.len(), 1);
    }

    #[test]
    fn a_pod_that_contradicts_its_runtime_class_is_rejected() {
        let spec = json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}});
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let problems = defaults().read_pod(&ObjectBody::Tree(object.clone())).unwrap_err();
        let expected = "spec.nodeSelector: Forbidden: conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no";
        assert_eq!(problems.problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        let set = json!({"metadata": {"name": "d"}, "spec": {"template": object}});
        let warnings = defaults().read_daemon_set(&ObjectBody::Tree(set)).unwrap().warnings;
        assert_eq!(warnings, [format!("an API server would reject its pods: {expected}")]);
    }

    #[test]
    fn a_missing_runtime_class_is_a_warning() {
        let spec = json!({"runtimeClassName": "unknown", "containers": [{}]});
        let template = json!({"metadata": {"name": "a"}, "spec": spec});
        let warning = "RuntimeClass `unknown` is not in the input: its overhead is not counted, and an API server without the class rejects the pod";
        assert_eq!(defaults().read_pod(&ObjectBody::Tree(template.clone())).unwrap().warnings, [warning]);
        let set = json!({"metadata": {"name": "d"}, "spec": {"template": template}});
        assert_eq!(defaults().read_daemon_set(&ObjectBody::Tree(set)).unwrap().warnings, [warning]);
        let from_cluster = json!({"metadata": {"name": "d", "uid": "u"}, "spec": {"template": template}});
        assert_eq!(defaults().read_daemon_set(&ObjectBody::Tree(from_cluster)).unwrap().warnings, Vec::<String>::new());
    }

    #[test]
    fn ports_on_the_host_network_are_host_ports() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]);
        let pod_with_host_network = |host: bool| {
            pod(&json!({"metadata": {"name": "a"}, "spec": {"hostNetwork": host, "containers": [{"ports": ports}]}}))
        };
        let numbers = |pod: &Pod| pod.spec.containers[0].ports.iter().map(|port| port.port).collect::<Vec<_>>();
        assert_eq!(
            (numbers(&pod_with_host_network(true)), numbers(&pod_with_host_network(false))),
            (vec![80, 8081], vec![8081])
        );
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
    fn a_pod_that_passed_an_api_server_is_not_changed() {
        let spec = json!({"priorityClassName": "high", "containers": [{"resources": {"limits": {"cpu": "1"}}}]});
        let pod = pod(&json!({"metadata": {"name": "a", "uid": "u"}, "spec": spec}));
        assert!(pod.spec.priority.is_none() && pod.spec.containers[0].resources.requests.is_empty());
    }

    #[test]
    fn invalid_pods_are_not_changed() {
        for spec in [
            json!(1),
            json!({"affinity": {"podAffinity": 3}, "hostNetwork": true, "containers": {}}),
            json!({"containers": [1]}),
        ] {
            let mut pod = json!({"metadata": [], "spec": spec});
            let before = pod.clone();
            defaults().apply_defaults(&mut pod);
            assert_eq!(pod, before);
        }
    }
}
