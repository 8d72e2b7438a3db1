//! Recorded plans of Karpenter: the data that a comparison needs, and the fingerprint of the
//! cluster that they belong to.

use serde::{Deserialize, Serialize};

use crate::generator::ClusterSize;
use crate::price::Price;

/// Karpenter's plans for a number of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedWorlds {
    /// Version of Karpenter.
    pub karpenter: String,
    /// The plans, by cluster.
    pub worlds: Vec<RecordedWorld>,
}

/// Karpenter's plans for one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedWorld {
    /// Seed of the cluster.
    pub seed: u64,
    /// Size of the cluster.
    pub size: ClusterSize,
    /// Fingerprint of the generated cluster.
    pub fingerprint: String,
    /// Number of pods to place.
    pub pods: usize,
    /// One plan for each run.
    pub runs: Vec<RecordedRun>,
}

/// One plan of Karpenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRun {
    /// Number of nodes that it launches.
    pub nodes: usize,
    /// Price of these nodes, in nano-dollars per hour.
    pub price_nanos: i64,
    /// Pods that it does not place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unplaced: Vec<String>,
    /// Names of the rules that it breaks; empty for a valid run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
}

impl RecordedRun {
    /// Returns the price of the new nodes.
    pub fn price(&self) -> Price {
        Price::from_nanos(self.price_nanos)
    }
}

impl RecordedWorlds {
    /// Parses the text of a file.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the text of the file, one cluster per line.
    pub fn write(&self) -> Result<String, serde_json::Error> {
        let lines = self.worlds.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let name = serde_json::to_string(&self.karpenter)?;
        Ok(format!("{{\"karpenter\": {name}, \"worlds\": [\n{}\n]}}\n", lines.join(",\n")))
    }
}
