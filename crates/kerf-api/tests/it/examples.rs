//! Tests that each manifest of `examples/` is admitted and valid. New users apply them first.

use std::path::PathBuf;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_api::labels::LabelRules;
use kerf_api::nodeoverlay::NodeOverlay;
use kerf_api::nodepool::NodePool;
use kerf_api::validation::nodeoverlay::AWS_RESOURCES;
use kerf_api::validation::{self, kubelet};
use serde::Deserialize;
use serde_json::Value;

use crate::admit::Manifest;

fn documents() -> Vec<(String, Value)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let mut documents = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            documents.push((name, Value::deserialize(document).unwrap()));
        }
    }
    documents
}

#[test]
fn every_example_is_admitted_and_valid() {
    let mut kinds = Vec::new();
    for (file, document) in documents() {
        let kind = document["kind"].as_str().unwrap().to_owned();
        let is_kerf_kind = ["karpenter", "autoscaling.x-k8s.io"]
            .iter()
            .any(|group| document["apiVersion"].as_str().unwrap().starts_with(group));
        if is_kerf_kind {
            let stored = Manifest(document).accepted();
            assert_eq!(failures(&kind, stored), Vec::<String>::new(), "{file}");
        }
        kinds.push(kind);
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "CapacityBuffer",
            "Deployment",
            "EC2NodeClass",
            "KWOKNodeClass",
            "Node",
            "NodeClaim",
            "NodeOverlay",
            "NodePool",
            "Pod",
            "PodDisruptionBudget",
            "PodTemplate",
        ]
    );
}

fn failures(kind: &str, stored: Value) -> Vec<String> {
    match kind {
        "NodePool" => {
            let pool: NodePool = serde_json::from_value(stored).unwrap();
            let is_aws = pool.spec.template.spec.node_class_ref.is_kind("karpenter.k8s.aws", "EC2NodeClass");
            let rules = if is_aws { LabelRules::aws() } else { LabelRules::kwok() };
            validation::nodepool::failures(&pool.spec, &rules)
        }
        "NodeOverlay" => {
            let overlay: NodeOverlay = serde_json::from_value(stored).unwrap();
            validation::nodeoverlay::failures(&overlay.spec, &LabelRules::aws(), AWS_RESOURCES)
        }
        "EC2NodeClass" => {
            let class: EC2NodeClass = serde_json::from_value(stored).unwrap();
            let spec = class.spec.unwrap();
            let settings = spec.kubelet.clone().unwrap_or_default();
            let mut failures = kubelet::failures(&settings);
            failures.extend(kubelet::unsupported_failures(&settings, &spec.effective_ami_family()));
            failures.extend(validation::ec2nodeclass::volume_size_failures(&spec));
            failures
        }
        _ => Vec::new(),
    }
}
