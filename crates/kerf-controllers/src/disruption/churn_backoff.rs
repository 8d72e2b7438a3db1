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
        Self { by_pool: Mutex::default(), rng: Mutex::new(Rng::new(seed, "disruption.memory")) }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Str, FailureRecord>> {
        self.by_pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of a NodePool's drift back-off, or `None` if there is none now.
    pub(crate) fn backoff_until(&self, pool: &str, now: Timestamp) -> Option<Timestamp> {
        self.lock().get(pool).map(|failed| failed.until).filter(|until| now < *until)
    }

    /// Records that replacing a drifted node of a NodePool has failed. Returns false, and changes
    /// nothing, if the NodePool is in back-off already.
    pub(crate) fn record_failure(&self, pool: &Str, now: Timestamp) -> bool {
        let mut all = self.lock();
        let failed = all.entry(pool.clone()).or_insert(FailureRecord { failures: 0, until: Timestamp::MIN });
        if now < failed.until {
            return false;
        }
        failed.failures = failed.failures.saturating_add(1);
        let most = exponential_delay(DRIFT_BACKOFF_BASE, DRIFT_BACKOFF_MAX, 2, failed.failures);
        let half = most / 2;
        let spread = u64::try_from((most - half).as_millis()).unwrap_or(0);
        let drawn = self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(spread);
        failed.until = saturating_add(now, half + SignedDuration::from_millis(i64::try_from(drawn).unwrap_or(0)));
        true
    }

    /// Ends the drift back-off of a NodePool, because one of its drifted nodes was replaced.
    pub(crate) fn clear(&self, pool: &str) {
        self.lock().remove(pool);
    }
}

/// Returns `first` multiplied by `factor` for each of the `times` after the first, at most `most`.
fn exponential_delay(first: SignedDuration, most: SignedDuration, factor: i32, times: u32) -> SignedDuration {
    let grown = factor.checked_pow(times.saturating_sub(1)).and_then(|n| first.checked_mul(n));
    grown.unwrap_or(most).min(most)
}

fn saturating_add(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

fn read_failed_offerings(pool: &NodePool) -> BTreeMap<OfferingKey, FailureRecord> {
    let written = pool.metadata.annotations.as_ref().and_then(|all| all.get(LAUNCH_BACKOFFS));
    // An annotation that cannot be parsed counts as empty: back-offs are lost, nothing else.
    let lines: Vec<LaunchBackoffEntry> = written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut all = BTreeMap::new();
    for line in lines {
        let failed = FailureRecord { failures: line.failures, until: line.until };
        for instance_type in line.instance_types {
            let (zone, capacity_type) = (line.zone.clone(), line.capacity_type.clone());
            all.insert(OfferingKey { zone, capacity_type, instance_type }, failed);
        }
    }
    all
}

fn launch_backoffs_annotation(all: &BTreeMap<OfferingKey, FailureRecord>) -> Option<String> {
    let mut lines: Vec<LaunchBackoffEntry> = Vec::new();
    for (offered, failed) in all {
        let is_alike = |line: &&mut LaunchBackoffEntry| {
            line.zone == offered.zone
                && line.capacity_type == offered.capacity_type
                && (line.failures, line.until) == (failed.failures, failed.until)
        };
        match lines.iter_mut().find(is_alike) {
            Some(line) => line.instance_types.push(offered.instance_type.clone()),
            None => lines.push(LaunchBackoffEntry {
                instance_types: vec![offered.instance_type.clone()],
                zone: offered.zone.clone(),
                capacity_type: offered.capacity_type.clone(),
                until: failed.until,
                failures: failed.failures,
            }),
        }
    }
    if lines.is_empty() { None } else { serde_json::to_string(&lines).ok() }
}

/// Returns all offerings in back-off, from the annotations of all NodePools. A failure for one
/// NodePool applies to all.
pub(crate) fn launch_backoffs(cluster: &Cluster, now: Timestamp) -> Vec<LaunchBackoff> {
    let failed = cluster.all::<NodePool>().values().flat_map(|pool| read_failed_offerings(pool));
    failed
        .filter(|(_, failed)| now < failed.until)
        .map(|(offered, failed)| LaunchBackoff {
            instance_type: offered.instance_type,
            zone: offered.zone,
            capacity_type: offered.capacity_type,
            until: failed.until,
        })
        .collect()
}

/// Records on a NodePool from which offerings replacements failed (`failed`) and from which they
/// were launched (`had`).
pub(crate) async fn write_launch_results(
    ctx: &Context,
    pool: &str,
    failed: &[OfferingKey],
    had: &[OfferingKey],
) -> Result<(), Error> {
    let Some(known) = ctx.managed_pool(pool) else { return Ok(()) };
    if failed.is_empty() && read_failed_offerings(&known).is_empty() {
        return Ok(());
    }
    let now = ctx.now();
    let mut before = known.as_ref().clone();
    for _ in 0..2 {
        let mut all = read_failed_offerings(&before);
        all.retain(|_, failed| now < saturating_add(failed.until, OFFERING_FAILURE_RETENTION));
        for offered in had {
            all.remove(offered);
        }
        for offered in failed {
            let known = all.get(offered).map_or(0, |failed| failed.failures);
            let failures = known.saturating_add(1);
            let until =
                saturating_add(now, exponential_delay(OFFERING_BACKOFF_BASE, OFFERING_BACKOFF_MAX, 4, failures));
            if known > 0 || all.len() < FAILED_OFFERINGS_PER_POOL_MAX {
                all.insert(offered.clone(), FailureRecord { failures, until });
            }
        }
        let mut after = before.clone();
        let annotations = after.metadata.annotations.get_or_insert_default();
        match launch_backoffs_annotation(&all) {
            Some(text) => annotations.insert(LAUNCH_BACKOFFS.to_owned(), text),
            None => annotations.remove(LAUNCH_BACKOFFS),
        };
        match actions::pool::update(ctx, MergePatch::OBJECT, &before, &after).await {
            Ok(_) | Err(ApiError::NotFound) => return Ok(()),
            Err(ApiError::Conflict) => {}
            Err(cause) => return Err(Error::Api { doing: "annotating nodepool", cause }),
        }
        before = match actions::pool::read(ctx, pool).await {
            Ok(read) => read,
            Err(ApiError::NotFound) => return Ok(()),
            Err(cause) => return Err(Error::Api { doing: "getting nodepool", cause }),
        };
    }
    Err(Error::Api { doing: "annotating nodepool", cause: ApiError::Conflict })
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
    let wanted: Vec<&Str> = command.replacements.iter().filter_map(expected_instance_type).collect();
    let moves = command.nodes.iter().filter_map(|node| read_replaced(cluster.get::<TrackedClaim>(&node.claim)?));
    moves
        .filter(|made| made.instance_types.iter().any(|known| wanted.contains(&known)))
        .map(|made| {
            saturating_add(
                made.at,
                exponential_delay(REVERSED_MOVE_WAIT_BASE, REVERSED_MOVE_WAIT_MAX, 2, made.reversals.saturating_add(1)),
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
    let wanted = expected_instance_type(planned);
    let undone = command.nodes.iter().filter_map(|node| read_replaced(cluster.get::<TrackedClaim>(&node.claim)?));
    let undone = undone.filter(|made| wanted.is_some_and(|wanted| made.instance_types.contains(wanted)));
    let reversals = undone.map(|made| made.reversals.saturating_add(1)).max().unwrap_or(0);
    let text = serde_json::to_string(&ReplacedAnnotation { node_claims, instance_types, at: now, reversals }).ok()?;
    Some((REPLACED.to_owned(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_remembered_for_longer() {
        let minutes = |times| exponential_delay(OFFERING_BACKOFF_BASE, OFFERING_BACKOFF_MAX, 4, times).as_mins();
        assert_eq!([1, 2, 3, 4, 40].map(minutes), [30, 120, 480, 480, 480]);
    }

    #[test]
    fn what_is_written_down_is_read_again() {
        let offered = |name: &'static str| OfferingKey {
            zone: Str::new_static("z"),
            capacity_type: Str::new_static("spot"),
            instance_type: Str::new_static(name),
        };
        let failed = FailureRecord { failures: 2, until: Timestamp::UNIX_EPOCH };
        let all: BTreeMap<OfferingKey, FailureRecord> = [(offered("a"), failed), (offered("b"), failed)].into();
        let text = launch_backoffs_annotation(&all).unwrap_or_default();
        assert_eq!(
            text,
            r#"[{"instanceTypes":["a","b"],"zone":"z","capacityType":"spot","until":"1970-01-01T00:00:00Z","failures":2}]"#
        );
        let mut pool: NodePool =
            serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}}}}))
            .expect("a NodePool");
        pool.metadata.annotations = Some([(LAUNCH_BACKOFFS.to_owned(), text)].into());
        assert_eq!(read_failed_offerings(&pool), all);
        pool.metadata.annotations = Some([(LAUNCH_BACKOFFS.to_owned(), "{".to_owned())].into());
        assert!(read_failed_offerings(&pool).is_empty());
    }

    // spec 03 §16 item 13
    #[test]
    fn drift_that_fails_backs_off_and_success_resets() {
        let memory = DriftBackoffs::new(1);
        let pool = Str::new_static("p");
        let mut now = Timestamp::UNIX_EPOCH;
        for most in [1, 2, 4, 8, 10, 10] {
            assert!(memory.record_failure(&pool, now));
            assert!(!memory.record_failure(&pool, now), "failures while backed off change nothing");
            let until = memory.backoff_until(&pool, now).unwrap_or_default();
            let wait = until.duration_since(now).as_secs();
            assert!((most * 30..=most * 60).contains(&wait), "{most}: {wait}");
            now = until;
        }
        memory.clear(&pool);
        assert_eq!(memory.backoff_until(&pool, now), None);
    }
}
