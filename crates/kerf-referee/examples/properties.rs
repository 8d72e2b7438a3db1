//! The long run of the property tests: checks every plan's properties on any number of random
//! clusters.
//!
//! ```text
//! make properties         # 10,000 clusters
//! cargo run --release -p kerf-referee --example properties -- \
//!     target/release/kerf 10000 [first seed]
//! ```

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kerf_referee::generator::mixed_size_cluster;
use kerf_referee::program::KerfProgram;
use kerf_referee::properties::{CheckOptions, DEFAULT_SEARCH_STEPS, PropertyResult, check_properties, describe_gaps};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (program, worlds, first) = match arguments.as_slice() {
        [program, worlds] => (program, worlds.parse::<u64>()?, 0),
        [program, worlds, first] => (program, worlds.parse::<u64>()?, first.parse()?),
        _ => return Err("usage: properties <kerf> <number of clusters> [first seed]".into()),
    };
    let kerf = KerfProgram::new(PathBuf::from(program), std::env::temp_dir());
    let next = AtomicU64::new(first);
    let results: Mutex<Vec<PropertyResult>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + worlds {
                return;
            }
            let result = check_properties(
                &mixed_size_cluster(seed),
                &kerf,
                CheckOptions { repeat_runs: true, search_steps: DEFAULT_SEARCH_STEPS },
            );
            for violation in &result.violations {
                let _ = writeln!(std::io::stdout(), "cluster {seed} ({:?}): {violation}", result.size);
            }
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
        }
    };
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner()?;
    let failed = results.iter().filter(|result| !result.violations.is_empty()).count();
    writeln!(std::io::stdout(), "{} clusters, {failed} with violations\n{}", results.len(), describe_gaps(&results))?;
    if failed == 0 { Ok(()) } else { Err("a property does not hold for some cluster; see the violations above".into()) }
}
