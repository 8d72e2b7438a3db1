//! Registration outcomes of a pool's latest nodes, and the condition `NodeRegistrationHealthy` that
//! follows from them (spec 01 §3.5, spec 04 §5.7 and §8.4).
//!
//! The history is kept in memory by the pool's UID, so a pool that is re-created with the same name
//! starts with an empty history. It holds four outcomes; health is computed from these only.

use std::collections::VecDeque;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::conditions::{Condition, ConditionStatus};

/// Type of the NodePool condition that reports registration health. `Ready` does not depend on it.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// Number of outcomes in a history.
const HISTORY_LENGTH_MAX: usize = 4;
/// Number of failures in the history that make a pool unhealthy: half of its length.
const UNHEALTHY_FAILURES_MIN: usize = HISTORY_LENGTH_MAX / 2;

/// Result of one launched instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// The node registered.
    Registered,
    /// Launch or registration timed out.
    Failed,
}

/// Health of a pool, computed from its latest registration outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolRegistrationHealth {
    /// The history is empty.
    Unknown,
    /// Nodes register, with at most one failure in the history.
    Healthy,
    /// Nodes do not register.
    Unhealthy,
}

/// Latest outcomes of one pool, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrationHistory(VecDeque<RegistrationOutcome>);

impl RegistrationHistory {
    /// Restores the history of a pool after a restart, as far as its condition shows.
    pub fn from_condition(condition: Option<&Condition>) -> Self {
        let outcomes: &[RegistrationOutcome] = match condition.map(|condition| &condition.status) {
            Some(ConditionStatus::True) => &[RegistrationOutcome::Registered],
            Some(ConditionStatus::False) => &[RegistrationOutcome::Failed; UNHEALTHY_FAILURES_MIN],
            Some(ConditionStatus::Unknown | ConditionStatus::Unsupported(_)) | None => &[],
        };
        Self(outcomes.iter().copied().collect())
    }

    /// Returns the health that follows from the history.
    pub fn health(&self) -> PoolRegistrationHealth {
        let failures = self.0.iter().filter(|outcome| **outcome == RegistrationOutcome::Failed).count();
        match (self.0.is_empty(), failures >= UNHEALTHY_FAILURES_MIN) {
            (true, _) => PoolRegistrationHealth::Unknown,
            (false, true) => PoolRegistrationHealth::Unhealthy,
            (false, false) => PoolRegistrationHealth::Healthy,
        }
    }

    /// Returns the health after one more outcome, without recording it. An outcome is recorded only
    /// after its consequences have been written to the API server.
    pub fn health_after(&self, outcome: RegistrationOutcome) -> PoolRegistrationHealth {
        let mut history = self.clone();
        history.record(outcome);
        history.health()
    }

    /// Adds an outcome. If there are more than four, the oldest is removed.
    pub fn record(&mut self, outcome: RegistrationOutcome) {
        self.0.push_back(outcome);
        if self.0.len() > HISTORY_LENGTH_MAX {
            self.0.pop_front();
        }
    }

    /// Removes all outcomes. Called when the pool or node class has changed, because the outcomes
    /// belong to the old configuration.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns true if a pool's condition was never set, or if the pool or its class has changed since.
/// The condition then becomes Unknown and the history is cleared.
pub fn is_outdated(
    condition: Option<&Condition>,
    pool_generation: i64,
    observed_class_generation: Option<i64>,
    class_generation: i64,
) -> bool {
    condition.is_none_or(|condition| condition.observed_generation != Some(pool_generation))
        || observed_class_generation != Some(class_generation)
}

/// Returns true if the claim is owned by the pool with this UID. A pool with the same name but
/// another UID does not count.
pub fn is_owned_by_pool(claim: &ObjectMeta, pool_uid: &str) -> bool {
    claim.owner_references.iter().flatten().any(|owner| owner.kind == "NodePool" && owner.uid == pool_uid)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;
    use crate::conditions::{ConditionSet, ObjectFacts, READY, dependents};
    use RegistrationOutcome::{Failed, Registered};

    fn history(outcomes: &[RegistrationOutcome]) -> RegistrationHistory {
        let mut history = RegistrationHistory::default();
        for outcome in outcomes {
            history.record(*outcome);
        }
        history
    }

    // spec 01 #76
    #[test]
    fn two_failures_of_four_make_a_pool_unhealthy() {
        assert_eq!(history(&[]).health(), PoolRegistrationHealth::Unknown);
        assert_eq!(history(&[Registered]).health(), PoolRegistrationHealth::Healthy);
        assert_eq!(
            history(&[Failed]).health(),
            PoolRegistrationHealth::Healthy,
            "one failure does not make a pool unhealthy"
        );
        assert_eq!(history(&[Failed]).health_after(Failed), PoolRegistrationHealth::Unhealthy);
        assert_eq!(history(&[Failed, Registered, Registered, Failed]).health(), PoolRegistrationHealth::Unhealthy);
        assert_eq!(
            history(&[Failed, Registered, Registered, Registered, Failed]).health(),
            PoolRegistrationHealth::Healthy,
            "only the last four registrations count"
        );
        assert_eq!(
            history(&[Failed, Failed, Registered, Registered]).health_after(Registered),
            PoolRegistrationHealth::Healthy
        );
    }

    // spec 01 #76: the condition does not affect `Ready`.
    #[test]
    fn registration_health_does_not_affect_readiness() {
        let now = Timestamp::from_second(1).unwrap();
        let object = ObjectFacts { generation: 1, created: now, is_deleting: false };
        let mut set = ConditionSet::open(dependents::NODEPOOL, object, vec![]);
        for name in dependents::NODEPOOL {
            assert!(set.set_true(name, now));
        }
        set.set_false(NODE_REGISTRATION_HEALTHY, "RegistrationFailed", "Failed to register node", now);
        assert!(set.is_true(READY));
    }

    fn condition(status: ConditionStatus) -> Condition {
        let now = Timestamp::from_second(1).unwrap();
        let object = ObjectFacts { generation: 3, created: now, is_deleting: false };
        let mut set = ConditionSet::open(dependents::NODEPOOL, object, vec![]);
        match status {
            ConditionStatus::True => set.set_true(NODE_REGISTRATION_HEALTHY, now),
            ConditionStatus::False => set.set_false(NODE_REGISTRATION_HEALTHY, "x", "", now),
            _ => set.set_unknown(NODE_REGISTRATION_HEALTHY, "x", "", now),
        };
        set.get(NODE_REGISTRATION_HEALTHY).unwrap().clone()
    }

    // spec 01 §3.5: after a restart
    #[test]
    fn a_restart_restores_the_history_from_the_condition() {
        assert_eq!(
            RegistrationHistory::from_condition(Some(&condition(ConditionStatus::True))),
            history(&[Registered])
        );
        assert_eq!(
            RegistrationHistory::from_condition(Some(&condition(ConditionStatus::False))),
            history(&[Failed, Failed])
        );
        assert_eq!(RegistrationHistory::from_condition(Some(&condition(ConditionStatus::Unknown))), history(&[]));
        assert_eq!(RegistrationHistory::from_condition(None), history(&[]));
    }

    // spec 01 #77
    #[test]
    fn a_new_generation_of_pool_or_class_makes_the_condition_outdated() {
        let stored = condition(ConditionStatus::True);
        assert!(!is_outdated(Some(&stored), 3, Some(7), 7));
        assert!(is_outdated(Some(&stored), 4, Some(7), 7));
        assert!(is_outdated(Some(&stored), 3, Some(7), 8));
        assert!(is_outdated(Some(&stored), 3, None, 7));
        assert!(is_outdated(None, 3, Some(7), 7));
        let mut history = history(&[Failed, Failed]);
        history.clear();
        assert_eq!(history.health(), PoolRegistrationHealth::Unknown);
    }

    // spec 01 #78
    #[test]
    fn a_claim_counts_for_the_pool_that_owns_it() {
        let owner = OwnerReference { kind: "NodePool".into(), name: "a".into(), uid: "1".into(), ..Default::default() };
        let claim = ObjectMeta { owner_references: Some(vec![owner.clone()]), ..Default::default() };
        assert!(is_owned_by_pool(&claim, "1"));
        assert!(!is_owned_by_pool(&claim, "2"), "a new pool with the same name has another UID");
        let other = OwnerReference { kind: "Node".into(), ..owner };
        assert!(!is_owned_by_pool(&ObjectMeta { owner_references: Some(vec![other]), ..Default::default() }, "1"));
        assert!(!is_owned_by_pool(&ObjectMeta::default(), "1"));
    }
}
