//! Queries of capacity reservations on an EC2 in memory.

use serde_json::{Value, json};

use super::*;
use crate::memory::testing::{aws, aws_with};
use crate::memory::{AwsFault, AwsFaultRule, MemoryAws, MemorySettings};

/// ID, owner, match criteria, state, tags.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const RESERVATIONS: [Row; 5] = [
    ("cr-1", "111122223333", "open", "active", &[("team", "a")]),
    ("cr-2", "111122223333", "targeted", "active", &[("team", "b"), ("env", "prod")]),
    ("cr-3", "444455556666", "targeted", "active", &[("team", "a")]),
    ("cr-4", "111122223333", "targeted", "expired", &[("team", "a")]),
    ("cr-5", "111122223333", "open", "pending", &[]),
];

fn add_reservations(aws: &MemoryAws) {
    let reservations = RESERVATIONS.map(|(id, owner, criteria, state, tags)| Ec2CapacityReservation {
        id: id.to_owned(),
        owner_id: owner.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        state: state.to_owned(),
        instance_match_criteria: criteria.to_owned(),
        total_instance_count: 10,
        available_instance_count: 10,
        tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..Ec2CapacityReservation::default()
    });
    aws.change_account(|account| {
        account.capacity_reservations.extend(reservations.map(|own| (own.id.clone(), own)));
    });
}

fn provider(aws: &MemoryAws) -> (CapacityReservations, Arc<ReservationSlots>) {
    let slots = Arc::new(ReservationSlots::new(aws.clock()));
    (CapacityReservations::new(Arc::new(aws.clone()), slots.clone(), aws.clock()), slots)
}

fn terms(terms: Value) -> Vec<CapacityReservationSelectorTerm> {
    serde_json::from_value(terms).unwrap()
}

async fn ids(reservations: &CapacityReservations, selected: Value) -> String {
    let found = reservations.list(&terms(selected)).await.unwrap();
    found.into_iter().map(|own| own.id).collect::<Vec<_>>().join(" ")
}

// spec 06 #16, #19, #20
#[tokio::test(start_paused = true)]
async fn spec_06_19_terms_select_by_id_tags_owner_and_criteria() {
    let cases = [
        (json!([]), ""),
        (json!([{"id": "cr-1"}]), "cr-1"),
        // spec 06 #20
        (json!([{"id": "cr-9"}]), ""),
        // spec 06 #16
        (json!([{"id": "cr-4"}, {"id": "cr-5"}]), ""),
        (json!([{"tags": {"team": "a"}}]), "cr-1 cr-3"),
        (json!([{"tags": {"team": "*", "env": "prod"}}]), "cr-2"),
        (json!([{"tags": {"team": "a"}, "ownerID": "444455556666"}]), "cr-3"),
        (json!([{"instanceMatchCriteria": "open"}]), "cr-1"),
        (json!([{"instanceMatchCriteria": "targeted"}]), "cr-2 cr-3"),
        (json!([{"instanceMatchCriteria": "targeted", "tags": {"team": "a"}, "ownerID": "444455556666"}]), "cr-3"),
        (json!([{"instanceMatchCriteria": "open", "tags": {"team": "b"}}]), ""),
        (json!([{"tags": {"team": "a"}}, {"id": "cr-1"}, {"id": "cr-2"}]), "cr-1 cr-2 cr-3"),
    ];
    for (selected, expected) in cases {
        let aws = aws();
        add_reservations(&aws);
        assert_eq!(ids(&provider(&aws).0, selected.clone()).await, expected, "{selected}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_is_asked_without_page_size_and_once_per_listing() {
    let aws = aws();
    add_reservations(&aws);
    let (reservations, _) = provider(&aws);
    ids(&reservations, json!([{"id": "cr-1"}, {"id": "cr-1"}, {"tags": {"team": "a"}}])).await;
    let requests: Vec<String> = aws.calls().into_iter().map(|call| call.request).collect();
    assert_eq!(requests, ["cr-1 state=active", " state=active tag:team=a max 1000"]);
}

// spec 05 §3, §8.2: the cache and the free slots
#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_a_minute_and_sets_the_free_slots() {
    let aws = aws();
    add_reservations(&aws);
    let (reservations, slots) = provider(&aws);
    for (advance_secs, calls, free) in [(0, 2, 10), (59, 2, 0), (1, 4, 10)] {
        tokio::time::advance(Duration::from_secs(advance_secs)).await;
        assert_eq!(ids(&reservations, json!([{"id": "cr-1"}, {"id": "cr-9"}])).await, "cr-1");
        assert_eq!((aws.calls().len(), slots.free("cr-1")), (calls, free), "a missing ID is cached too");
        slots.mark_full("cr-1");
    }
}

// spec 06 #17
#[tokio::test(start_paused = true)]
async fn spec_06_17_a_reservation_leaves_the_list_when_it_ends() {
    let aws = aws();
    add_reservations(&aws);
    let ends_at = aws.clock().now() + Duration::from_secs(30);
    aws.change_account(|account| account.capacity_reservations.get_mut("cr-1").unwrap().ends_at = Some(ends_at));
    let (reservations, _) = provider(&aws);
    assert_eq!(ids(&reservations, json!([{"id": "cr-1"}])).await, "cr-1");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(ids(&reservations, json!([{"id": "cr-1"}])).await, "");
    assert_eq!(aws.calls().len(), 1, "served from memory");
}

// spec 05 #132
#[tokio::test(start_paused = true)]
async fn spec_05_132_a_failed_id_query_fails_the_listing_and_keeps_the_free_slots() {
    let aws = aws();
    add_reservations(&aws);
    let (reservations, slots) = provider(&aws);
    ids(&reservations, json!([{"id": "cr-1"}, {"id": "cr-2"}])).await;
    slots.record_termination("cr-2");
    tokio::time::advance(QUERY_TTL).await;
    let rule = AwsFaultRule::once("DescribeCapacityReservations", AwsFault::Throttled);
    aws.set_faults(vec![AwsFaultRule { skip: 1, ..rule }]);
    let error = reservations.list(&terms(json!([{"id": "cr-1"}, {"id": "cr-2"}]))).await.unwrap_err();
    assert!(error.is_rate_limited(), "{error}");
    assert_eq!((slots.free("cr-1"), slots.free("cr-2")), (10, 11));
    aws.clear_calls();
    assert_eq!(ids(&reservations, json!([{"id": "cr-1"}, {"id": "cr-2"}])).await, "cr-1 cr-2");
    assert_eq!(aws.calls().len(), 1, "the first answer stayed in memory");
}

// spec 05 #71
#[tokio::test(start_paused = true)]
async fn an_empty_first_page_ends_no_list() {
    let aws = aws_with(MemorySettings { first_page_is_empty: true, ..MemorySettings::default() });
    add_reservations(&aws);
    assert_eq!(ids(&provider(&aws).0, json!([{"tags": {"team": "*"}}])).await, "cr-1 cr-2 cr-3");
}
