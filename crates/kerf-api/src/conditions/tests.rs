//! Tests of the rules of spec 01 §8 (equal to spec 04 §1.5), by number.

use proptest::prelude::*;

use super::*;

const CREATED: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn object(generation: i64) -> ObjectFacts {
    ObjectFacts { generation, created: at(CREATED), is_deleting: false }
}

fn open(generation: i64, conditions: Vec<Condition>) -> ConditionSet {
    ConditionSet::open(dependents::NODECLAIM, object(generation), conditions)
}

/// Returns `Type=Status(reason)@seconds/generation` of each condition, in stored order.
fn describe_conditions(set: &ConditionSet) -> Vec<String> {
    set.conditions()
        .iter()
        .map(|c| {
            let generation = c.observed_generation.unwrap();
            let second = c.last_transition_time.0.as_second();
            format!("{}={}({})@{second}/{generation}", c.condition_type, c.status, c.reason)
        })
        .collect()
}

fn all_true(generation: i64) -> ConditionSet {
    let mut set = open(generation, vec![]);
    for (name, second) in [("Launched", 1_010), ("Registered", 1_020), ("Initialized", 1_030)] {
        assert!(set.set_true(name, at(second)));
    }
    set
}

// spec 01 §8 rule 1
#[test]
fn opening_adds_missing_conditions_as_unknown_since_creation() {
    let set = open(3, vec![]);
    assert_eq!(
        describe_conditions(&set),
        [
            "Launched=Unknown(AwaitingReconciliation)@1000/3",
            "Registered=Unknown(AwaitingReconciliation)@1000/3",
            "Initialized=Unknown(AwaitingReconciliation)@1000/3",
            "Ready=Unknown(ReconcilingDependents)@1000/3",
        ]
    );
    assert_eq!(set.get("Launched").unwrap().message, "object is awaiting reconciliation");
    assert_eq!(set.get(READY).unwrap().message, "Launched=Unknown, Registered=Unknown, Initialized=Unknown");

    let root_only = ConditionSet::open(dependents::KWOKNODECLASS, object(1), vec![]);
    assert_eq!(describe_conditions(&root_only), ["Ready=Unknown(AwaitingReconciliation)@1000/1"]);
}

// spec 01 §8 rule 1: existing conditions do not change.
#[test]
fn opening_changes_no_existing_condition() {
    let set = all_true(1);
    assert_eq!(open(1, set.conditions().to_vec()), set);
}

// spec 01 §8 rule 2
#[test]
fn the_transition_time_follows_the_status_and_the_generation_follows_the_object() {
    let mut set = open(1, vec![]);
    assert!(set.set_unknown("Launched", "LaunchFailed", "no capacity", at(1_005)));
    assert_eq!(set.get("Launched").unwrap().last_transition_time.0, at(CREATED));
    assert!(set.set_true("Launched", at(1_010)));
    assert_eq!(set.get("Launched").unwrap().last_transition_time.0, at(1_010));
    assert!(set.set_true("Drifted", at(1_020)), "a new independent condition starts now");
    assert_eq!(set.get("Drifted").unwrap().last_transition_time.0, at(1_020));

    let mut set = open(2, set.into_conditions());
    assert!(set.set_true("Launched", at(1_030)), "the generation has changed");
    let launched = set.get("Launched").unwrap();
    assert_eq!((launched.last_transition_time.0, launched.observed_generation), (at(1_010), Some(2)));
}

// spec 01 §8 rule 2, spec 04 §1.5 rule 3
#[test]
fn setting_an_equal_condition_changes_nothing() {
    let mut set = all_true(1);
    let before = set.clone();
    assert!(!set.set_true("Launched", at(9_999)));
    assert_eq!(set, before);
    assert!(set.set_true_with_reason("Launched", "Other", "", at(9_999)), "a new reason is a change");
    assert_eq!(set.get("Launched").unwrap().last_transition_time.0, at(1_010));
}

// spec 01 §8 rule 3
#[test]
fn true_without_a_reason_uses_the_type_as_reason() {
    let mut set = open(1, vec![]);
    set.set_true("Drifted", at(1_001));
    let drifted = set.get("Drifted").unwrap();
    assert_eq!((drifted.reason.as_str(), drifted.message.as_str()), ("Drifted", ""));
}

// spec 01 §8 rule 4, spec 01 #60
#[test]
fn deletion_does_not_turn_the_root_unknown() {
    let stored = all_true(1).into_conditions();
    let deleting = ObjectFacts { generation: 2, created: at(CREATED), is_deleting: true };
    let mut set = ConditionSet::open(dependents::NODECLAIM, deleting, stored.clone());
    assert!(set.set_true("InstanceTerminating", at(1_040)));
    assert!(set.is_true(READY));
    assert!(set.conditions().iter().all(|condition| condition.observed_generation == Some(2)));
    assert!(!set.set_true("InstanceTerminating", at(1_050)));

    let mut not_deleting = open(2, stored);
    not_deleting.set_true("InstanceTerminating", at(1_040));
    assert_eq!(not_deleting.status(READY), ConditionStatus::Unknown, "without a deletion the dependents are stale");
}

// spec 01 §8 rule 5
#[test]
fn the_root_follows_from_the_dependents() {
    let mut set = all_true(1);
    assert_eq!(describe_conditions(&set)[3], "Ready=True(Ready)@1030/1");
    assert_eq!(set.get(READY).unwrap().message, "");

    set.set_unknown("Initialized", "NodeNotReady", "", at(1_040));
    assert_eq!(set.get(READY).unwrap().reason, RECONCILING_DEPENDENTS);
    set.set_false("Registered", "MultipleNodesFound", "", at(1_050));
    let root = set.get(READY).unwrap();
    assert_eq!((root.status.clone(), root.reason.as_str()), (ConditionStatus::False, UNHEALTHY_DEPENDENTS));
    assert_eq!(root.message, "Registered=False, Initialized=Unknown", "newest transition first");
}

// spec 01 §8 rule 5: only a False of the current generation makes the root False, and a stale True
// is unhealthy.
#[test]
fn a_stale_false_leaves_the_root_unknown() {
    let mut set = all_true(1);
    set.set_false("Registered", "MultipleNodesFound", "", at(1_050));
    let mut set = open(2, set.into_conditions());
    set.set_true("Launched", at(1_060));
    let root = set.get(READY).unwrap();
    assert_eq!(root.status, ConditionStatus::Unknown);
    assert_eq!(root.message, "Registered=False, Initialized=True");
}

// spec 01 §8 rule 5: an independent condition causes the root to be recomputed but does not affect
// the result.
#[test]
fn independent_conditions_do_not_affect_the_root() {
    let mut set = all_true(1);
    set.set_false("ConsistentStateFound", "ConsistencyCheckFailed", "", at(1_050));
    assert!(set.is_true(READY));
}

// spec 01 #59
#[test]
fn after_a_generation_bump_rewriting_all_dependents_makes_the_root_current_again() {
    let mut set = open(2, all_true(1).into_conditions());
    for name in dependents::NODECLAIM {
        assert!(set.set_true(name, at(2_000)));
    }
    assert_eq!(
        describe_conditions(&set),
        [
            "Launched=True(Launched)@1010/2",
            "Registered=True(Registered)@1020/2",
            "Initialized=True(Initialized)@1030/2",
            "Ready=True(Ready)@2000/2",
        ]
    );
}

// spec 01 §8 rule 6
#[test]
fn conditions_are_kept_oldest_first_and_the_root_last_and_by_name_after_a_removal() {
    let mut set = all_true(1);
    set.set_true("Consolidatable", at(1_005));
    assert_eq!(names(&set), ["Consolidatable", "Launched", "Registered", "Initialized", "Ready"]);
    set.set_unknown("Launched", "x", "", at(1_100));
    assert_eq!(names(&set), ["Consolidatable", "Registered", "Initialized", "Launched", "Ready"]);
    assert_eq!(set.clear("Consolidatable"), Ok(true));
    assert_eq!(names(&set), ["Initialized", "Launched", "Ready", "Registered"]);
}

fn names(set: &ConditionSet) -> Vec<&str> {
    set.conditions().iter().map(|condition| condition.condition_type.as_str()).collect()
}

// spec 01 §8 rule 7
#[test]
fn only_independent_conditions_can_be_removed() {
    let mut set = all_true(1);
    assert_eq!(set.clear("Drifted"), Ok(false));
    for name in [READY, "Launched"] {
        assert_eq!(set.clear(name).unwrap_err().to_string(), format!("condition {name} cannot be cleared"));
    }
    assert!(set.is_true(READY));
}

// spec 04 §1.5 rule 9
#[test]
fn a_missing_condition_is_neither_true_nor_false() {
    let set = open(1, vec![]);
    assert!(!set.is_true("Drifted") && !set.is_false("Drifted"));
    assert_eq!(set.status("Drifted"), ConditionStatus::Unknown);
}

// spec 01 §2.6: messages that are too long are truncated at a character boundary.
#[test]
fn long_messages_are_truncated() {
    let mut set = open(1, vec![]);
    set.set_false("Registered", "x", &"é".repeat(40_000), at(1_001));
    assert_eq!(set.get("Registered").unwrap().message.chars().count(), 32_768);
}

#[test]
fn times_are_kept_in_whole_seconds_as_in_json() {
    let mut set = open(1, vec![]);
    set.set_true("Drifted", Timestamp::from_millisecond(1_001_900).unwrap());
    let json = serde_json::to_value(set.get("Drifted").unwrap()).unwrap();
    assert_eq!(json["lastTransitionTime"], "1970-01-01T00:16:41Z");
    assert_eq!(serde_json::from_value::<Condition>(json).unwrap(), *set.get("Drifted").unwrap());
}

#[test]
fn object_facts_are_read_from_the_metadata() {
    let metadata = ObjectMeta { generation: Some(4), deletion_timestamp: Some(Time(at(5))), ..Default::default() };
    let facts = ObjectFacts::of(&metadata);
    assert_eq!(facts, ObjectFacts { generation: 4, created: at(0), is_deleting: true });
}

/// Change that a controller may make to the conditions of an object.
#[derive(Debug, Clone)]
enum ConditionStep {
    Set(&'static str, ConditionStatus, &'static str),
    Clear(&'static str),
    Reopen { is_generation_new: bool, is_deleting: bool },
}

fn any_step() -> impl Strategy<Value = ConditionStep> {
    let names = || proptest::sample::select(vec!["Launched", "Registered", "Initialized", "Drifted", "Drained", READY]);
    let statuses =
        proptest::sample::select(vec![ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown]);
    let reasons = proptest::sample::select(vec!["A", "B"]);
    prop_oneof![
        6 => (names(), statuses, reasons).prop_map(|(name, status, reason)| ConditionStep::Set(name, status, reason)),
        1 => names().prop_map(ConditionStep::Clear),
        1 => any::<(bool, bool)>().prop_map(|(is_generation_new, is_deleting)| ConditionStep::Reopen { is_generation_new, is_deleting }),
    ]
}

proptest! {
    // spec 01 §8: for every sequence of changes the list satisfies its invariants, and repeating a
    // change has no effect.
    #[test]
    fn every_sequence_of_changes_keeps_the_invariants(steps in proptest::collection::vec(any_step(), 1..40)) {
        let mut set = open(1, vec![]);
        let mut now = CREATED;
        for step in steps {
            now += 1;
            match step {
                ConditionStep::Set(name, status, reason) => {
                    let before = set.clone();
                    let is_modified = set.set(name, status.clone(), reason, "", at(now));
                    prop_assert_eq!(is_modified, set != before, "the result states whether the set has changed");
                    prop_assert!(!set.set(name, status, reason, "", at(now + 1_000)), "a repetition changes nothing");
                    let is_sorted = set.conditions().is_sorted_by_key(|c| (c.condition_type == READY, c.last_transition_time.0));
                    prop_assert!(is_sorted || !is_modified);
                }
                ConditionStep::Clear(name) => {
                    let was_present = set.get(name).is_some();
                    match set.clear(name) {
                        Ok(is_modified) => prop_assert_eq!(is_modified, was_present),
                        Err(_) => prop_assert!(name == READY || dependents::NODECLAIM.contains(&name)),
                    }
                }
                ConditionStep::Reopen { is_generation_new, is_deleting } => {
                    let generation = set.object.generation + i64::from(is_generation_new);
                    let object = ObjectFacts { generation, created: at(CREATED), is_deleting };
                    let stored = serde_json::to_value(set.conditions()).unwrap();
                    let decoded: Vec<Condition> = serde_json::from_value(stored).unwrap();
                    prop_assert_eq!(&decoded[..], set.conditions(), "the JSON form keeps all conditions");
                    set = ConditionSet::open(dependents::NODECLAIM, object, decoded);
                }
            }
            for name in dependents::NODECLAIM.iter().chain([&READY]) {
                prop_assert_eq!(set.conditions().iter().filter(|c| c.condition_type == **name).count(), 1);
            }
        }
    }
}
