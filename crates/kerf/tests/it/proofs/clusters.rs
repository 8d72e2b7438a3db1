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
fn no_rule_is_broken_nothing_is_left_to_do_and_unnamed_types_do_not_matter() {
    let (kerf, _scratch) = in_process_kerf();
    let next = AtomicU64::new(CLUSTER_SEEDS.start);
    let trials: Mutex<Vec<ClusterPropertyResult>> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= CLUSTER_SEEDS.end {
                return;
            }
            let trial = check_cluster_properties(&disruption_cluster(seed), &|manifests, types| {
                kerf.plan_json(manifests, types)
            });
            trials.lock().unwrap().push(trial);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let trials = trials.into_inner().unwrap();
    let faults: Vec<String> = trials
        .iter()
        .flat_map(|trial| trial.violations.iter().map(|fault| format!("cluster {}: {fault}", trial.seed)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for reason in ["Empty", "Drifted", "Underutilized"] {
        let number = trials.iter().flat_map(|trial| &trial.reasons).filter(|other| *other == reason).count();
        assert!(number >= 5, "the clusters are about {reason} only {number} times");
    }
}

#[test]
fn karpenter_saves_no_more_and_what_is_forbidden_to_it_is_forbidden() {
    let recorded = RecordedClusters::read(include_str!("../../recorded/clusters.json")).unwrap();
    assert_eq!(recorded.clusters.len(), 50);
    let (kerf, _scratch) = in_process_kerf();
    let plan = |manifests: &str, types: &str| kerf.plan_json(manifests, types);
    let comparisons = recorded.clusters.iter().map(|theirs| compare_cluster(&plan, theirs)).collect();
    let report = ClusterReport { comparisons };
    assert!(report.is_clean(), "{report}");
    let acts = report.comparisons.iter().filter(|comparison| comparison.karpenter_acts).count();
    assert!(acts > 20, "{report}");
}
