//! Services: defaults, allocation of addresses and node ports, validation. Addresses are allocated
//! in ascending order and never reused, so that two runs allocate the same ones.

use serde_json::{Value, json};

use super::defaults::DefaultValue::{Flag, Text};
use super::defaults::{set_defaults, set_defaults_if_object};
use super::{KindStrategy, NO_OP_STRATEGY, WriteContext};
use crate::api::field::{self, FieldError};
use crate::api::object;

pub(super) const SERVICE: KindStrategy =
    KindStrategy { default, prepare_for_create, prepare_for_update, validate, ..NO_OP_STRATEGY };

fn default(service: &mut Value) {
    let spec = object::ensure_object(service, &["spec"]);
    set_defaults(spec, &[("sessionAffinity", Text("None")), ("type", Text("ClusterIP"))]);
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_string();
    if kind != "ExternalName" {
        set_defaults(spec, &[("internalTrafficPolicy", Text("Cluster"))]);
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set_defaults(spec, &[("externalTrafficPolicy", Text("Cluster"))]);
    }
    if kind == "LoadBalancer" {
        set_defaults(spec, &[("allocateLoadBalancerNodePorts", Flag(true))]);
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        set_defaults_if_object(port, &[("protocol", Text("TCP"))]);
        let number = port.get("port").cloned();
        if let (Some(number), Some(port)) = (number, port.as_object_mut()) {
            let target = port.get("targetPort");
            if target.is_none_or(|target| target == &json!(0) || target == "") {
                port.insert("targetPort".into(), number);
            }
        }
    }
}

fn prepare_for_create(service: &mut Value, context: &mut WriteContext<'_>) {
    object::ensure_object(service, &[]).insert("status".into(), json!({"loadBalancer": {}}));
    allocate_addresses_and_ports(service, context);
}

fn prepare_for_update(service: &mut Value, old: &Value, context: &mut WriteContext<'_>) {
    // Allocated addresses stay, although a client that replaces the object may omit them.
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if let Some(value) = object::at(old, &["spec", key]) {
            object::ensure_object(service, &["spec"]).entry(key).or_insert_with(|| value.clone());
        }
    }
    allocate_addresses_and_ports(service, context);
}

fn allocate_addresses_and_ports(service: &mut Value, context: &mut WriteContext<'_>) {
    let kind = object::text(service, &["spec", "type"]).to_string();
    if kind == "ExternalName" {
        return;
    }
    if object::text(service, &["spec", "clusterIP"]).is_empty() {
        let serial = context.next_serial();
        // 10.96.0.0/12, the default of a cluster. The first ten addresses are reserved for manual
        // use.
        let address = 0x0a60_0000_u32 + 10 + (serial % 0x000f_ff00) as u32;
        let [a, b, c, d] = address.to_be_bytes();
        object::ensure_object(service, &["spec"]).insert("clusterIP".into(), format!("{a}.{b}.{c}.{d}").into());
    }
    let address = object::text(service, &["spec", "clusterIP"]).to_string();
    let spec = object::ensure_object(service, &["spec"]);
    spec.entry("clusterIPs").or_insert_with(|| json!([address]));
    spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
    spec.entry("ipFamilyPolicy").or_insert_with(|| "SingleStack".into());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        for port in object::list_mut(service, &["spec", "ports"]) {
            if object::number(port, &["nodePort"]).unwrap_or_default() == 0 {
                let number = 30_000 + context.next_serial() % 2_768;
                if let Some(port) = port.as_object_mut() {
                    port.insert("nodePort".into(), number.into());
                }
            }
        }
    }
}

fn validate(service: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let kind = object::text(service, &["spec", "type"]);
    if !["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"].contains(&kind) {
        let known = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        errors.push(field::not_supported("spec.type", kind, known));
    }
    let ports = object::list(service, &["spec", "ports"]);
    let address = object::text(service, &["spec", "clusterIP"]);
    if ports.is_empty() && kind != "ExternalName" && address != "None" {
        errors.push(field::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if ports.len() > 1 && object::text(port, &["name"]).is_empty() {
            errors.push(field::required(format!("{path}.name"), ""));
        }
        let number = object::number(port, &["port"]).unwrap_or_default();
        if !(1..=65_535).contains(&number) {
            errors.push(field::invalid(format!("{path}.port"), number, "must be between 1 and 65535, inclusive"));
        }
    }
    let old_address = old.map(|old| object::text(old, &["spec", "clusterIP"])).unwrap_or_default();
    if !old_address.is_empty() && old_address != address && kind != "ExternalName" {
        errors.push(field::invalid("spec.clusterIPs[0]", address, "may not change once set"));
    }
}
