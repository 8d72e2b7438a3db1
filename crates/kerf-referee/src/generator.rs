//! Random clusters for property and differential tests: pools, instance types, nodes with their
//! pods, DaemonSets, storage, and pending pods with every kind of constraint. Some pods fit on no
//! node.
//!
//! [`provisioning_cluster`] is a pure function of seed and size. Its manifests are one JSON `List`
//! that both `kerf plan` and the oracle accept. [`GeneratedCluster::fingerprint`] shows whether a
//! recorded plan still belongs to the generated cluster.

mod apps;
mod clusters;
mod constraints;
mod features;
mod instance_types;
mod nodes;
mod pools;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::random::Random;

pub use self::clusters::disruption_cluster;
pub use self::features::Feature;

/// Size of a generated cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClusterSize {
    /// At most 8 pods, 6 types, one pool: small enough for an exhaustive search.
    Small,
    /// Up to 30 pods, 15 types, 3 pools.
    Medium,
    /// Up to 100 pods, 40 types, 4 pools.
    Large,
}

impl ClusterSize {
    /// Returns the size for a seed. Of five consecutive seeds, two are small, two medium and one
    /// large.
    pub fn for_seed(seed: u64) -> Self {
        match seed % 5 {
            0 | 3 => Self::Small,
            1 | 4 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// Returns the number for this size.
    fn by_size(self, small: usize, medium: usize, large: usize) -> usize {
        match self {
            Self::Small => small,
            Self::Medium => medium,
            Self::Large => large,
        }
    }
}

/// A generated cluster, as the text of its input files.
#[derive(Debug, Clone)]
pub struct GeneratedCluster {
    /// Seed from which it was generated.
    pub seed: u64,
    /// Size of the cluster.
    pub size: ClusterSize,
    /// Manifests: one JSON `List`.
    pub manifests: String,
    /// Instance types in the KWOK provider's format.
    pub types: String,
    fingerprint: u64,
}

impl GeneratedCluster {
    fn new(seed: u64, size: ClusterSize, draft: &ClusterDraft) -> Self {
        let manifests = json!({"apiVersion": "v1", "kind": "List", "items": draft.objects});
        let types = Value::Array(draft.types.iter().map(instance_types::InstanceTypeSpec::render).collect());
        let fingerprint = hash_json(&types, hash_json(&manifests, 0xcbf2_9ce4_8422_2325));
        Self { seed, size, manifests: manifests.to_string(), types: types.to_string(), fingerprint }
    }

    /// Returns a hash of the content, in hexadecimal. It does not depend on the order of JSON keys.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", self.fingerprint)
    }
}

/// Generates a cluster with pending pods.
pub fn provisioning_cluster(seed: u64, size: ClusterSize) -> GeneratedCluster {
    let mut draft = ClusterDraft::new(seed, size);
    draft.add_instance_types();
    draft.add_pools();
    draft.add_daemon_sets();
    draft.add_apps();
    draft.add_nodes();
    GeneratedCluster::new(seed, size, &draft)
}

/// Generates a cluster with pending pods whose size follows from the seed.
pub fn mixed_size_cluster(seed: u64) -> GeneratedCluster {
    provisioning_cluster(seed, ClusterSize::for_seed(seed))
}

/// A cluster that is being generated.
struct ClusterDraft {
    random: Random,
    size: ClusterSize,
    zones: Vec<String>,
    types: Vec<instance_types::InstanceTypeSpec>,
    pools: Vec<pools::PoolDraft>,
    daemons: Vec<apps::DaemonDraft>,
    apps: Vec<apps::App>,
    objects: Vec<Value>,
}

impl ClusterDraft {
    fn new(seed: u64, size: ClusterSize) -> Self {
        let mut random = Random::new(seed ^ ((size.by_size(1, 2, 3) as u64) << 56));
        let zones = (0..random.between(2, size.by_size(3, 3, 4))).map(|i| format!("zone-{}", ["a", "b", "c", "d"][i]));
        Self {
            zones: zones.collect(),
            random,
            size,
            types: Vec::new(),
            pools: Vec::new(),
            daemons: Vec::new(),
            apps: Vec::new(),
            objects: vec![
                json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue", "labels": {"team": "blue"}}}),
            ],
        }
    }
}

/// Returns an FNV-1a hash of the value, with the keys of objects in sorted order.
fn hash_json(value: &Value, seed: u64) -> u64 {
    let bytes = |text: &str, seed| {
        text.bytes().fold(seed, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            keys.into_iter().fold(bytes("{", seed), |hash_so_far, key| hash_json(&map[key], bytes(key, hash_so_far)))
        }
        Value::Array(items) => items.iter().fold(bytes("[", seed), |hash_so_far, item| hash_json(item, hash_so_far)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => bytes(&value.to_string(), seed),
    }
}

/// Sets a field unless the value is null, an empty list or an empty object.
fn set_unless_empty(object: &mut Map<String, Value>, key: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if !empty {
        object.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
