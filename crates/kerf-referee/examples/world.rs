//! Writes the generated cluster of a seed to a folder, to examine one for which a test failed:
//!
//! ```text
//! # writes manifests.json and types.json
//! cargo run -p kerf-referee --example world -- 17 large /tmp/world-17
//! ```

use std::error::Error;
use std::path::Path;

use kerf_referee::generator::{ClusterSize, provisioning_cluster};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, size, folder] = arguments.as_slice() else {
        return Err("usage: world <seed> small|medium|large <folder>".into());
    };
    let size = match size.as_str() {
        "small" => ClusterSize::Small,
        "medium" => ClusterSize::Medium,
        "large" => ClusterSize::Large,
        other => return Err(format!("unknown size {other}: use small, medium or large").into()),
    };
    let generated = provisioning_cluster(seed.parse()?, size);
    std::fs::create_dir_all(folder)?;
    std::fs::write(Path::new(folder).join("manifests.json"), generated.manifests)?;
    Ok(std::fs::write(Path::new(folder).join("types.json"), generated.types)?)
}
