//! Warnings about preferences that can prevent consolidation (spec 02 §2.6). Each pod is logged at
//! most once a day per kind of preference.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::slim::{Pod, Str, WhenUnsatisfiable};
use tracing::info;

use super::report::join_names_up_to;

/// Time for which a pod is not logged again.
const WARNING_DEDUPE_TIMEOUT: Duration = Duration::from_hours(24);
/// Number of pods that one log line names.
const NAMED_PODS_MAX: usize = 10;

/// Time of the last warning per pod, by UID.
#[derive(Debug, Default)]
pub(super) struct PreferenceWarnings {
    anti_affinity: BTreeMap<Str, Timestamp>,
    spread: BTreeMap<Str, Timestamp>,
}

/// Returns true if a pod has a preference that can prevent consolidation.
pub(super) fn has_blocking_preference(pod: &Pod) -> bool {
    has_preferred_anti_affinity(pod) || has_preferred_spread(pod)
}

fn has_preferred_anti_affinity(pod: &Pod) -> bool {
    pod.spec.affinity.as_ref().is_some_and(|affinity| !affinity.pod_anti_affinity.preferred.is_empty())
}

fn has_preferred_spread(pod: &Pod) -> bool {
    let mut constraints = pod.spec.topology_spread_constraints.iter();
    constraints.any(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway)
}

impl PreferenceWarnings {
    /// Logs the pods that have such a preference and were not logged recently.
    pub(super) fn log_new(&mut self, pods: &[Arc<Pod>], now: Timestamp) {
        if let Some(pods) = take_unwarned_names(
            &mut self.anti_affinity,
            pods.iter().filter(|pod| has_preferred_anti_affinity(pod)),
            now,
        ) {
            info!(pods, "pod(s) have a preferred Anti-Affinity which can prevent consolidation");
        }
        if let Some(pods) =
            take_unwarned_names(&mut self.spread, pods.iter().filter(|pod| has_preferred_spread(pod)), now)
        {
            info!(pods, "pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation");
        }
    }
}

/// Records the pods that have no recent warning and returns their names as text. Returns `None` if
/// there are none.
fn take_unwarned_names<'p>(
    warned_at: &mut BTreeMap<Str, Timestamp>,
    pods: impl Iterator<Item = &'p Arc<Pod>>,
    now: Timestamp,
) -> Option<String> {
    warned_at.retain(|_, at| now.duration_since(*at).unsigned_abs() < WARNING_DEDUPE_TIMEOUT);
    let mut names: Vec<Str> = Vec::new();
    for pod in pods {
        if !warned_at.contains_key(&pod.metadata.uid) {
            warned_at.insert(pod.metadata.uid.clone(), now);
            names.push(pod.namespaced_name());
        }
    }
    (!names.is_empty()).then(|| join_names_up_to(NAMED_PODS_MAX, names.iter(), names.len()))
}

#[cfg(test)]
mod tests {
    use kerf_api::slim::TopologySpreadConstraint;

    use super::*;
    use kerf_operator::logs::capturing_subscriber;
    use kerf_operator::logs::{Level, LineFormat};

    fn pod(name: &str) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.name = Str::from(name);
        pod.metadata.namespace = Str::new_static("n");
        pod.metadata.uid = Str::from(name);
        let when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
        pod.spec.topology_spread_constraints =
            vec![TopologySpreadConstraint { when_unsatisfiable, ..TopologySpreadConstraint::default() }];
        Arc::new(pod)
    }

    // spec 02 §2.6
    #[test]
    fn a_pod_is_logged_once_a_day_and_a_line_names_ten() {
        let (subscriber, lines) = capturing_subscriber(Level::Info, LineFormat::Json);
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pods: Vec<Arc<Pod>> = (0..12).map(|n| pod(&format!("p{n}"))).collect();
        let mut warnings = PreferenceWarnings::default();
        tracing::subscriber::with_default(subscriber, || {
            warnings.log_new(&pods[..11], start);
            warnings.log_new(&pods, start + Duration::from_hours(1));
            warnings.log_new(&pods[..1], start + Duration::from_hours(23));
            warnings.log_new(&pods, start + Duration::from_hours(24));
        });
        let text = lines.text();
        let logged: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let counts: Vec<usize> =
            logged.iter().map(|line| line["pods"].as_str().unwrap().matches("/p").count()).collect();
        assert_eq!(counts, [10, 1, 10], "{text}");
        assert!(logged[0]["pods"].as_str().unwrap().ends_with(" and 1 other(s)"), "{text}");
        assert!(logged.iter().all(|line| line["message"].as_str().unwrap().contains("TopologySpreadConstraint")));
    }
}
