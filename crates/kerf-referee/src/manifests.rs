//! A cluster decoded from its manifests, as input of the checks. The decoder is independent of the
//! product's own.
//!
//! Reads the part of the input of spec 09 §2.1 that provisioning needs: bound and pending pods, the
//! pods that workloads still lack, nodes with and without a NodeClaim, pools, daemon sets, storage.
//! Objects of other kinds are ignored. Only JSON is read: one object, a `List`, or an array.

mod existing;
mod pending;
mod pools;
mod workloads;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::placement::Namespaces;
use crate::storage::VolumeObjects;

pub use self::existing::ExistingNode;
pub use self::pending::{NotPlannableReason, PendingPod};
pub use self::pools::{NodeClaim, Pool};

pub(crate) use self::pending::is_owned_by_kind;

/// All objects of a cluster that the checks need.
#[derive(Debug, Clone, Default)]
pub struct ClusterManifests {
    /// NodePools, greatest weight first; of equal weights, the later name first.
    pub pools: Vec<Pool>,
    /// NodeClaims, by name.
    pub node_claims: Vec<NodeClaim>,
    /// Nodes, by name.
    pub nodes: Vec<Node>,
    /// Pods of the input and pods that workloads lack, by namespace and name.
    pub pods: Vec<Pod>,
    /// DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// Labels of the namespaces. Every namespace that an object names is included.
    pub namespaces: Namespaces,
    /// True if a NodeClaim may offer fewer values than `minValues` requires (policy `BestEffort`).
    pub min_values_best_effort: bool,
    volume_claims: Vec<PersistentVolumeClaim>,
    volumes: Vec<PersistentVolume>,
    storage_classes: Vec<StorageClass>,
    csi_nodes: BTreeMap<String, CSINode>,
    disruption_budgets: Vec<PodDisruptionBudget>,
}

/// Reason why manifests could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is not JSON.
    #[error("the manifests are not JSON")]
    NotJson(#[source] serde_json::Error),
    /// An object does not have the form of its kind.
    #[error("{kind} {name} cannot be decoded")]
    InvalidObject {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Error of the decoder.
        #[source]
        source: serde_json::Error,
    },
}

impl ClusterManifests {
    /// Reads manifests from JSON text.
    pub fn read(manifests: &str) -> Result<Self, ManifestError> {
        Self::decode(&serde_json::from_str(manifests).map_err(ManifestError::NotJson)?)
    }

    /// Decodes manifests from parsed JSON.
    pub fn decode(manifests: &Value) -> Result<Self, ManifestError> {
        let mut cluster = Self::default();
        let mut workloads = Vec::new();
        let mut named_namespaces = Vec::new();
        for object in flatten_lists(manifests) {
            named_namespaces.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
            match object["kind"].as_str().unwrap_or_default() {
                "NodePool" => cluster.pools.push(decode(object)?),
                "NodeClaim" => cluster.node_claims.push(decode(object)?),
                "Node" => cluster.nodes.push(decode(object)?),
                "Pod" => cluster.pods.push(decode(object)?),
                "DaemonSet" => cluster.daemon_sets.push(decode(object)?),
                "PersistentVolumeClaim" => cluster.volume_claims.push(decode(object)?),
                "PersistentVolume" => cluster.volumes.push(decode(object)?),
                "StorageClass" => cluster.storage_classes.push(decode(object)?),
                "PodDisruptionBudget" => cluster.disruption_budgets.push(decode(object)?),
                "CSINode" => {
                    let csi: CSINode = decode(object)?;
                    cluster.csi_nodes.insert(csi.metadata.name.clone().unwrap_or_default(), csi);
                }
                "Namespace" => {
                    let namespace: Namespace = decode(object)?;
                    let meta = namespace.metadata;
                    cluster.namespaces.insert(meta.name.unwrap_or_default(), meta.labels.unwrap_or_default());
                }
                "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" => workloads.push(object),
                _ => {}
            }
        }
        for pod in &mut cluster.pods {
            pod.metadata.namespace.get_or_insert_with(|| "default".to_owned());
        }
        cluster.pods.extend(workloads::missing_pods(&workloads, &cluster.pods)?);
        cluster.pods.sort_by_key(crate::placement::pod_key);
        cluster.nodes.sort_by_key(|node| node.metadata.name.clone());
        cluster.node_claims.sort_by_key(|claim| claim.name.clone());
        cluster.pools.sort_by(|a, b| (b.weight, &b.name).cmp(&(a.weight, &a.name)));
        named_namespaces.push("default".to_owned());
        for name in named_namespaces {
            cluster.namespaces.entry(name).or_default();
        }
        for (name, labels) in &mut cluster.namespaces {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name.clone());
        }
        Ok(cluster)
    }

    /// Returns the volumes, volume claims and storage classes.
    pub fn storage(&self) -> VolumeObjects<'_> {
        VolumeObjects::new(&self.volume_claims, &self.volumes, &self.storage_classes)
    }

    /// Returns the pool with this name, or `None` if it does not exist.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// Returns the `CSINode` of a node, which has the limits of its volume drivers. Returns `None`
    /// if there is none.
    pub fn csi_node(&self, name: &str) -> Option<&CSINode> {
        self.csi_nodes.get(name)
    }
}

/// Returns the objects of a document: the document itself, or the items of a list, recursively.
fn flatten_lists(manifests: &Value) -> Vec<&Value> {
    if let Some(items) = manifests.as_array().or_else(|| manifests["items"].as_array()) {
        items.iter().flat_map(flatten_lists).collect()
    } else {
        vec![manifests]
    }
}

pub(crate) fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, ManifestError> {
    T::deserialize(object).map_err(|source| ManifestError::InvalidObject {
        kind: object["kind"].as_str().unwrap_or_default().to_owned(),
        name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
