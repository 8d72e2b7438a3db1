//! How long offerings stay unavailable, and which ones a mark concerns (spec 05 §5.4).

use tokio::time::advance;

use super::*;

fn pool(capacity_type: &str, instance_type: &str, zone: &str) -> InstancePool {
    InstancePool {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: capacity_type.into(),
        scope: PoolScope::Unscoped,
    }
}

fn set() -> UnavailableOfferings {
    UnavailableOfferings::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()))
}

// spec 05 #46, #52, #127
#[tokio::test(start_paused = true)]
async fn a_mark_counts_for_three_minutes_from_its_last_repetition() {
    let offerings = set();
    let spot = pool("spot", "m5.large", "a");
    offerings.mark_pool(spot.clone());
    offerings.mark_capacity_type("on-demand");
    assert!(offerings.is_unavailable(&spot, &[]));
    assert!(!offerings.is_unavailable(&pool("spot", "m5.large", "b"), &[]));
    assert!(offerings.is_unavailable(&pool("on-demand", "m5.large", "b"), &[]));
    advance(Duration::from_mins(2)).await;
    offerings.mark_pool(spot.clone());
    advance(Duration::from_secs(61)).await;
    assert!(offerings.is_unavailable(&spot, &[]));
    assert!(!offerings.is_unavailable(&pool("on-demand", "m5.large", "b"), &[]));
    advance(Duration::from_mins(2)).await;
    assert!(!offerings.is_unavailable(&spot, &[]));
    offerings.mark_pool(spot.clone());
    offerings.unmark_pool(&spot);
    assert!(!offerings.is_unavailable(&spot, &[]));
}

// spec 05 #47
#[tokio::test(start_paused = true)]
async fn a_zone_is_unavailable_if_all_its_subnets_are_marked() {
    let offerings = set();
    let subnets = ["s1".to_owned(), "s2".to_owned()];
    offerings.mark_subnet("s1");
    assert!(!offerings.is_unavailable(&pool("spot", "m5.large", "a"), &subnets));
    offerings.mark_subnet("s2");
    assert!(offerings.is_unavailable(&pool("spot", "m5.large", "a"), &subnets));
    assert!(!offerings.is_unavailable(&pool("spot", "m5.large", "a"), &[]));
}

// spec 05 #48, #49
#[tokio::test(start_paused = true)]
async fn a_scoped_mark_does_not_count_for_another_scope() {
    let offerings = set();
    let group = InstancePool { scope: PoolScope::PlacementGroup("pg-1".into()), ..pool("spot", "m5.large", "a") };
    let partition = |number| InstancePool {
        scope: PoolScope::Partition { group: "pg-1".into(), partition: number },
        ..pool("spot", "m5.large", "a")
    };
    offerings.mark_pool(group.clone());
    offerings.mark_pool(partition(2));
    assert!(offerings.is_unavailable(&group, &[]) && offerings.is_unavailable(&partition(2), &[]));
    assert!(!offerings.is_unavailable(&pool("spot", "m5.large", "a"), &[]));
    assert!(!offerings.is_unavailable(&partition(1), &[]));
    let text = [pool("spot", "m5.large", "a"), group, partition(2)].map(|pool| pool.to_string());
    assert_eq!(text, ["spot:m5.large:a", "spot:m5.large:a:pg-1", "spot:m5.large:a:pg-1:2"]);
}

// spec 05 §5.4: every mark, removal and expired mark counts once, for its own type only
#[tokio::test(start_paused = true)]
async fn sequence_numbers_count_the_changes_of_a_type() {
    let offerings = set();
    let numbers = || (offerings.sequence_number("m5.large"), offerings.sequence_number("m5.xlarge"));
    assert_eq!(numbers(), (0, 0));
    offerings.mark_pool(pool("spot", "m5.large", "a"));
    offerings.mark_pool(pool("spot", "m5.large", "a"));
    assert_eq!(numbers(), (2, 0));
    offerings.mark_subnet("s1");
    offerings.mark_capacity_type("spot");
    assert_eq!(numbers(), (4, 2));
    let before = offerings.change_number();
    advance(Duration::from_secs(179)).await;
    assert_eq!(numbers(), (4, 2));
    advance(Duration::from_secs(11)).await;
    assert_eq!(numbers(), (7, 4), "the sweep counts one pool, one subnet and one capacity type");
    assert_eq!(offerings.change_number(), before + 3);
}
