//! Properties of every plan, on random clusters (`make properties` uses many more).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kerf_referee::catalogue;
use kerf_referee::check::check;
use kerf_referee::generator::{ClusterSize, provisioning_cluster};
use kerf_referee::manifests::ClusterManifests;
use kerf_referee::plan::Plan;
use kerf_referee::properties::{CheckOptions, PropertyResult, check_properties, describe_gaps};

use super::in_process_kerf;

/// Number of random clusters.
const WORLD_COUNT: u64 = 500;

/// Steps of the exhaustive search per cluster; few, because this build is not optimized.
const SEARCH_STEPS: u64 = 2_000;

/// Returns the size of a cluster: mostly small clusters, for which the exhaustive search is
/// possible and fast; every tenth is a medium one.
fn size_of(seed: u64) -> ClusterSize {
    if seed % 10 == 9 { ClusterSize::Medium } else { ClusterSize::Small }
}

#[test]
fn plans_are_lawful_complete_and_the_same_however_they_are_asked_for() {
    let (kerf, _scratch) = in_process_kerf();
    let next = AtomicU64::new(0);
    let trials: Mutex<Vec<PropertyResult>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= WORLD_COUNT {
                return;
            }
            // Repeated runs take three times as long, so only every sixth cluster has them.
            let care = CheckOptions { repeat_runs: seed % 6 == 3, search_steps: SEARCH_STEPS };
            let trial = check_properties(&provisioning_cluster(seed, size_of(seed)), &kerf, care);
            trials.lock().unwrap().push(trial);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let trials = trials.into_inner().unwrap();
    let faults: Vec<String> = trials
        .iter()
        .flat_map(|trial| {
            trial.violations.iter().map(|fault| format!("world {} ({:?}): {fault}", trial.seed, trial.size))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let gaps: Vec<f64> = trials.iter().filter_map(|trial| Some(trial.cost?.gap())).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!(gaps.len() > 400 && mean < 0.02, "{}", describe_gaps(&trials));
}

// Pods that a zone spread counts but that have no spread of their own, some on claims whose zone is
// open. Such claims are restricted to a zone in which the pods do not violate the spread.
#[test]
fn a_spread_that_counts_pods_in_open_zones_is_kept() {
    let (kerf, _scratch) = in_process_kerf();
    let made = provisioning_cluster(127, ClusterSize::Large);
    let bytes = kerf.plan_output(&made.manifests, &made.types, &["--only", "provisioning"]).unwrap();
    let plan = Plan::read(&serde_json::from_slice(&bytes).unwrap()).unwrap();
    let types = catalogue::read(&made.types).unwrap();
    assert_eq!(check(&ClusterManifests::read(&made.manifests).unwrap(), &types, &plan), []);
}
