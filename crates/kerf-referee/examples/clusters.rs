//! Random clusters from which nodes could be removed: checks the properties of Kerf's plans and
//! compares them with Karpenter's.
//!
//! ```text
//! make properties differential            # as part of the long runs
//! run="cargo run --release -p kerf-referee --example clusters --"
//! oracle="$(hack/oracle/build.sh)"
//! $run properties target/release/kerf 1000 [first seed]
//! $run differential "$oracle" target/release/kerf 500 [first seed]
//! $run record "$oracle" 50 crates/kerf/tests/recorded/clusters.json
//! $run write 17 /tmp/cluster-17           # manifests.json, types.json
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kerf_referee::differential::{ClusterReport, Oracle, RecordedClusters, compare_cluster};
use kerf_referee::generator::disruption_cluster;
use kerf_referee::program::KerfProgram;
use kerf_referee::properties::check_cluster_properties;

/// Number of Karpenter's runs for each cluster.
const KARPENTER_RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["properties", kerf, number] => properties(kerf, number.parse()?, 0),
        ["properties", kerf, number, first] => properties(kerf, number.parse()?, first.parse()?),
        ["differential", oracle, kerf, number] => differential(oracle, kerf, number.parse()?, 0),
        ["differential", oracle, kerf, number, first] => differential(oracle, kerf, number.parse()?, first.parse()?),
        ["record", oracle, number, file] => record(oracle, number.parse()?, file),
        ["write", seed, folder] => write(seed.parse()?, Path::new(folder)),
        _ => Err("usage: clusters properties|differential|record|write ... (the head of examples/clusters.rs lists the arguments)".into()),
    }
}

/// Calls `work` for each seed, on all cores. Returns the results in the order of seeds.
fn map_seeds_in_parallel<T: Send>(
    number: u64,
    first: u64,
    work: &(dyn Fn(u64) -> T + Sync),
) -> Result<Vec<T>, Box<dyn Error>> {
    let next = AtomicU64::new(first);
    let done: Mutex<Vec<(u64, T)>> = Mutex::default();
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + number {
                return;
            }
            let result = work(seed);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((seed, result));
        }
    };
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(seed, _)| *seed);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

fn properties(kerf: &str, number: u64, first: u64) -> Result<(), Box<dyn Error>> {
    let kerf = KerfProgram::new(PathBuf::from(kerf), std::env::temp_dir());
    let results = map_seeds_in_parallel(number, first, &|seed| {
        check_cluster_properties(&disruption_cluster(seed), &|manifests, types| kerf.plan_json(manifests, types))
    })?;
    let mut out = std::io::stdout().lock();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for result in &results {
        result.violations.iter().try_for_each(|violation| writeln!(out, "cluster {}: {violation}", result.seed))?;
        result.reasons.iter().for_each(|reason| *reasons.entry(reason).or_default() += 1);
    }
    let failed = results.iter().filter(|result| !result.violations.is_empty()).count();
    let unfinished = results.iter().filter(|result| result.is_unfinished).count();
    writeln!(
        out,
        "{} clusters, {failed} with violations; commands: {reasons:?}; in {unfinished} a launched node could be removed again",
        results.len()
    )?;
    if failed == 0 { Ok(()) } else { Err("a property does not hold for some cluster; see the violations above".into()) }
}

fn differential(oracle: &str, kerf: &str, number: u64, first: u64) -> Result<(), Box<dyn Error>> {
    let oracle = Oracle { program: PathBuf::from(oracle), scratch: std::env::temp_dir() };
    let kerf = KerfProgram::new(PathBuf::from(kerf), std::env::temp_dir());
    let plan = |manifests: &str, types: &str| kerf.plan_json(manifests, types);
    let compared = map_seeds_in_parallel(number, first, &|seed| {
        let recorded =
            oracle.record_cluster(&disruption_cluster(seed), KARPENTER_RUNS).map_err(|error| error.to_string())?;
        Ok::<_, String>(compare_cluster(&plan, &recorded))
    })?;
    let comparisons = compared.into_iter().collect::<Result<Vec<_>, _>>()?;
    let report = ClusterReport { comparisons };
    write!(std::io::stdout(), "{report}")?;
    if report.is_clean() {
        Ok(())
    } else {
        Err("Kerf is worse than Karpenter on some cluster; see the regressions above".into())
    }
}

fn record(oracle: &str, number: u64, file: &str) -> Result<(), Box<dyn Error>> {
    let oracle = Oracle { program: PathBuf::from(oracle), scratch: std::env::temp_dir() };
    let answers = map_seeds_in_parallel(number, 0, &|seed| {
        oracle.record_cluster(&disruption_cluster(seed), KARPENTER_RUNS).map_err(|e| e.to_string())
    })?;
    let clusters = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let recorded = RecordedClusters { karpenter: "v1.14.1".to_owned(), clusters };
    Ok(std::fs::write(file, recorded.write()?)?)
}

fn write(seed: u64, folder: &Path) -> Result<(), Box<dyn Error>> {
    let generated = disruption_cluster(seed);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("manifests.json"), generated.manifests)?;
    Ok(std::fs::write(folder.join("types.json"), generated.types)?)
}
