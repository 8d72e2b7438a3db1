//! Validation of containers (ports, environment variables, volume mounts, probes, pull policy) and
//! of a pod's volumes. Names, images and resources of containers are validated elsewhere.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::field::{self, FieldError};
use crate::api::object;

/// Validates a container. `path` is the container's path in the object, `volumes` the names that it
/// may mount.
pub(super) fn validate_container(container: &Value, volumes: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    validate_ports(container, path, errors);
    for (index, variable) in object::list(container, &["env"]).iter().enumerate() {
        if object::text(variable, &["name"]).is_empty() {
            errors.push(field::required(format!("{path}.env[{index}].name"), ""));
        }
    }
    for (index, mount) in object::list(container, &["volumeMounts"]).iter().enumerate() {
        let name = object::text(mount, &["name"]);
        if !volumes.contains(&name) {
            errors.push(field::not_found(format!("{path}.volumeMounts[{index}].name"), name));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let has_no_handler =
            |probe: &Value| ["exec", "httpGet", "tcpSocket", "grpc"].iter().all(|handler| probe.get(handler).is_none());
        if container.get(probe).is_some_and(has_no_handler) {
            errors.push(field::required(format!("{path}.{probe}"), "must specify a handler type"));
        }
    }
    let policy = object::text(container, &["imagePullPolicy"]);
    let known = ["Always", "IfNotPresent", "Never"];
    if !policy.is_empty() && !known.contains(&policy) {
        errors.push(field::not_supported(format!("{path}.imagePullPolicy"), policy, &known));
    }
}

fn validate_ports(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut used_host_ports = BTreeSet::new();
    for (index, port) in object::list(container, &["ports"]).iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        for (number, min) in [("containerPort", 1), ("hostPort", 0)] {
            let value = object::number(port, &[number]).unwrap_or(min);
            if !(min..=65535).contains(&value) {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(field::invalid(format!("{path}.{number}"), value, detail));
            }
        }
        let (protocol, known) = (object::text(port, &["protocol"]), ["SCTP", "TCP", "UDP"]);
        if !protocol.is_empty() && !known.contains(&protocol) {
            errors.push(field::not_supported(format!("{path}.protocol"), protocol, &known));
        }
        if let Some(host) = object::number(port, &["hostPort"]).filter(|host| *host > 0) {
            let key = format!("{protocol}/{}/{host}", object::text(port, &["hostIP"]));
            if !used_host_ports.insert(key.clone()) {
                errors.push(field::duplicate(format!("{path}.hostPort"), key));
            }
        }
    }
}

/// Validates that volumes have distinct names and one source each.
pub(super) fn validate_volumes(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, volume) in object::list(spec, &["volumes"]).iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let sources =
            volume.as_object().into_iter().flatten().map(|(source, _)| source).filter(|field| *field != "name");
        for source in sources.skip(1) {
            errors.push(field::forbidden(format!("{path}.{source}"), "may not specify more than 1 volume type"));
        }
        let name = object::text(volume, &["name"]);
        if !seen.insert(name) {
            errors.push(field::duplicate(format!("{path}.name"), name));
        }
    }
}
