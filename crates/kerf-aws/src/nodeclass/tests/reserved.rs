//! Capacity reservations and placement groups in the status.

use std::time::Duration;

use kerf_operator::ReconcileError as _;
use kerf_runtime::ReconcileAction;
use serde_json::{Value, json};

use super::test_env::NodeClassEnv;
use crate::memory::{AwsFault, AwsFaultRule};
use crate::ports::ec2::{Ec2CapacityReservation, PlacementGroup};

const ONE_MINUTE: ReconcileAction = ReconcileAction::RequeueAfter(Duration::from_mins(1));

fn add_reservation(env: &NodeClassEnv, id: &str, change: impl FnOnce(&mut Ec2CapacityReservation)) {
    let mut reservation = Ec2CapacityReservation {
        id: id.to_owned(),
        owner_id: "111122223333".to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        state: "active".to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        total_instance_count: 10,
        available_instance_count: 10,
        tags: [("team".to_owned(), "a".to_owned())].into(),
        ..Ec2CapacityReservation::default()
    };
    change(&mut reservation);
    env.aws.change_account(|account| account.capacity_reservations.insert(id.to_owned(), reservation));
}

fn set_group(env: &NodeClassEnv, state: &str) {
    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        name: "racks".to_owned(),
        state: state.to_owned(),
        strategy: "cluster".to_owned(),
        ..PlacementGroup::default()
    };
    env.aws.change_account(|account| account.placement_groups.insert(group.id.clone(), group));
}

async fn reservations(env: &NodeClassEnv) -> Value {
    let status = env.class("default").await.status.unwrap();
    json!(status.capacity_reservations)
}

// spec 06 §4.2, #15, #16
#[tokio::test(start_paused = true)]
async fn spec_06_15_selected_reservations_are_in_the_status_sorted_by_id() {
    let env = NodeClassEnv::new().await;
    add_reservation(&env, "cr-2", |_| {});
    add_reservation(&env, "cr-1", |own| own.instance_match_criteria = "open".to_owned());
    add_reservation(&env, "cr-3", |own| own.state = "cancelled".to_owned());
    add_reservation(&env, "cr-4", |own| own.reservation_type = "future".to_owned());
    env.create_class("default", json!({"capacityReservationSelectorTerms": [{"tags": {"team": "a"}}]})).await;
    assert_eq!(env.reconcile("default").await.unwrap(), ONE_MINUTE);
    let entry = |id: &str, criteria: &str| {
        json!({
            "availabilityZone": "us-west-2a", "id": id, "instanceMatchCriteria": criteria, "instanceType": "m5.large",
            "interruptible": false, "ownerID": "111122223333", "reservationType": "default", "state": "active",
        })
    };
    assert_eq!(reservations(&env).await, json!([entry("cr-1", "open"), entry("cr-2", "targeted")]));
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
    assert_eq!(env.context.reservation_slots.free("cr-1"), 10);
    // Nothing is selected any more.
    env.patch_class("default", json!({"spec": {"capacityReservationSelectorTerms": [{"id": "cr-9"}]}})).await;
    assert_eq!(env.reconcile("default").await.unwrap(), ONE_MINUTE);
    assert_eq!(reservations(&env).await, json!(null));
    // spec 06 #20
    assert_eq!(env.condition("default", "CapacityReservationsReady").await, "CapacityReservationsReady=True");
}

// spec 06 §4.2: the next end; #17, #18
#[tokio::test(start_paused = true)]
async fn a_class_is_reconciled_again_when_its_first_reservation_ends() {
    let env = NodeClassEnv::new().await;
    let now = env.aws.clock().now();
    add_reservation(&env, "cr-1", |own| {
        (own.ends_at, own.reservation_type) = (Some(now + Duration::from_secs(20)), "capacity-block".to_owned());
    });
    add_reservation(&env, "cr-2", |_| {});
    env.create_class("default", json!({"capacityReservationSelectorTerms": [{"tags": {"team": "*"}}]})).await;
    let action = env.reconcile("default").await.unwrap();
    assert_eq!(action, ReconcileAction::RequeueAfter(Duration::from_secs(20)));
    assert_eq!(reservations(&env).await[0]["state"], "expiring");
    tokio::time::advance(Duration::from_secs(20)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(reservations(&env).await[0]["id"], "cr-2");
}

#[tokio::test(start_paused = true)]
async fn a_failed_listing_keeps_the_status_and_is_an_error() {
    let env = NodeClassEnv::new().await;
    add_reservation(&env, "cr-1", |_| {});
    env.create_class("default", json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]})).await;
    env.reconcile("default").await.unwrap();
    tokio::time::advance(Duration::from_mins(1)).await;
    env.aws.set_faults(vec![AwsFaultRule::once("DescribeCapacityReservations", AwsFault::Throttled)]);
    let errors = env.reconcile("default").await.unwrap_err();
    let text = errors.to_string();
    assert!(text.starts_with("listing capacity reservations, operation error EC2: "), "{text}");
    assert_eq!(reservations(&env).await[0]["id"], "cr-1");
    assert_eq!(env.condition("default", "CapacityReservationsReady").await, "CapacityReservationsReady=True");
}

// spec 06 #21, #22, #26
#[tokio::test(start_paused = true)]
async fn spec_06_22_a_group_that_is_missing_or_pending_makes_the_class_unready() {
    let env = NodeClassEnv::new().await;
    env.create_class("default", json!({"placementGroupSelector": {"name": "racks"}})).await;
    env.reconcile("default").await.unwrap();
    let not_found = "PlacementGroupReady=False PlacementGroupNotFound: Placement group \"racks\" not found";
    assert_eq!(env.condition("default", "PlacementGroupReady").await, not_found);
    assert!(env.condition("default", "Ready").await.starts_with("Ready=False"));
    set_group(&env, "pending");
    tokio::time::advance(Duration::from_mins(1)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "PlacementGroupReady").await, not_found);
    set_group(&env, "available");
    tokio::time::advance(Duration::from_mins(1)).await;
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "Ready").await, "Ready=True");
    let class = env.class("default").await;
    assert!(env.context.known_groups.get(&class).is_some());
    // spec 06 #26
    env.patch_class("default", json!({"spec": {"placementGroupSelector": null}})).await;
    env.take_operations();
    env.reconcile("default").await.unwrap();
    assert_eq!(env.condition("default", "PlacementGroupReady").await, "PlacementGroupReady=True");
    assert!(env.context.known_groups.get(&env.class("default").await).is_none());
    // spec 06 #21
    assert!(!env.take_operations().contains(&"DescribePlacementGroups"));
}

// spec 06 #23
#[tokio::test(start_paused = true)]
async fn spec_06_23_an_outage_keeps_the_last_group_and_prevents_launches() {
    let env = NodeClassEnv::new().await;
    set_group(&env, "available");
    env.create_class("default", json!({"placementGroupSelector": {"id": "pg-1"}})).await;
    env.reconcile("default").await.unwrap();
    tokio::time::advance(Duration::from_mins(1)).await;
    env.aws.set_faults(vec![AwsFaultRule::always("DescribePlacementGroups", AwsFault::Throttled)]);
    let errors = env.reconcile("default").await.unwrap_err();
    assert!(errors.to_string().starts_with("resolving placement group, operation error EC2: "), "{errors}");
    assert!(errors.log_fields().iter().any(|(key, value)| key == "placement-group" && value == "pg-1"));
    let failed = "PlacementGroupReady=False PlacementGroupResolutionFailed: Failed to resolve placement group";
    assert_eq!(env.condition("default", "PlacementGroupReady").await, failed);
    assert!(env.condition("default", "Ready").await.starts_with("Ready=False"));
    let class = env.class("default").await;
    let types = env.context.instance_types_of(&class).await.unwrap();
    let label = types.find("m5.large").unwrap().requirements.get("karpenter.k8s.aws/placement-group-id").cloned();
    assert!(label.is_some_and(|label| label.has("pg-1")), "instance types still have the group");
}
