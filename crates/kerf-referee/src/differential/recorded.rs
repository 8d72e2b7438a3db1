//! Karpenter's answers on file: what a comparison needs of them, and the fingerprint of the world that they belong to.

use serde::{Deserialize, Serialize};

use crate::generator::ClusterSize;
use crate::price::Price;

/// Answers to a number of worlds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedWorlds {
    /// Who answered.
    pub karpenter: String,
    /// The answers.
    pub worlds: Vec<RecordedWorld>,
}

/// Answers to one world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedWorld {
    /// Its seed.
    pub seed: u64,
    /// Its size.
    pub size: ClusterSize,
    /// What the generator made of the two.
    pub fingerprint: String,
    /// How many pods are to be placed.
    pub pods: usize,
    /// One answer for each run.
    pub runs: Vec<RecordedRun>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRun {
    /// How many nodes it would launch.
    pub nodes: usize,
    /// What they cost, in nano-dollars an hour.
    pub price_nanos: i64,
    /// The pods that it does not place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unplaced: Vec<String>,
    /// The rules that it breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
}

impl RecordedRun {
    /// What the new nodes cost.
    pub fn price(&self) -> Price {
        Price::from_nanos(self.price_nanos)
    }
}

impl RecordedWorlds {
    /// Reads a file.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The file's text: one world a line.
    pub fn write(&self) -> Result<String, serde_json::Error> {
        let lines = self.worlds.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let name = serde_json::to_string(&self.karpenter)?;
        Ok(format!("{{\"karpenter\": {name}, \"worlds\": [\n{}\n]}}\n", lines.join(",\n")))
    }
}
