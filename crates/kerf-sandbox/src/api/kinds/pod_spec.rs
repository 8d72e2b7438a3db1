//! The pod spec of pods and pod templates: defaults and validation.

use serde_json::{Map, Value};

use super::defaults::DefaultValue::{EmptyObject, Flag, Number, Text};
use super::defaults::{DefaultValue, set_defaults, set_defaults_if_object};
use super::{container, resources};
use crate::api::field::{self, FieldError};
use crate::api::names::{self, NameRule};
use crate::api::object;

const POD_SPEC_DEFAULTS: &[(&str, DefaultValue)] = &[
    ("dnsPolicy", Text("ClusterFirst")),
    ("restartPolicy", Text("Always")),
    ("securityContext", EmptyObject),
    ("terminationGracePeriodSeconds", Number(30)),
    ("schedulerName", Text("default-scheduler")),
];
const CONTAINER_DEFAULTS: &[(&str, DefaultValue)] = &[
    ("terminationMessagePath", Text("/dev/termination-log")),
    ("terminationMessagePolicy", Text("File")),
    ("resources", EmptyObject),
];
const PROBE_DEFAULTS: &[(&str, DefaultValue)] = &[
    ("timeoutSeconds", Number(1)),
    ("periodSeconds", Number(10)),
    ("successThreshold", Number(1)),
    ("failureThreshold", Number(3)),
];
/// Octal 0644. JSON has decimal numbers only.
const FILE_MODE_DEFAULTS: &[(&str, DefaultValue)] = &[("defaultMode", Number(420))];
const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Sets the defaults of a pod spec, of a pod or of a template.
pub(super) fn default(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    set_defaults(fields, POD_SPEC_DEFAULTS);
    for list in CONTAINER_LISTS {
        for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(container);
        }
    }
    for volume in fields.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default_volume(volume);
    }
}

fn default_container(container: &mut Value) {
    let Some(fields) = container.as_object_mut() else { return };
    set_defaults(fields, CONTAINER_DEFAULTS);
    let image = fields.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
    set_defaults(fields, &[("imagePullPolicy", Text(policy))]);
    for port in fields.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        set_defaults_if_object(port, &[("protocol", Text("TCP"))]);
    }
    for variable in fields.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(reference) = object::map_mut(variable, &["valueFrom", "fieldRef"]) {
            set_defaults(reference, &[("apiVersion", Text("v1"))]);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = fields.get_mut(name) {
            set_defaults_if_object(probe, PROBE_DEFAULTS);
            default_http_get(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = fields.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)) {
            default_http_get(handler);
        }
    }
}

fn default_http_get(handler: &mut Value) {
    if let Some(action) = object::map_mut(handler, &["httpGet"]) {
        set_defaults(action, &[("path", Text("/")), ("scheme", Text("HTTP"))]);
    }
    if let Some(action) = object::map_mut(handler, &["grpc"]) {
        set_defaults(action, &[("service", Text(""))]);
    }
}

/// Returns true if the tag is `latest` or missing. An image with a digest and no tag is not
/// `latest`.
fn is_latest(image: &str) -> bool {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !image.contains('@'),
    }
}

fn default_volume(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if fields.keys().all(|key| key == "name") {
        fields.insert("emptyDir".into(), Map::new().into());
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = fields.get_mut(source) {
            set_defaults_if_object(source, FILE_MODE_DEFAULTS);
        }
    }
    if let Some(path) = fields.get_mut("hostPath")
        && let Some(path) = path.as_object_mut()
    {
        path.entry("type").or_insert_with(|| "".into());
    }
    let projections = fields.get_mut("projected").and_then(|projected| projected.get_mut("sources"));
    for source in projections.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(token) = object::map_mut(source, &["serviceAccountToken"]) {
            set_defaults(token, &[("expirationSeconds", Number(3600))]);
        }
    }
    if let Some(template) = object::map_mut(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        set_defaults(template, &[("volumeMode", Text("Filesystem"))]);
        object::ensure_object(volume, &["ephemeral", "volumeClaimTemplate", "metadata"]);
    }
}

/// Sets the defaults that pods have and templates do not.
pub(super) fn default_pod_only_fields(spec: &mut Value) {
    let Some(fields) = spec.as_object_mut() else { return };
    set_defaults(fields, &[("enableServiceLinks", Flag(true))]);
    if fields.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        fields.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    let host_network = fields.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default();
    for list in ["containers", "initContainers"] {
        for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            copy_limits_to_requests(container);
            if host_network {
                for port in object::list_mut(container, &["ports"]) {
                    if let (Some(number), Some(port)) = (port.get("containerPort").cloned(), port.as_object_mut()) {
                        port.entry("hostPort").or_insert(number);
                    }
                }
            }
        }
    }
    resources::default_pod_level_resources(fields);
}

fn copy_limits_to_requests(container: &mut Value) {
    let Some(limits) = object::at(container, &["resources", "limits"]).and_then(Value::as_object).cloned() else {
        return;
    };
    let requests = object::ensure_object(container, &["resources", "requests"]);
    for (resource, limit) in limits {
        requests.entry(resource).or_insert(limit);
    }
}

/// Validates the pod spec at `path`. Its containers may mount its volumes and `further_volumes`,
/// which the owner of the pods adds to them.
pub(super) fn validate_pod_spec(spec: &Value, further_volumes: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    let own_volumes = object::list(spec, &["volumes"]).iter().map(|volume| object::text(volume, &["name"]));
    let volumes: Vec<&str> = own_volumes.chain(further_volumes.iter().copied()).collect();
    if object::list(spec, &["containers"]).is_empty() {
        errors.push(field::required(format!("{path}.containers"), ""));
    }
    let mut seen = std::collections::BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in object::list(spec, &[list]).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = object::text(container, &["name"]);
            if name.is_empty() {
                errors.push(field::required(format!("{path}.name"), ""));
            } else if let Some(problem) = NameRule::Label.problems(name, false).into_iter().next() {
                errors.push(field::invalid(format!("{path}.name"), name, problem));
            } else if !seen.insert(name) {
                errors.push(field::duplicate(format!("{path}.name"), name));
            }
            if object::text(container, &["image"]).is_empty() {
                errors.push(field::required(format!("{path}.image"), ""));
            }
            resources::validate_container_resources(container, &path, errors);
            container::validate_container(container, &volumes, &path, errors);
        }
    }
    resources::validate_pod_level_resources(spec, path, errors);
    let supported = |field: &str, values: &[&str], errors: &mut Vec<FieldError>| {
        let value = object::text(spec, &[field]);
        if !value.is_empty() && !values.contains(&value) {
            errors.push(field::not_supported(format!("{path}.{field}"), value, values));
        }
    };
    supported("restartPolicy", &["Always", "OnFailure", "Never"], errors);
    supported("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    container::validate_volumes(spec, path, errors);
    if let Some(deadline) = object::number(spec, &["activeDeadlineSeconds"]).filter(|deadline| *deadline < 1) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(field::invalid(format!("{path}.activeDeadlineSeconds"), deadline, detail));
    }
    let node = object::text(spec, &["nodeName"]);
    if !node.is_empty() {
        for problem in NameRule::Subdomain.problems(node, false) {
            errors.push(field::invalid(format!("{path}.nodeName"), node, problem));
        }
    }
    for (index, gate) in object::list(spec, &["schedulingGates"]).iter().enumerate() {
        let name = object::text(gate, &["name"]);
        for problem in names::qualified_name_problems(name) {
            errors.push(field::invalid(format!("{path}.schedulingGates[{index}]"), name, problem));
        }
    }
    validate_tolerations(spec, path, errors);
    validate_node_selector(spec, path, errors);
    validate_topology_spread(spec, path, errors);
    validate_affinity(spec, path, errors);
}

fn validate_tolerations(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, toleration) in object::list(spec, &["tolerations"]).iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let (key, operator) = (object::text(toleration, &["key"]), object::text(toleration, &["operator"]));
        let (value, effect) = (object::text(toleration, &["value"]), object::text(toleration, &["effect"]));
        if key.is_empty() {
            if operator != "Exists" {
                let detail =
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                errors.push(field::invalid(format!("{path}.operator"), operator, detail));
            }
        } else if let Some(problem) = names::qualified_name_problems(key).into_iter().next() {
            errors.push(field::invalid(format!("{path}.key"), key, problem));
        }
        match operator {
            "Equal" | "" => {
                if let Some(problem) = names::label_value_problems(value).into_iter().next() {
                    errors.push(field::invalid(format!("{path}.operator"), value, problem));
                }
            }
            "Exists" if value.is_empty() => {}
            "Exists" => {
                errors.push(field::invalid(
                    format!("{path}.operator"),
                    value,
                    "value must be empty when `operator` is 'Exists'",
                ));
            }
            _ => errors.push(field::not_supported(format!("{path}.operator"), operator, &["Equal", "Exists"])),
        }
        if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
            let known = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(field::not_supported(format!("{path}.effect"), effect, known));
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(field::invalid(format!("{path}.effect"), effect, detail));
        }
    }
}

fn validate_node_selector(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in object::at(spec, &["nodeSelector"]).and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if let Some(problem) = names::qualified_name_problems(key).into_iter().next() {
            errors.push(field::invalid(format!("{path}.nodeSelector"), key.as_str(), problem));
        }
        if let Some(problem) = names::label_value_problems(value).into_iter().next() {
            errors.push(field::invalid(format!("{path}.nodeSelector"), value, problem));
        }
    }
}

fn validate_topology_spread(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let constraints = object::list(spec, &["topologySpreadConstraints"]);
    for (index, constraint) in constraints.iter().enumerate() {
        let pair = |constraint: &Value| {
            ["topologyKey", "whenUnsatisfiable"].map(|field| object::text(constraint, &[field]).to_owned())
        };
        let [key, action] = pair(constraint);
        if constraints[index + 1..].iter().any(|other| pair(other) == [key.clone(), action.clone()]) {
            let path = format!("{path}.topologySpreadConstraints[{index}].{{topologyKey, whenUnsatisfiable}}");
            errors.push(field::duplicate(path, format!("{{{key}, {action}}}")));
        }
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = object::number(constraint, &["maxSkew"]).unwrap_or_default();
        if skew <= 0 {
            errors.push(field::invalid(format!("{path}.maxSkew"), skew, "must be greater than zero"));
        }
        if object::text(constraint, &["topologyKey"]).is_empty() {
            errors.push(field::required(format!("{path}.topologyKey"), "can not be empty"));
        }
        let action = object::text(constraint, &["whenUnsatisfiable"]);
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            let known = &["DoNotSchedule", "ScheduleAnyway"];
            errors.push(field::not_supported(format!("{path}.whenUnsatisfiable"), action, known));
        }
        if let Some(domains) = object::number(constraint, &["minDomains"]) {
            if domains <= 0 {
                errors.push(field::invalid(format!("{path}.minDomains"), domains, "must be greater than zero"));
            }
            if action != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(field::invalid(format!("{path}.minDomains"), domains, detail));
            }
        }
    }
}

fn validate_affinity(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let Some(affinity) = spec.get("affinity") else { return };
    let path = format!("{path}.affinity");
    if let Some(required) = object::at(affinity, &["nodeAffinity", REQUIRED]) {
        let path = format!("{path}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
        let terms = object::list(required, &["nodeSelectorTerms"]);
        if terms.is_empty() {
            errors.push(field::required(path.as_str(), "must have at least one node selector term"));
        }
        for (index, term) in terms.iter().enumerate() {
            validate_node_selector_term(term, &format!("{path}[{index}]"), errors);
        }
    }
    for (index, preference) in object::list(affinity, &["nodeAffinity", PREFERRED]).iter().enumerate() {
        let path = format!("{path}.nodeAffinity.{PREFERRED}[{index}]");
        validate_weight(preference, &path, errors);
        if let Some(term) = preference.get("preference") {
            validate_node_selector_term(term, &format!("{path}.preference"), errors);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in object::list(affinity, &[kind, REQUIRED]).iter().enumerate() {
            validate_pod_affinity_term(term, &format!("{path}.{kind}.{REQUIRED}[{index}]"), errors);
        }
        for (index, weighted) in object::list(affinity, &[kind, PREFERRED]).iter().enumerate() {
            let path = format!("{path}.{kind}.{PREFERRED}[{index}]");
            validate_weight(weighted, &path, errors);
            if let Some(term) = weighted.get("podAffinityTerm") {
                validate_pod_affinity_term(term, &format!("{path}.podAffinityTerm"), errors);
            }
        }
    }
}

fn validate_weight(term: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let weight = object::number(term, &["weight"]).unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(field::invalid(format!("{path}.weight"), weight, "must be in the range 1-100"));
    }
}

fn validate_pod_affinity_term(term: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let key = object::text(term, &["topologyKey"]);
    if key.is_empty() {
        errors.push(field::required(format!("{path}.topologyKey"), "can not be empty"));
    } else if let Some(problem) = names::qualified_name_problems(key).into_iter().next() {
        errors.push(field::invalid(format!("{path}.topologyKey"), key, problem));
    }
}

fn validate_node_selector_term(term: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, requirement) in object::list(term, &["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = object::list(requirement, &["values"]).len();
        let operator = object::text(requirement, &["operator"]);
        match operator {
            "In" | "NotIn" if values == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(field::required(format!("{path}.values"), detail));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(field::forbidden(format!("{path}.values"), detail));
            }
            "Gt" | "Lt" if values != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(field::required(format!("{path}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => {
                errors.push(field::invalid(format!("{path}.operator"), operator, "not a valid selector operator"));
            }
        }
        let key = object::text(requirement, &["key"]);
        if let Some(problem) = names::qualified_name_problems(key).into_iter().next() {
            errors.push(field::invalid(format!("{path}.key"), key, problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_decides_when_an_image_is_pulled() {
        for image in ["nginx", "nginx:latest", "reg:5000/a/nginx", "reg:5000/nginx:latest"] {
            assert!(is_latest(image), "{image}");
        }
        for image in ["nginx:1.2", "reg:5000/nginx:1", "nginx@sha256:abc", "nginx:1@sha256:abc"] {
            assert!(!is_latest(image), "{image}");
        }
    }
}
