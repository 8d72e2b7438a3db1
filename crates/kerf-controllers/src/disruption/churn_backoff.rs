//! Back-offs that prevent churn. What has failed is not retried at once, and each further failure
//! lengthens the wait. There are three: offerings from which replacements could not be launched,
//! NodePools whose drifted nodes could not be replaced, and moves that would undo an earlier move.
//!
//! Records that must survive a restart are annotations: failed offerings on the NodePool of the
//! replacement, moves on the NodeClaim that was launched as a replacement. Only the drift back-off
//! is kept in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use kerf_api::annotations::kerf::{LAUNCH_BACKOFFS, REPLACED};
use kerf_api::nodepool::{DisruptionReason, NodePool};
use kerf_api::slim::Str;
use kerf_engine::{DisruptionCommand, LaunchBackoff, PlannedClaim};
use kerf_runtime::{ApiError, MergePatch, Rng};
use kerf_state::{Cluster, TrackedClaim};
use serde::{Deserialize, Serialize};

use crate::actions;
use crate::context::Context;
use crate::error::Error;

/// Back-off of an offering after its first failure. Each further failure multiplies it by four.
const OFFERING_BACKOFF_BASE: SignedDuration = SignedDuration::from_mins(30);
/// Longest back-off of an offering.
const OFFERING_BACKOFF_MAX: SignedDuration = SignedDuration::from_hours(8);
/// Time for which a failure still counts towards the next back-off, from the end of its own
/// back-off.
const OFFERING_FAILURE_RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// Number of failed offerings that a NodePool's annotation can hold. Replacements list their
/// cheapest types first, so the most expensive ones are dropped.
const FAILED_OFFERINGS_PER_POOL_MAX: usize = 512;
/// Time for which a move is not undone. It doubles with each move in a row that undid the one
/// before.
const REVERSED_MOVE_WAIT_BASE: SignedDuration = SignedDuration::from_hours(1);
/// Longest time for which a move is not undone.
const REVERSED_MOVE_WAIT_MAX: SignedDuration = SignedDuration::from_hours(24);
/// Bounds of the time for which a NodePool's drifted nodes are not replaced after a failure (spec
/// 03 §16 item 13). The back-off doubles with each failure.
const DRIFT_BACKOFF_BASE: SignedDuration = SignedDuration::from_mins(1);
const DRIFT_BACKOFF_MAX: SignedDuration = SignedDuration::from_mins(10);

/// One way to buy an instance: instance type, zone and capacity type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OfferingKey {
    pub(crate) zone: Str,
    pub(crate) capacity_type: Str,
    pub(crate) instance_type: Str,
}

/// Number of failures in a row, and the end of the back-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FailureRecord {
    failures: u32,
    until: Timestamp,
}

/// An element of the annotation `kerf.sh/launch-backoffs`. Failed offerings that differ only in
/// their instance type share one element.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LaunchBackoffEntry {
    instance_types: Vec<Str>,
    zone: Str,
    capacity_type: Str,
    until: Timestamp,
    failures: u32,
}

/// Value of the annotation `kerf.sh/replaced` on a replacement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReplacedAnnotation {
    #[serde(default)]
    node_claims: Vec<Str>,
    /// Instance types of the replaced nodes. Empty if the command was not a consolidation: such a
    /// move may be undone at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    instance_types: Vec<Str>,
    at: Timestamp,
    /// Number of moves in a row that have each undone the move before.
    #[serde(default)]
    reversals: u32,
}

/// Per NodePool, the time until which drifted nodes are not replaced after a failure.
#[derive(Debug)]
pub(crate) struct DriftBackoffs {
    by_pool: Mutex<BTreeMap<Str, FailureRecord>>,
    rng: Mutex<Rng>,
}

impl DriftBackoffs {
    pub(crate) fn new(seed: u64) -> Self {
        Self { by_pool: Mutex::default(), rng: Mutex::new(Rng::new(seed).fork("disruption.memory")) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, FailureRecord>> {
        self.by_pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of a NodePool's drift back-off, or `None` if there is none now.
    pub(crate) fn backoff_until(&self, pool: &str, now: Timestamp) -> Option<Timestamp> {
        self.lock().get(pool).map(|record| record.until).filter(|until| now < *until)
    }

    /// Records that replacing a drifted node of a NodePool has failed. Returns false, and changes
    /// nothing, if the NodePool is in back-off already.
    pub(crate) fn record_failure(&self, pool: &Str, now: Timestamp) -> bool {
        let mut by_pool = self.lock();
        let record = by_pool.entry(pool.clone()).or_insert(FailureRecord { failures: 0, until: Timestamp::MIN });
        if now < record.until {
            return false;
        }
        record.failures = record.failures.saturating_add(1);
        let max_delay = exponential_delay(DRIFT_BACKOFF_BASE, DRIFT_BACKOFF_MAX, 2, record.failures);
        let min_delay = max_delay / 2;
        let jitter_max_millis = u64::try_from((max_delay - min_delay).as_millis()).unwrap_or(0);
        let jitter_millis = self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(jitter_max_millis);
        record.until =
            saturating_add(now, min_delay + SignedDuration::from_millis(i64::try_from(jitter_millis).unwrap_or(0)));
        true
    }

    /// Ends the drift back-off of a NodePool, because one of its drifted nodes was replaced.
    pub(crate) fn clear(&self, pool: &str) {
        self.lock().remove(pool);
    }
}

/// Returns `base` multiplied by `factor` for each of the `occurrences` after the first, and at most
/// `max`.
fn exponential_delay(base: SignedDuration, max: SignedDuration, factor: i32, occurrences: u32) -> SignedDuration {
    let delay = factor.checked_pow(occurrences.saturating_sub(1)).and_then(|n| base.checked_mul(n));
    delay.unwrap_or(max).min(max)
}

fn saturating_add(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn read_failed_offerings(pool: &NodePool) -> BTreeMap<OfferingKey, FailureRecord> {
    let annotation = pool.metadata.annotations.as_ref().and_then(|all| all.get(LAUNCH_BACKOFFS));
    // An annotation that cannot be parsed counts as empty: back-offs are lost, nothing else.
    let entries: Vec<LaunchBackoffEntry> =
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut records = BTreeMap::new();
    for entry in entries {
        let record = FailureRecord { failures: entry.failures, until: entry.until };
        for instance_type in entry.instance_types {
            let (zone, capacity_type) = (entry.zone.clone(), entry.capacity_type.clone());
            records.insert(OfferingKey { zone, capacity_type, instance_type }, record);
        }
    }
    records
}

fn launch_backoffs_annotation(records: &BTreeMap<OfferingKey, FailureRecord>) -> Option<String> {
    let mut entries: Vec<LaunchBackoffEntry> = Vec::new();
    for (offering, record) in records {
        let is_same_entry = |entry: &&mut LaunchBackoffEntry| {
            entry.zone == offering.zone
                && entry.capacity_type == offering.capacity_type
                && (entry.failures, entry.until) == (record.failures, record.until)
        };
        match entries.iter_mut().find(is_same_entry) {
            Some(entry) => entry.instance_types.push(offering.instance_type.clone()),
            None => entries.push(LaunchBackoffEntry {
                instance_types: vec![offering.instance_type.clone()],
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type.clone(),
                until: record.until,
                failures: record.failures,
            }),
        }
    }
    if entries.is_empty() { None } else { serde_json::to_string(&entries).ok() }
}

/// Returns all offerings in back-off, from the annotations of all NodePools. A failure for one
/// NodePool applies to all.
pub(crate) fn launch_backoffs(cluster: &Cluster, now: Timestamp) -> Vec<LaunchBackoff> {
    let records = cluster.all::<NodePool>().values().flat_map(|pool| read_failed_offerings(pool));
    records
        .filter(|(_, record)| now < record.until)
        .map(|(offering, record)| LaunchBackoff {
            instance_type: offering.instance_type,
            zone: offering.zone,
            capacity_type: offering.capacity_type,
            until: record.until,
        })
        .collect()
}

/// Records on a NodePool from which offerings replacements failed (`failed`) and from which they
/// were launched (`launched`).
pub(crate) async fn write_launch_results(
    ctx: &Context,
    pool: &str,
    failed: &[OfferingKey],
    launched: &[OfferingKey],
) -> Result<(), Error> {
    let Some(tracked_pool) = ctx.managed_pool(pool) else { return Ok(()) };
    if failed.is_empty() && read_failed_offerings(&tracked_pool).is_empty() {
        return Ok(());
    }
    let now = ctx.now();
    let mut before = tracked_pool.as_ref().clone();
    for _ in 0..2 {
        let mut records = read_failed_offerings(&before);
        records.retain(|_, record| now < saturating_add(record.until, OFFERING_FAILURE_RETENTION));
        for offering in launched {
            records.remove(offering);
        }
        for offering in failed {
            let previous_failures = records.get(offering).map_or(0, |record| record.failures);
            let failures = previous_failures.saturating_add(1);
            let until =
                saturating_add(now, exponential_delay(OFFERING_BACKOFF_BASE, OFFERING_BACKOFF_MAX, 4, failures));
            if previous_failures > 0 || records.len() < FAILED_OFFERINGS_PER_POOL_MAX {
                records.insert(offering.clone(), FailureRecord { failures, until });
            }
        }
        let mut after = before.clone();
        let annotations = after.metadata.annotations.get_or_insert_default();
        match launch_backoffs_annotation(&records) {
            Some(text) => annotations.insert(LAUNCH_BACKOFFS.to_owned(), text),
            None => annotations.remove(LAUNCH_BACKOFFS),
        };
        match actions::pool::update(ctx, MergePatch::OBJECT, &before, &after).await {
            Ok(_) | Err(ApiError::NotFound) => return Ok(()),
            Err(ApiError::Conflict) => {}
            Err(cause) => return Err(Error::Api { operation: "annotating nodepool", cause }),
        }
        before = match actions::pool::read(ctx, pool).await {
            Ok(read) => read,
            Err(ApiError::NotFound) => return Ok(()),
            Err(cause) => return Err(Error::Api { operation: "getting nodepool", cause }),
        };
    }
    Err(Error::Api { operation: "annotating nodepool", cause: ApiError::Conflict })
}

fn read_replaced(claim: &TrackedClaim) -> Option<ReplacedAnnotation> {
    serde_json::from_str(claim.engine_claim.annotations.get(REPLACED)?).ok()
}

fn expected_instance_type(planned: &PlannedClaim) -> Option<&Str> {
    planned.launch.estimate.as_ref().map(|estimate| &estimate.instance_type)
}

/// Returns the time until which a command must wait because it would undo a recent move. Returns
/// `None` if it need not wait.
pub(crate) fn reversed_move_wait_until(
    cluster: &Cluster,
    command: &DisruptionCommand,
    now: Timestamp,
) -> Option<Timestamp> {
    if command.reason() != DisruptionReason::Underutilized {
        return None;
    }
    let planned_types: Vec<&Str> = command.replacements.iter().filter_map(expected_instance_type).collect();
    let moves = command.nodes.iter().filter_map(|node| read_replaced(cluster.get::<TrackedClaim>(&node.claim)?));
    moves
        .filter(|replaced| replaced.instance_types.iter().any(|old_type| planned_types.contains(&old_type)))
        .map(|replaced| {
            saturating_add(
                replaced.at,
                exponential_delay(
                    REVERSED_MOVE_WAIT_BASE,
                    REVERSED_MOVE_WAIT_MAX,
                    2,
                    replaced.reversals.saturating_add(1),
                ),
            )
        })
        .filter(|until| now < *until)
        .max()
}

/// Returns the annotation `kerf.sh/replaced` for a replacement. It shows users what the claim
/// replaces, and lets [`reversed_move_wait_until`] find a command that would undo the move.
pub(crate) fn replaced_annotation(
    cluster: &Cluster,
    command: &DisruptionCommand,
    planned: &PlannedClaim,
    now: Timestamp,
) -> Option<(String, String)> {
    let node_claims = command.nodes.iter().map(|node| node.claim.clone()).collect();
    let mut instance_types: Vec<Str> = Vec::new();
    if command.reason() == DisruptionReason::Underutilized {
        instance_types.extend(command.nodes.iter().map(|node| node.instance_type.clone()));
        instance_types.sort_unstable();
        instance_types.dedup();
    }
    let planned_type = expected_instance_type(planned);
    let reversed = command.nodes.iter().filter_map(|node| read_replaced(cluster.get::<TrackedClaim>(&node.claim)?));
    let reversed = reversed
        .filter(|replaced| planned_type.is_some_and(|planned_type| replaced.instance_types.contains(planned_type)));
    let reversals = reversed.map(|replaced| replaced.reversals.saturating_add(1)).max().unwrap_or(0);
    let text = serde_json::to_string(&ReplacedAnnotation { node_claims, instance_types, at: now, reversals }).ok()?;
    Some((REPLACED.to_owned(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_lengthens_the_backoff() {
        let minutes =
            |occurrences| exponential_delay(OFFERING_BACKOFF_BASE, OFFERING_BACKOFF_MAX, 4, occurrences).as_mins();
        assert_eq!([1, 2, 3, 4, 40].map(minutes), [30, 120, 480, 480, 480]);
    }

    #[test]
    fn the_launch_backoffs_annotation_round_trips() {
        let offering = |name: &'static str| OfferingKey {
            zone: Str::new_static("z"),
            capacity_type: Str::new_static("spot"),
            instance_type: Str::new_static(name),
        };
        let record = FailureRecord { failures: 2, until: Timestamp::UNIX_EPOCH };
        let records: BTreeMap<OfferingKey, FailureRecord> = [(offering("a"), record), (offering("b"), record)].into();
        let text = launch_backoffs_annotation(&records).unwrap_or_default();
        assert_eq!(
            text,
            r#"[{"instanceTypes":["a","b"],"zone":"z","capacityType":"spot","until":"1970-01-01T00:00:00Z","failures":2}]"#
        );
        let mut pool: NodePool =
            serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}}}}))
            .expect("a NodePool");
        pool.metadata.annotations = Some([(LAUNCH_BACKOFFS.to_owned(), text)].into());
        assert_eq!(read_failed_offerings(&pool), records);
        pool.metadata.annotations = Some([(LAUNCH_BACKOFFS.to_owned(), "{".to_owned())].into());
        assert!(read_failed_offerings(&pool).is_empty());
    }

    // spec 03 §16 item 13
    #[test]
    fn failed_drift_backs_off_and_success_resets_it() {
        let backoffs = DriftBackoffs::new(1);
        let pool = Str::new_static("p");
        let mut now = Timestamp::UNIX_EPOCH;
        for max_minutes in [1, 2, 4, 8, 10, 10] {
            assert!(backoffs.record_failure(&pool, now));
            assert!(!backoffs.record_failure(&pool, now), "failures while backed off change nothing");
            let until = backoffs.backoff_until(&pool, now).unwrap_or_default();
            let wait = until.duration_since(now).as_secs();
            assert!((max_minutes * 30..=max_minutes * 60).contains(&wait), "{max_minutes}: {wait}");
            now = until;
        }
        backoffs.clear(&pool);
        assert_eq!(backoffs.backoff_until(&pool, now), None);
    }
}
