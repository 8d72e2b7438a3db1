//! User data of Bottlerocket: settings in TOML.

use kerf_aws::user_data;
use serde_json::{Map, Value, json};

use super::{BootConfig, BootSoftware, UserDataProblem};

/// Settings that are fields of a `KubeletConfiguration` under another name.
const FIELDS: [(&str, &str); 7] = [
    ("max-pods", "maxPods"),
    ("kube-reserved", "kubeReserved"),
    ("system-reserved", "systemReserved"),
    ("eviction-hard", "evictionHard"),
    ("eviction-soft", "evictionSoft"),
    ("eviction-soft-grace-period", "evictionSoftGracePeriod"),
    ("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod"),
];

/// Settings of the variants for EKS.
const TABLES: [&str; 23] = [
    "autoscaling",
    "aws",
    "boot",
    "bootstrap-commands",
    "bootstrap-containers",
    "cloudformation",
    "container-registry",
    "container-runtime",
    "container-runtime-plugins",
    "dns",
    "host-containers",
    "kernel",
    "kubelet-device-plugins",
    "kubernetes",
    "metrics",
    "motd",
    "network",
    "ntp",
    "nvidia-container-runtime",
    "oci-defaults",
    "oci-hooks",
    "pki",
    "updates",
];

/// Reads the table `settings`.
pub(super) fn read(text: &str) -> Result<BootConfig, UserDataProblem> {
    let settings = user_data::read_bottlerocket_settings(text).map_err(UserDataProblem::Settings)?;
    let mut tables = settings.as_object().into_iter().flat_map(Map::keys);
    if let Some(unknown) = tables.find(|name| !TABLES.contains(&name.as_str())) {
        return Err(UserDataProblem::Settings(format!("unknown setting settings.{unknown}")));
    }
    let kubernetes = &settings["kubernetes"];
    let required = |key: &str| -> Result<String, UserDataProblem> {
        let value = kubernetes[key].as_str().filter(|value| !value.is_empty());
        value
            .map(str::to_owned)
            .ok_or_else(|| UserDataProblem::Settings(format!("settings.kubernetes.{key} is missing")))
    };
    let mut kubelet = Map::new();
    for (key, field) in FIELDS {
        if let Some(value) = kubernetes.get(key) {
            kubelet.insert(field.to_owned(), value.clone());
        }
    }
    let taints = kubernetes["node-taints"].as_object().into_iter().flatten();
    let taints: Vec<Value> = taints.flat_map(|(key, values)| taints_of(key, values)).collect();
    kubelet.insert("registerWithTaints".to_owned(), Value::Array(taints));
    let labels = kubernetes["node-labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Ok(BootConfig {
        software: BootSoftware::Bottlerocket,
        cluster_name: required("cluster-name")?,
        endpoint: Some(required("api-server")?),
        certificate_authority: kubernetes["cluster-certificate"].as_str().map(str::to_owned),
        cidr: String::new(),
        kubelet,
        labels: labels.collect(),
        uses_raid0: mounts_local_disks(&settings),
    })
}

/// Returns the taints of one key. Each value has the form `value:effect`.
fn taints_of(key: &str, values: &Value) -> Vec<Value> {
    let texts = values.as_array().into_iter().flatten().filter_map(Value::as_str);
    let taint = |text: &str| {
        let (value, effect) = text.split_once(':').unwrap_or(("", text));
        json!({ "key": key, "value": (!value.is_empty()).then_some(value), "effect": effect })
    };
    texts.map(taint).collect()
}

/// Returns true if a bootstrap command combines the local disks.
fn mounts_local_disks(settings: &Value) -> bool {
    let commands = settings["bootstrap-commands"].as_object().into_iter().flat_map(|commands| commands.values());
    let lines = commands.flat_map(|command| command["commands"].as_array().into_iter().flatten());
    lines.into_iter().any(|line| {
        let words: Vec<&str> = line.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.starts_with(&["apiclient", "ephemeral-storage", "init"])
    })
}
