//! Launches into capacity reservations and placement groups.

use super::*;
use crate::memory::MemorySettings;
use crate::ports::ec2::{Ec2CapacityReservation, PlacementGroup};

async fn reserved_env(free: i32) -> ProviderEnv {
    let env = ProviderEnv::with(&TYPES, MemorySettings::default(), |_| {}).await;
    let reservation = Ec2CapacityReservation {
        id: "cr-1".into(),
        owner_id: "111122223333".into(),
        instance_type: "m5.large".into(),
        zone: "us-west-2a".into(),
        state: "active".into(),
        instance_match_criteria: "targeted".into(),
        total_instance_count: free,
        available_instance_count: free,
        ..Ec2CapacityReservation::default()
    };
    env.aws.change_account(|account| account.capacity_reservations.insert("cr-1".into(), reservation));
    env.provider.context().reservation_slots.set_free([("cr-1".to_owned(), free)]);
    env.change_class(|class| {
        class["status"]["capacityReservations"] = json!([{
            "id": "cr-1", "availabilityZone": "us-west-2a", "instanceType": "m5.large", "ownerID": "111122223333",
            "instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active",
        }]);
    });
    env
}

fn free(env: &ProviderEnv) -> i32 {
    env.provider.context().reservation_slots.free("cr-1")
}

// spec 05 #63, spec 06 §8: after Create and Delete
#[tokio::test(start_paused = true)]
async fn spec_05_63_a_launch_takes_a_slot_and_the_end_of_the_instance_gives_it_back() {
    let env = reserved_env(10).await;
    let mut claim = claim("a", json!([]));
    let instance = env.provider.create(&claim).await.unwrap();
    assert_eq!(capacity_type(&instance), "reserved");
    assert_eq!(instance.labels[aws::CAPACITY_RESERVATION_ID], "cr-1");
    assert_eq!(env.live_instances()[0].instance.capacity_reservation_id.as_deref(), Some("cr-1"));
    assert_eq!(free(&env), 9);
    claim.metadata.labels.get_or_insert_default().extend(instance.labels.clone());
    env.provider.delete(&instance.provider_id, Some(&claim)).await.unwrap();
    assert_eq!(free(&env), 9, "EC2 still finds the instance");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(env.provider.delete(&instance.provider_id, Some(&claim)).await.is_err());
    assert_eq!(free(&env), 10);
}

// spec 10 #110
#[tokio::test(start_paused = true)]
async fn spec_10_110_no_launch_is_tried_in_a_reservation_without_a_free_slot() {
    let env = reserved_env(0).await;
    let reserved = require(labels::CAPACITY_TYPE, &["reserved"]);
    let types = env.provider.instance_types(&crate::testing::pool("default")).await.unwrap();
    let offering = types.find("m5.large").unwrap().offerings().find(|own| own.is_reserved()).unwrap();
    assert!(offering.is_available() && offering.is_full() && !offering.is_launchable());
    let failed = failure(env.provider.create(&claim("a", json!([reserved]))).await);
    assert!(failed.starts_with("InsufficientCapacity: "), "{failed}");
    assert_eq!(env.fleets.take_requests().len(), 0);
    let instance = env.provider.create(&claim("b", json!([]))).await.unwrap();
    assert_eq!(capacity_type(&instance), "spot");
}

// spec 05 #108, spec 06 §11.3
#[tokio::test(start_paused = true)]
async fn spec_05_108_a_full_reservation_is_marked_and_throttling_marks_nothing() {
    let env = reserved_env(10).await;
    let launch =
        async || env.provider.create(&claim("a", json!([require(labels::CAPACITY_TYPE, &["reserved"])]))).await;
    env.fleets.answer_next(answer(vec![fleet_error("RequestLimitExceeded", "slow down", "m5.large", "us-west-2a")]));
    let failed = failure(launch().await);
    assert!(failed.starts_with("CreateError RequestLimitExceeded"), "{failed}");
    assert_eq!(free(&env), 10);
    env.fleets.answer_next(answer(vec![fleet_error("ReservationCapacityExceeded", "full", "m5.large", "us-west-2a")]));
    let failed = failure(launch().await);
    assert!(failed.starts_with("InsufficientCapacity: "), "{failed}");
    assert_eq!(free(&env), 0);
    assert_eq!(env.provider.context().unavailable.change_number(), 0, "no pool is marked");
}

async fn grouped_env(strategy: &str, partition_count: Option<i32>) -> ProviderEnv {
    let env = ProviderEnv::new().await;
    let group = PlacementGroup {
        id: "pg-1".into(),
        name: "racks".into(),
        state: "available".into(),
        strategy: strategy.into(),
        partition_count,
        ..PlacementGroup::default()
    };
    env.aws.change_account(|account| account.placement_groups.insert("pg-1".into(), group));
    env.change_class(|class| class["spec"]["placementGroupSelector"] = json!({"name": "racks"}));
    env
}

fn is_marked(env: &ProviderEnv, instance_type: &str, scope: crate::unavailable_offerings::PoolScope) -> bool {
    let pool = crate::unavailable_offerings::InstancePool {
        instance_type: instance_type.into(),
        zone: "us-west-2a".into(),
        capacity_type: "on-demand".into(),
        scope,
    };
    env.provider.context().unavailable.is_unavailable(&pool, &[])
}

// spec 05 §9, §15.7, §15.8, #120
#[tokio::test(start_paused = true)]
async fn spec_05_120_a_launch_uses_the_partition_of_the_claim_or_waits_for_that_of_ec2() {
    use crate::unavailable_offerings::PoolScope;
    let env = grouped_env("partition", Some(3)).await;
    let partition = require(aws::PLACEMENT_GROUP_PARTITION, &["3", "2"]);
    let instance = env.provider.create(&claim("a", json!([on_demand(), partition.clone()]))).await.unwrap();
    assert_eq!(instance.labels[aws::PLACEMENT_GROUP_ID], "pg-1");
    assert_eq!(instance.labels[aws::PLACEMENT_GROUP_PARTITION], "2");
    let placement = env.live_instances()[0].template.placement.clone();
    assert_eq!((placement.group_id.as_deref(), placement.partition_number), (Some("pg-1"), Some(2)));
    let free_choice = env.provider.create(&claim("b", json!([on_demand()]))).await.unwrap();
    assert_eq!(free_choice.labels[aws::PLACEMENT_GROUP_PARTITION], "");
    env.fleets.answer_next(answer(vec![ice("m5.large", "us-west-2a")]));
    failure(env.provider.create(&claim("c", json!([on_demand(), partition]))).await);
    assert!(is_marked(&env, "m5.large", PoolScope::Partition { group: "pg-1".into(), partition: 2 }));
    assert!(!is_marked(&env, "m5.large", PoolScope::PlacementGroup("pg-1".into())));
    env.fleets.answer_next(answer(vec![ice("m5.large", "us-west-2a")]));
    failure(env.provider.create(&claim("d", json!([on_demand()]))).await);
    assert!(is_marked(&env, "m5.large", PoolScope::PlacementGroup("pg-1".into())));
    assert!(!is_marked(&env, "m5.large", PoolScope::Unscoped));
}

// spec 05 §15.7
#[tokio::test(start_paused = true)]
async fn a_full_spread_group_marks_all_types_of_the_launch_in_the_zone() {
    use crate::unavailable_offerings::PoolScope;
    let env = grouped_env("spread", None).await;
    let full = "You have reached the limit of instances in this spread placement group";
    env.fleets.answer_next(answer(vec![fleet_error("UnfulfillableCapacity", full, "m5.large", "us-west-2a")]));
    failure(env.provider.create(&claim("a", json!([on_demand()]))).await);
    for name in ["m5.large", "m5.xlarge", "c5.large"] {
        assert!(is_marked(&env, name, PoolScope::PlacementGroup("pg-1".into())), "{name}");
        assert!(!is_marked(&env, name, PoolScope::Unscoped), "{name}");
    }
}
