//! The `CustomResourceDefinitions` of all six kinds, made from the types (spec 01 §1–§7).
//!
//! A type's fields, doc comments and attributes are its schema; here it is brought into the structural form that the API server
//! insists on, given the provider's label rules, and put into its frame of names and columns. Nothing here depends on
//! anything but the code, so `deploy/crds/` is checked to be equal to it.

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

/// Whose label domain the CRDs guard. Karpenter's builds for different providers ship CRDs that differ in this and nothing
/// else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CrdVariant {
    /// `karpenter.k8s.aws`: what Kerf ships.
    #[default]
    Aws,
    /// `karpenter.kwok.sh`: what Karpenter's build for the simulated provider ships.
    Kwok,
}

/// A `CustomResourceDefinition`.
#[derive(Debug, Clone, PartialEq)]
pub struct Crd {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    json: Value,
}

/// The CRDs of all kinds, by group and plural.
pub fn all(flavour: CrdVariant) -> Vec<Crd> {
    vec![
        of::<CapacityBuffer>(flavour),
        of::<EC2NodeClass>(flavour),
        of::<KWOKNodeClass>(flavour),
        of::<NodeClaim>(flavour),
        of::<NodeOverlay>(flavour),
        of::<NodePool>(flavour),
    ]
}

/// The CRD of one kind.
pub fn of<K: CustomKind>(flavour: CrdVariant) -> Crd {
    let schema = label_keys::with_label_key_rules(structural::schema_of::<K>(), flavour);
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
    /// The API group of the kind.
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// The kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The plural by which the API server serves the kind.
    pub fn plural(&self) -> &'static str {
        self.plural
    }

    /// The manifest.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The manifest as one YAML document, with keys in a fixed order.
    pub fn to_yaml(&self) -> String {
        yaml::document(&self.json)
    }

    /// The name of the file that holds the manifest in `deploy/crds/`.
    pub fn file_name(&self) -> String {
        format!("{}_{}.yaml", self.group, self.plural)
    }
}
