//! Disruption on random clusters: properties of every plan, and a comparison with Karpenter's
//! recorded answers. `make properties` and `make differential` use many more clusters.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kerf_referee::differential::{ClusterReport, RecordedClusters, compare_cluster};
use kerf_referee::generator::disruption_cluster;
use kerf_referee::properties::{ClusterPropertyResult, check_cluster_properties};

use super::in_process_kerf;

/// Seeds of the random clusters; Karpenter's answers are recorded for the seeds below.
const CLUSTER_SEEDS: std::ops::Range<u64> = 50..150;

#[test]
fn disruption_plans_have_all_properties() {
    let (kerf, _scratch) = in_process_kerf();
    let next = AtomicU64::new(CLUSTER_SEEDS.start);
    let results: Mutex<Vec<ClusterPropertyResult>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= CLUSTER_SEEDS.end {
                return;
            }
            let result = check_cluster_properties(&disruption_cluster(seed), &|manifests, types| {
                kerf.plan_json(manifests, types)
            });
            results.lock().unwrap().push(result);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let results = results.into_inner().unwrap();
    let violations: Vec<String> = results
        .iter()
        .flat_map(|result| result.violations.iter().map(|violation| format!("cluster {}: {violation}", result.seed)))
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    for reason in ["Empty", "Drifted", "Underutilized"] {
        let count = results.iter().flat_map(|result| &result.reasons).filter(|other| *other == reason).count();
        assert!(count >= 5, "the clusters are about {reason} only {count} times");
    }
}

#[test]
fn karpenter_saves_no_more_and_its_forbidden_commands_stay_forbidden() {
    let recorded = RecordedClusters::read(include_str!("../../recorded/clusters.json")).unwrap();
    assert_eq!(recorded.clusters.len(), 50);
    let (kerf, _scratch) = in_process_kerf();
    let plan = |manifests: &str, types: &str| kerf.plan_json(manifests, types);
    let comparisons =
        recorded.clusters.iter().map(|recorded_cluster| compare_cluster(&plan, recorded_cluster)).collect();
    let report = ClusterReport { comparisons };
    assert!(report.is_clean(), "{report}");
    let acting_clusters = report.comparisons.iter().filter(|comparison| comparison.karpenter_acts).count();
    assert!(acting_clusters > 20, "{report}");
}
