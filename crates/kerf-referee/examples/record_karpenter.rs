//! Records Karpenter's plans for the first clusters, for the differential test that runs without
//! Go:
//!
//! ```text
//! cargo run -p kerf-referee --example record_karpenter -- \
//!     "$(hack/oracle/build.sh)" 50 crates/kerf/tests/recorded/karpenter.json
//! ```
//!
//! With `--explain` instead of a file it prints every constraint that Karpenter's own plans break.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use kerf_referee::catalogue;
use kerf_referee::check::check;
use kerf_referee::differential::{Oracle, RecordedWorlds};
use kerf_referee::generator::{GeneratedCluster, mixed_size_cluster};
use kerf_referee::manifests::ClusterManifests;
use kerf_referee::plan::Plan;

/// Number of Karpenter's runs for each cluster.
const KARPENTER_RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, worlds, output] = arguments.as_slice() else {
        return Err("usage: record_karpenter <oracle> <number of clusters> <file>|--explain".into());
    };
    let oracle = Oracle { program: PathBuf::from(program), scratch: std::env::temp_dir() };
    let seeds = 0..worlds.parse::<u64>()?;
    if output == "--explain" {
        return seeds.map(mixed_size_cluster).try_for_each(|generated| print_violations(&oracle, &generated));
    }
    let worlds = seeds
        .map(|seed| oracle.record_world(&mixed_size_cluster(seed), KARPENTER_RUNS))
        .collect::<Result<Vec<_>, _>>()?;
    let recorded = RecordedWorlds { karpenter: "v1.14.1".to_owned(), worlds };
    Ok(std::fs::write(output, recorded.write()?)?)
}

fn print_violations(oracle: &Oracle, generated: &GeneratedCluster) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    let plan_json = match oracle.plan(generated, 0) {
        Ok(plan_json) => plan_json,
        Err(error) => return Ok(writeln!(out, "{error}")?),
    };
    let plan = Plan::read(&plan_json)?;
    let violations = check(&ClusterManifests::read(&generated.manifests)?, &catalogue::read(&generated.types)?, &plan);
    let GeneratedCluster { seed, size, .. } = generated;
    writeln!(
        out,
        "cluster {seed} ({size:?}): {} pods placed, {}, {} violations",
        plan.placed(),
        plan.price(),
        violations.len()
    )?;
    for violation in violations {
        writeln!(out, "  {violation}")?;
    }
    Ok(())
}
