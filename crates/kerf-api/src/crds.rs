//! Generates the `CustomResourceDefinitions` of all six kinds from their Rust types (spec 01
//! §1–§7).
//!
//! The fields, doc comments and attributes of a type define its schema. This module converts the
//! schema to the structural form that the API server requires and adds the provider's label rules,
//! names and printer columns. The result depends only on the code; a test checks that
//! `deploy/crds/` is equal to it.

use serde_json::{Value, json};

use crate::capacitybuffer::CapacityBuffer;
use crate::ec2nodeclass::EC2NodeClass;
use crate::kind::{Column, CustomKind};
use crate::kwoknodeclass::KWOKNodeClass;
use crate::nodeclaim::NodeClaim;
use crate::nodeoverlay::NodeOverlay;
use crate::nodepool::NodePool;

mod label_keys;
mod structural;
#[cfg(test)]
mod tests;
mod yaml;

/// Provider whose label domain the CRDs protect. Karpenter ships one set of CRDs per provider; the
/// sets differ only in these label rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrdVariant {
    /// Protects `karpenter.k8s.aws`. This is the set in `deploy/crds/`.
    #[default]
    Aws,
    /// Protects `karpenter.kwok.sh`, as Karpenter's build for the simulated provider does.
    Kwok,
}

/// Generated `CustomResourceDefinition` manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Crd {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    json: Value,
}

/// Returns the CRDs of all kinds, ordered by group and plural.
pub fn all(variant: CrdVariant) -> Vec<Crd> {
    vec![
        of::<CapacityBuffer>(variant),
        of::<EC2NodeClass>(variant),
        of::<KWOKNodeClass>(variant),
        of::<NodeClaim>(variant),
        of::<NodeOverlay>(variant),
        of::<NodePool>(variant),
    ]
}

/// Returns the CRD of one kind.
pub fn of<K: CustomKind>(variant: CrdVariant) -> Crd {
    let schema = label_keys::with_label_key_rules(structural::schema_of::<K>(), variant);
    let mut names = json!({
        "categories": K::CATEGORIES,
        "kind": K::KIND,
        "listKind": format!("{}List", K::KIND),
        "plural": K::URL_PATH_SEGMENT,
        "singular": K::KIND.to_lowercase(),
    });
    if !K::SHORT_NAMES.is_empty() {
        names["shortNames"] = json!(K::SHORT_NAMES);
    }
    let mut version = json!({
        "name": K::VERSION,
        "schema": { "openAPIV3Schema": schema },
        "served": true,
        "storage": true,
        "subresources": { "status": {} },
    });
    if let Some(scale) = K::SCALE {
        version["subresources"]["scale"] = json!({
            "specReplicasPath": scale.spec_replicas_path,
            "statusReplicasPath": scale.status_replicas_path,
        });
    }
    if !K::COLUMNS.is_empty() {
        version["additionalPrinterColumns"] = K::COLUMNS.iter().map(printer_column).collect();
    }
    let json = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", K::URL_PATH_SEGMENT, K::GROUP) },
        "spec": {
            "group": K::GROUP,
            "names": names,
            "scope": if K::NAMESPACED { "Namespaced" } else { "Cluster" },
            "versions": [version],
        },
    });
    Crd { group: K::GROUP, kind: K::KIND, plural: K::URL_PATH_SEGMENT, json }
}

fn printer_column(column: &Column) -> Value {
    let mut json = json!({ "jsonPath": column.json_path, "name": column.name, "type": column.column_type });
    if column.is_wide {
        json["priority"] = json!(1);
    }
    json
}

impl Crd {
    /// Returns the API group of the kind.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// Returns the name of the kind, such as `NodePool`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the plural resource name, such as `nodepools`.
    pub fn plural(&self) -> &'static str {
        self.plural
    }

    /// Returns the manifest as JSON.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Returns the manifest as one YAML document, with keys in a fixed order.
    pub fn to_yaml(&self) -> String {
        yaml::document(&self.json)
    }

    /// Returns the manifest's file name in `deploy/crds/`.
    pub fn file_name(&self) -> String {
        format!("{}_{}.yaml", self.group, self.plural)
    }
}
