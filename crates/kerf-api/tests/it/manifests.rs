//! Valid manifests that the test cases start from.

use serde_json::{Value, json};

use crate::admit::Manifest;

pub(crate) fn nodepool() -> Manifest {
    Manifest::new(
        "
        apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {name: default}
        spec:
          template:
            spec:
              nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
              requirements: []
        ",
    )
}

pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": operator, "values": values })
}

pub(crate) fn node_class() -> Manifest {
    Manifest::new(
        "
        apiVersion: karpenter.k8s.aws/v1
        kind: EC2NodeClass
        metadata: {name: default}
        spec:
          role: node
          amiSelectorTerms: [{alias: al2023@latest}]
          subnetSelectorTerms: [{tags: {discovery: mine}}]
          securityGroupSelectorTerms: [{tags: {discovery: mine}}]
        ",
    )
}
