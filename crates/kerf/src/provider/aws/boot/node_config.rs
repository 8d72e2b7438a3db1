//! User data of AL2023: a MIME archive, of which nodeadm merges the `NodeConfig` documents.

use kerf_aws::user_data;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{BootConfig, BootSoftware, UserDataProblem, kubelet_flags};

/// Content type of a part for nodeadm.
pub(super) const CONTENT_TYPE: &str = "application/node.eks.aws";

/// Kubelet flag with the labels of the node.
const LABELS_FLAG: &str = "--node-labels=";

/// Reads the parts of a MIME archive.
pub(super) fn read(text: &str) -> Result<BootConfig, UserDataProblem> {
    let parts = user_data::read_archive(text).map_err(UserDataProblem::NoArchive)?;
    let mut merged: Option<Value> = None;
    for (content_type, content) in &parts {
        if content_type.split(';').next().map(str::trim) != Some(CONTENT_TYPE) {
            continue;
        }
        let document = read_document(content)?;
        match &mut merged {
            Some(known) => merge(known, document),
            None => merged = Some(document),
        }
    }
    from_document(&merged.ok_or(UserDataProblem::NoNodeConfig)?)
}

fn from_document(document: &Value) -> Result<BootConfig, UserDataProblem> {
    let spec = &document["spec"];
    let cluster = |field: &str| spec["cluster"][field].as_str().unwrap_or_default().to_owned();
    let flags = spec["kubelet"]["flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
    flags.clone().filter(|flag| flag.starts_with('-')).try_for_each(kubelet_flags::check)?;
    Ok(BootConfig {
        software: BootSoftware::Nodeadm,
        cluster_name: cluster("name"),
        endpoint: Some(cluster("apiServerEndpoint")),
        certificate_authority: Some(cluster("certificateAuthority")),
        cidr: cluster("cidr"),
        kubelet: spec["kubelet"]["config"].as_object().cloned().unwrap_or_default(),
        labels: flags.filter_map(|flag| flag.strip_prefix(LABELS_FLAG)).flat_map(read_labels).collect(),
        uses_raid0: spec["instance"]["localStorage"]["strategy"] == "RAID0",
    })
}

/// Reads the first YAML document of a part. A part without one is an empty document.
fn read_document(content: &str) -> Result<Value, UserDataProblem> {
    let Some(document) = serde_yaml_ng::Deserializer::from_str(content).next() else {
        return Ok(json!({}));
    };
    let document = Value::deserialize(document).map_err(|error| UserDataProblem::NotYaml(error.to_string()))?;
    if document.is_null() {
        return Ok(json!({}));
    }
    for (field, expected) in [("apiVersion", "node.eks.aws/v1alpha1"), ("kind", "NodeConfig")] {
        if document[field] != expected {
            return Err(UserDataProblem::OtherKind { field, found: document[field].to_string(), expected });
        }
    }
    Ok(document)
}

/// Merges a later document into an earlier one: fields of the later one win, flags are appended.
fn merge(known: &mut Value, later: Value) {
    let flags = |document: &Value| document["spec"]["kubelet"]["flags"].as_array().cloned().unwrap_or_default();
    let all_flags = [flags(known), flags(&later)].concat();
    merge_fields(known, later);
    if !all_flags.is_empty() {
        known["spec"]["kubelet"]["flags"] = Value::Array(all_flags);
    }
}

fn merge_fields(known: &mut Value, later: Value) {
    match (known, later) {
        (Value::Object(known), Value::Object(later)) => {
            for (key, value) in later {
                merge_fields(known.entry(key).or_insert(Value::Null), value);
            }
        }
        (known, later) => *known = later,
    }
}

/// Reads the value of the flag, which may be in quotes, as a shell does.
fn read_labels(value: &str) -> Vec<(String, String)> {
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let value = value.replace("\\\"", "\"").replace("\\\\", "\\");
    let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
