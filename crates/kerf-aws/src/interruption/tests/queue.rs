//! The interruption queue (spec 06 §9).

use super::*;

// spec 06 #86
#[tokio::test(start_paused = true)]
async fn each_draining_kind_deletes_the_claim_and_the_message() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..5).await;
    let health = json!({
        "version": "0", "source": "aws.health", "detail-type": "AWS Health Event", "time": "2026-01-01T00:00:00Z",
        "detail": {
            "service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [{ "entityValue": "i-4" }],
        },
    });
    let state =
        |number, state: &str| event("EC2 Instance State-change Notification", number, json!({ "state": state }));
    let reservation = "EC2 Capacity Reservation Instance Interruption Warning";
    env.send(&spot_interruption(0));
    env.send(&event(reservation, 1, json!({ "instance-action": "terminate" })));
    env.send(&state(2, "stopped"));
    env.send(&state(3, "terminated"));
    env.send(&health);
    assert_eq!(env.receive().await, Ok(ReconcileAction::RequeueAfter(Duration::from_nanos(1))));
    assert_eq!(env.live_claims().await, [""; 0]);
    assert_eq!(env.env.aws.queued_messages(QUEUE), [""; 0]);
    let metrics = env.metrics();
    let kinds = [
        "spot_interrupted",
        "capacity_reservation_interrupted",
        "instance_stopped",
        "instance_terminated",
        "scheduled_change",
    ];
    for kind in kinds {
        let disrupted = format!(
            "karpenter_nodeclaims_disrupted_total{{reason=\"{kind}\",nodepool=\"default\",capacity_type=\"spot\",\
             consolidation_policy=\"\",termination_mode=\"graceful\"}} 1"
        );
        let received = format!("karpenter_interruption_received_messages_total{{message_type=\"{kind}\"}} 1");
        assert!(metrics.contains(&disrupted) && metrics.contains(&received), "{kind}: {metrics}");
    }
    assert!(metrics.contains("karpenter_interruption_deleted_messages_total 5"), "{metrics}");
    assert!(metrics.contains("karpenter_interruption_message_queue_duration_seconds_count 5"), "{metrics}");
    insta::assert_debug_snapshot!(env.env.events.texts());
}

// spec 06 #87
#[tokio::test(start_paused = true)]
async fn a_rebalance_recommendation_only_publishes_events() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    env.send(&event("EC2 Instance Rebalance Recommendation", 0, json!({})));
    env.receive().await.unwrap();
    assert_eq!(env.live_claims().await, ["a-0"]);
    assert_eq!(env.env.aws.queued_messages(QUEUE), [""; 0]);
    let message = "Normal \"SpotRebalanceRecommendation\" Spot rebalance recommendation was triggered";
    assert_eq!(env.env.events.texts(), [format!("NodeClaim/a-0 {message}"), format!("Node/node-0 {message}")]);
    assert!(!env.metrics().contains("nodeclaims_disrupted_total{"));
}

// spec 06 #88, #89, #91, #96, #123
#[tokio::test(start_paused = true)]
async fn other_messages_are_deleted_without_action() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    let state = |state: &str| event("EC2 Instance State-change Notification", 0, json!({ "state": state }));
    let health = |service: &str, category: &str| {
        let entities = json!([{ "entityValue": "i-0" }]);
        let detail = json!({ "service": service, "eventTypeCategory": category, "affectedEntities": entities });
        json!({ "version": "0", "source": "aws.health", "detail-type": "AWS Health Event", "detail": detail })
    };
    for message in [
        state("pending"),
        state("running"),
        json!({ "field1": "value1" }),
        health("RDS", "scheduledChange"),
        health("EC2", "issue"),
        spot_interruption(17),
    ] {
        env.send(&message);
    }
    env.env.aws.send_message(QUEUE, "no JSON");
    env.receive().await.unwrap();
    assert_eq!((env.live_claims().await, env.env.aws.queued_messages(QUEUE)), (vec!["a-0".to_owned()], vec![]));
    let metrics = env.metrics();
    assert!(metrics.contains("received_messages_total{message_type=\"no_op\"} 5"), "{metrics}");
    assert!(metrics.contains("received_messages_total{message_type=\"spot_interrupted\"} 1"), "{metrics}");
    assert!(metrics.contains("deleted_messages_total 7"), "the message without JSON counts: {metrics}");
    assert_eq!(env.env.events.texts(), [""; 0]);
}

// spec 06 #90: as many messages as one call returns; the rest comes with the next calls
#[tokio::test(start_paused = true)]
async fn many_messages_are_handled_in_several_calls() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..100).await;
    for number in 0..100 {
        env.send(&spot_interruption(number));
    }
    let mut calls = 0;
    while !env.env.aws.queued_messages(QUEUE).is_empty() {
        env.receive().await.unwrap();
        calls += 1;
    }
    assert_eq!((calls, env.live_claims().await.len()), (10, 0));
    let url_calls = env.env.operations().iter().filter(|operation| **operation == "GetQueueUrl").count();
    assert_eq!(url_calls, 1);
}

// spec 06 #92
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_already_deleting_is_counted_once() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    for _ in 0..2 {
        env.send(&spot_interruption(0));
        env.receive().await.unwrap();
    }
    let events = env.env.events.texts();
    assert_eq!(events.iter().filter(|text| text.contains("SpotInterrupted")).count(), 4, "{events:?}");
    assert_eq!(events.iter().filter(|text| text.contains("TerminatingOnInterruption")).count(), 2, "{events:?}");
    assert!(env.metrics().contains("termination_mode=\"graceful\"} 1"));
}

// spec 06 #93
#[tokio::test(start_paused = true)]
async fn the_spot_pool_of_an_interrupted_instance_is_unavailable_for_three_minutes() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    env.send(&spot_interruption(0));
    env.receive().await.unwrap();
    let is_unavailable = |capacity_type: &str, zone: &str| {
        let pool = InstancePool {
            instance_type: "m5.large".to_owned(),
            zone: zone.to_owned(),
            capacity_type: capacity_type.to_owned(),
            scope: PoolScope::Unscoped,
        };
        env.env.provider.context().unavailable.is_unavailable(&pool, &[])
    };
    assert!(is_unavailable("spot", "us-west-2a"));
    assert!(!is_unavailable("on-demand", "us-west-2a") && !is_unavailable("spot", "us-west-2b"));
    tokio::time::advance(Duration::from_mins(3)).await;
    assert!(!is_unavailable("spot", "us-west-2a"));
}

// spec 06 #94
#[tokio::test(start_paused = true)]
async fn the_reservation_of_an_interrupted_instance_has_no_free_slot() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    let labels = json!({ "metadata": { "labels": { "karpenter.k8s.aws/capacity-reservation-id": "cr-1" } } });
    let claim = env.claims().patch("a-0", &PatchParams::default(), &kube::api::Patch::Merge(labels)).await.unwrap();
    env.env.cluster.lock().reset(vec![TrackedClaim::from(claim)]);
    let slots = env.env.provider.context().reservation_slots.clone();
    slots.set_free([("cr-1".to_owned(), 5), ("cr-2".to_owned(), 5)]);
    let warning = "EC2 Capacity Reservation Instance Interruption Warning";
    env.send(&event(warning, 0, json!({ "instance-action": "terminate" })));
    env.receive().await.unwrap();
    assert_eq!((slots.free("cr-1"), slots.free("cr-2")), (0, 5));
}

// spec 06 #95
#[tokio::test(start_paused = true)]
async fn a_message_whose_claim_cannot_be_deleted_appears_again() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..2).await;
    let fault = FaultRule::new(kerf_sandbox::Fault::InternalError, 1_000_000);
    let verbs = vec![kerf_sandbox::Verb::Delete];
    env.env.server.set_faults(vec![FaultRule { verbs, ..fault }], 1);
    env.send(&spot_interruption(0));
    env.env.aws.send_message(QUEUE, "no JSON");
    let error = env.receive().await.unwrap_err();
    assert!(
        error.starts_with("handling interruption message, acting on NodeClaims, deleting NodeClaim a-0"),
        "{error}"
    );
    assert_eq!(env.env.aws.queued_messages(QUEUE).len(), 1, "the other message is deleted");
    env.env.server.set_faults(Vec::new(), 1);
    env.receive().await.unwrap();
    assert_eq!((env.live_claims().await, env.env.aws.queued_messages(QUEUE)), (vec!["a-1".to_owned()], vec![]));
}

// spec 06 #97
#[tokio::test(start_paused = true)]
async fn a_health_event_concerns_all_its_instances() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..4).await;
    let entities: Vec<Value> = ["i-0", "i-2", "i-17", "i-3"].map(|id| json!({ "entityValue": id })).to_vec();
    env.send(&json!({
        "version": "0", "source": "aws.health", "detail-type": "AWS Health Event",
        "detail": { "service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": entities },
    }));
    env.receive().await.unwrap();
    assert_eq!(env.live_claims().await, ["a-1"]);
    let metrics = env.metrics();
    assert!(!metrics.contains("queue_duration_seconds_count"), "the event has no time: {metrics}");
}

// spec 06 #98
#[tokio::test(start_paused = true)]
async fn a_missing_queue_is_an_error_until_it_exists() {
    let env = InterruptionEnv::new().await;
    env.env.aws.change_account(|account| account.queues.clear());
    let error = env.receive().await.unwrap_err();
    assert!(error.starts_with("creating sqs provider, operation error SQS: GetQueueUrl"), "{error}");
    assert!(error.ends_with("QueueDoesNotExist: The specified queue does not exist."), "{error}");
    env.env.aws.change_account(|account| account.queues.insert(QUEUE.to_owned()));
    env.receive().await.unwrap();
    env.env.aws.change_account(|account| account.queues.clear());
    let error = env.queue.reconcile(&Str::new_static("")).await.unwrap_err();
    assert!(error.to_string().starts_with("getting messages from queue, operation error SQS: ReceiveMessage"));
    assert!(error.log_fields().contains(&("aws-error-code".to_owned(), json!("QueueDoesNotExist"))));
}

// spec 06 #99
#[tokio::test(start_paused = true)]
async fn a_claim_without_a_node_is_deleted_too() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    env.env.cluster.lock().reset(Vec::<Node>::new());
    env.send(&spot_interruption(0));
    env.receive().await.unwrap();
    assert_eq!(env.live_claims().await, [""; 0]);
    let events = env.env.events.texts();
    assert!(events.len() == 2 && events.iter().all(|text| text.starts_with("NodeClaim/a-0 ")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_deleted_is_handled_again() {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..1).await;
    env.env.aws.set_faults(vec![AwsFaultRule::once("DeleteMessage", AwsFault::Throttled)]);
    env.send(&spot_interruption(0));
    let error = env.receive().await.unwrap_err();
    assert!(error.starts_with("deleting message from queue, operation error SQS: DeleteMessage"), "{error}");
    env.receive().await.unwrap();
    assert_eq!(env.env.aws.queued_messages(QUEUE), [""; 0]);
    assert!(env.metrics().contains("termination_mode=\"graceful\"} 1"), "the claim is deleted once");
}
