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
const CLUSTER_COUNT: u64 = 500;

/// Steps of the exhaustive search per cluster; few, because this build is not optimized.
const SEARCH_STEPS: u64 = 2_000;

/// Returns the size of a cluster: mostly small clusters, for which the exhaustive search is
/// possible and fast; every tenth is a medium one.
fn size_of(seed: u64) -> ClusterSize {
    if seed % 10 == 9 { ClusterSize::Medium } else { ClusterSize::Small }
}

#[test]
fn provisioning_plans_have_all_properties() {
    let (kerf, _scratch) = in_process_kerf();
    let next = AtomicU64::new(0);
    let results: Mutex<Vec<PropertyResult>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= CLUSTER_COUNT {
                return;
            }
            // Repeated runs take three times as long, so only every sixth cluster has them.
            let options = CheckOptions { repeat_runs: seed % 6 == 3, search_steps: SEARCH_STEPS };
            let result = check_properties(&provisioning_cluster(seed, size_of(seed)), &kerf, options);
            results.lock().unwrap().push(result);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner().unwrap();
    let violations: Vec<String> = results
        .iter()
        .flat_map(|result| {
            result.violations.iter().map(|violation| format!("world {} ({:?}): {violation}", result.seed, result.size))
        })
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    let gaps: Vec<f64> = results.iter().filter_map(|result| Some(result.cost?.gap())).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    assert!(gaps.len() > 400 && mean < 0.02, "{}", describe_gaps(&results));
}

// Pods that a zone spread counts but that have no spread of their own, some on claims whose zone is
// open. Such claims are restricted to a zone in which the pods do not violate the spread.
#[test]
fn a_spread_that_counts_pods_in_open_zones_is_satisfied() {
    let (kerf, _scratch) = in_process_kerf();
    let cluster = provisioning_cluster(127, ClusterSize::Large);
    let bytes = kerf.plan_output(&cluster.manifests, &cluster.types, &["--only", "provisioning"]).unwrap();
    let plan = Plan::read(&serde_json::from_slice(&bytes).unwrap()).unwrap();
    let types = catalogue::read(&cluster.types).unwrap();
    assert_eq!(check(&ClusterManifests::read(&cluster.manifests).unwrap(), &types, &plan), []);
}
