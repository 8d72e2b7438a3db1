//! User data of AL2023: a `NodeConfig` for nodeadm, in a MIME archive after the parts of the user
//! (spec 05 §14.3). nodeadm merges several documents; the last one wins.

use serde_json::{Map, Value, json};

use super::mime::{self, Part, SHELL_SCRIPT};
use super::yaml_document;
use super::{UserDataError, UserDataInput};

const NODE_CONFIG: &str = "application/node.eks.aws";

/// Returns the user data.
pub(super) fn render(input: &UserDataInput<'_>) -> Result<String, UserDataError> {
    let custom = input.custom.unwrap_or_default();
    let content_type = || if yaml_document::is_mapping_or_empty(custom) { NODE_CONFIG } else { SHELL_SCRIPT };
    let parts = mime::custom_parts(custom, content_type)?.into_iter();
    let mut parts: Vec<Part> = parts.map(Part::with_content_type_only).collect();
    let document = document(input)?;
    let yaml = serde_yaml_ng::to_string(&document).map_err(|error| UserDataError::Yaml(error.to_string()))?;
    let content = format!("# Kerf Generated NodeConfig\n{yaml}");
    parts.push(Part::new(NODE_CONFIG, content));
    Ok(mime::write(&parts))
}

fn document(input: &UserDataInput<'_>) -> Result<Value, UserDataError> {
    let service_cidr = input.cluster.service_cidr.as_ref().ok_or(UserDataError::UnknownServiceCidr)?;
    let mut cluster = json!({
        "apiServerEndpoint": input.cluster.endpoint,
        "cidr": service_cidr,
        "name": input.cluster_name,
    });
    if let Some(ca_bundle) = &input.cluster.ca_bundle {
        cluster["certificateAuthority"] = json!(ca_bundle);
    }
    let mut kubelet = json!({ "config": kubelet_config(input) });
    if !input.labels.is_empty() {
        let labels: Vec<String> = input.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        kubelet["flags"] = json!([format!("--node-labels={:?}", labels.join(","))]);
    }
    let local_storage = if input.uses_raid0 { json!({ "strategy": "RAID0" }) } else { json!({}) };
    Ok(json!({
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "metadata": {},
        "spec": {
            "cluster": cluster,
            "containerd": {},
            "instance": { "localStorage": local_storage },
            "kubelet": kubelet,
        },
    }))
}

/// Returns `spec.kubelet` with the resolved values. Empty maps and lists are left out.
fn kubelet_config(input: &UserDataInput<'_>) -> Map<String, Value> {
    let settings = input.resolved_kubelet.settings();
    let mut config = input.kubelet.cloned().unwrap_or_default();
    config.insert("maxPods".into(), json!(input.node_max_pods()));
    config.insert("kubeReserved".into(), json!(settings.kube_reserved));
    config.insert("systemReserved".into(), json!(settings.system_reserved));
    let periods = settings.eviction_soft_grace_period.iter();
    let periods: Map<String, Value> =
        periods.map(|(signal, period)| (signal.clone(), json!(period.to_string()))).collect();
    config.insert("evictionSoftGracePeriod".into(), Value::Object(periods));
    config.insert("clusterDNS".into(), json!(input.cluster_dns()));
    let taints: Vec<Value> = input
        .taints
        .iter()
        .map(|taint| {
            let mut entry = json!({ "key": taint.key, "effect": taint.effect });
            if let Some(value) = taint.value.as_ref().filter(|value| !value.is_empty()) {
                entry["value"] = json!(value);
            }
            entry
        })
        .collect();
    config.insert("registerWithTaints".into(), json!(taints));
    config.retain(|_, value| !is_empty(value));
    config
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
