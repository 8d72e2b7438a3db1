//! Reads user data as an instance does at its boot: the parts of a MIME archive, of which nodeadm
//! merges the `NodeConfig` documents. Nothing else tells a simulated instance how to join.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kerf_aws::user_data::{self, ArchiveError};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// Content type of a part for nodeadm.
const NODE_CONFIG: &str = "application/node.eks.aws";

/// Kubelet flag with the labels of the node.
const LABELS_FLAG: &str = "--node-labels=";

/// Reason why an instance cannot read its user data.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UserDataProblem {
    #[error("the user data is not base64")]
    NotBase64,
    #[error("the user data is not UTF-8 text")]
    NotText,
    #[error("the user data is no MIME archive: {0}")]
    NoArchive(ArchiveError),
    #[error("the user data has no part of type {NODE_CONFIG}, so nodeadm has nothing to do")]
    NoNodeConfig,
    #[error("a NodeConfig is not YAML: {0}")]
    NotYaml(String),
    #[error("a NodeConfig has apiVersion {0} instead of node.eks.aws/v1alpha1 and kind NodeConfig")]
    OtherVersion(String),
}

/// The merged configuration of a node, as nodeadm reads it.
#[derive(Debug, Default)]
pub(super) struct NodeConfig {
    pub(super) cluster_name: String,
    pub(super) endpoint: String,
    /// CA certificate, base64; empty if missing.
    pub(super) certificate_authority: String,
    /// Range of Service addresses; empty if missing.
    pub(super) cidr: String,
    /// `KubeletConfiguration` of the node.
    pub(super) kubelet: Map<String, Value>,
    /// Labels with which the kubelet registers.
    pub(super) labels: Vec<(String, String)>,
    /// True if local disks are combined to the ephemeral storage.
    pub(super) uses_raid0: bool,
}

impl NodeConfig {
    /// Reads the user data of a launch template, which is base64.
    pub(super) fn read(user_data: &str) -> Result<Self, UserDataProblem> {
        let bytes = STANDARD.decode(user_data.trim()).map_err(|_| UserDataProblem::NotBase64)?;
        let text = String::from_utf8(bytes).map_err(|_| UserDataProblem::NotText)?;
        let parts = user_data::read_archive(&text).map_err(UserDataProblem::NoArchive)?;
        let mut merged: Option<Value> = None;
        for (content_type, content) in &parts {
            if content_type.split(';').next().map(str::trim) != Some(NODE_CONFIG) {
                continue;
            }
            let document = read_document(content)?;
            match &mut merged {
                Some(known) => merge(known, document),
                None => merged = Some(document),
            }
        }
        Ok(Self::from_document(&merged.ok_or(UserDataProblem::NoNodeConfig)?))
    }

    fn from_document(document: &Value) -> Self {
        let spec = &document["spec"];
        let cluster = |field: &str| spec["cluster"][field].as_str().unwrap_or_default().to_owned();
        let flags = spec["kubelet"]["flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self {
            cluster_name: cluster("name"),
            endpoint: cluster("apiServerEndpoint"),
            certificate_authority: cluster("certificateAuthority"),
            cidr: cluster("cidr"),
            kubelet: spec["kubelet"]["config"].as_object().cloned().unwrap_or_default(),
            labels: flags.filter_map(|flag| flag.strip_prefix(LABELS_FLAG)).flat_map(read_labels).collect(),
            uses_raid0: spec["instance"]["localStorage"]["strategy"] == "RAID0",
        }
    }
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
    if document["apiVersion"] != "node.eks.aws/v1alpha1" || document["kind"] != "NodeConfig" {
        return Err(UserDataProblem::OtherVersion(document["apiVersion"].to_string()));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    fn archive(parts: &[(&str, &str)]) -> String {
        let mut text = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n".to_owned();
        for (content_type, content) in parts {
            text.extend(["--//\nContent-Type: ", content_type, "\n\n", content, "\n"]);
        }
        STANDARD.encode(text + "--//--\n")
    }

    const HEAD: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n";

    #[test]
    fn later_documents_win_and_flags_are_appended() {
        let first = format!(
            "{HEAD}  cluster: {{name: other, cidr: 10.0.0.0/16}}\n  kubelet:\n    config: {{maxPods: 5, registryPullQPS: 9}}\n    flags: ['--node-labels=a=1']\n"
        );
        let second = format!(
            "{HEAD}  cluster: {{name: demo, apiServerEndpoint: 'https://x'}}\n  instance: {{localStorage: {{strategy: RAID0}}}}\n  kubelet:\n    config: {{maxPods: 29}}\n    flags: ['--node-labels=\"b=2,c=\"', '--v=2']\n"
        );
        let user_data = archive(&[
            ("text/x-shellscript", "#!/bin/sh"),
            ("application/node.eks.aws", &first),
            ("application/node.eks.aws; charset=utf-8", &second),
        ]);
        let config = NodeConfig::read(&user_data).unwrap();
        assert_eq!((config.cluster_name.as_str(), config.cidr.as_str()), ("demo", "10.0.0.0/16"));
        assert_eq!((config.endpoint.as_str(), config.certificate_authority.as_str()), ("https://x", ""));
        assert_eq!(Value::Object(config.kubelet), json!({"maxPods": 29, "registryPullQPS": 9}));
        let labels: Vec<String> = config.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(labels, ["a=1", "b=2", "c="]);
        assert!(config.uses_raid0);
    }

    #[test]
    fn user_data_that_a_node_cannot_read_says_why() {
        let read = |user_data: &str| NodeConfig::read(user_data).unwrap_err().to_string();
        assert_eq!(read("§"), "the user data is not base64");
        assert_eq!(read(&STANDARD.encode([0xff])), "the user data is not UTF-8 text");
        assert!(read(&STANDARD.encode("#!/bin/sh\n")).starts_with("the user data is no MIME archive"));
        let script = archive(&[("text/x-shellscript", "true")]);
        assert!(read(&script).starts_with("the user data has no part of type application/node.eks.aws"));
        let broken = archive(&[("application/node.eks.aws", "a: [")]);
        assert!(read(&broken).starts_with("a NodeConfig is not YAML"));
        let other = archive(&[("application/node.eks.aws", "apiVersion: v2\n")]);
        assert!(read(&other).starts_with("a NodeConfig has apiVersion \"v2\""));
    }
}
