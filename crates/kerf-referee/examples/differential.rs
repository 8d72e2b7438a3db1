//! Compares Kerf with Karpenter on random clusters:
//!
//! ```text
//! make differential       # 1,000 clusters, five runs of Karpenter for each
//! cargo run --release -p kerf-referee --example differential -- \
//!     "$(hack/oracle/build.sh)" target/release/kerf 1000 [first seed]
//! ```

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use kerf_referee::differential::{DifferentialReport, KarpenterAnswers, Oracle, compare_with_karpenter};
use kerf_referee::generator::ClusterSize;
use kerf_referee::program::KerfProgram;
use serde_json::Value;

/// Number of Karpenter's runs for each cluster.
const KARPENTER_RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (oracle, kerf, worlds, first) = match arguments.as_slice() {
        [oracle, kerf, worlds] => (oracle, kerf, worlds.parse::<u64>()?, 0),
        [oracle, kerf, worlds, first] => (oracle, kerf, worlds.parse::<u64>()?, first.parse::<u64>()?),
        _ => return Err("usage: differential <oracle> <kerf> <number of clusters> [first seed]".into()),
    };
    let oracle = Oracle { program: PathBuf::from(oracle), scratch: std::env::temp_dir() };
    let kerf = KerfProgram::new(PathBuf::from(kerf), std::env::temp_dir());
    // A run that fails returns JSON that is not a plan, which the comparison reports.
    let plan = |manifests: &str, types: &str| match kerf.plan_output(manifests, types, &[]) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        Err(error) => Value::String(error.to_string()),
    };
    let threads = std::thread::available_parallelism()?.get();
    let compare = |part: usize| {
        let seeds = (first..first + worlds).skip(part).step_by(threads);
        let worlds = seeds.map(|seed| (seed, ClusterSize::for_seed(seed))).collect();
        compare_with_karpenter(&plan, &KarpenterAnswers::Live { oracle: &oracle, worlds, runs: KARPENTER_RUNS })
    };
    let mut report = DifferentialReport::default();
    std::thread::scope(|scope| {
        let compare = &compare;
        let parts: Vec<_> = (0..threads).map(|part| scope.spawn(move || compare(part))).collect();
        for part in parts {
            report.comparisons.extend(part.join().map(|part| part.comparisons).unwrap_or_default());
        }
    });
    report.comparisons.sort_by_key(|comparison| comparison.seed);
    write!(std::io::stdout(), "{report}")?;
    if report.is_clean() {
        Ok(())
    } else {
        Err("Kerf is worse than Karpenter on some cluster; see the regressions above".into())
    }
}
