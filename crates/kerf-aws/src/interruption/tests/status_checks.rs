//! Status checks of instances (spec 06 §10).

use super::*;

const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// Launches an instance that runs, and creates the claim `a-0` for it.
async fn env_with_instance() -> (InterruptionEnv, String) {
    let env = InterruptionEnv::new().await;
    let claim = crate::testing::claim("launched", json!([crate::testing::on_demand()]));
    kerf_cloud::CloudProvider::create(&*env.env.provider, &claim).await.unwrap();
    tokio::time::advance(Duration::from_mins(1)).await;
    let id = env.env.live_instances()[0].instance.id.clone();
    env.add_claims(0..1).await;
    set_provider_id(&env, &id).await;
    (env, id)
}

async fn set_provider_id(env: &InterruptionEnv, id: &str) {
    let patch = kube::api::Patch::Merge(json!({ "status": { "providerID": format!("aws:///us-west-2a/{id}") } }));
    env.claims().patch_status("a-0", &PatchParams::default(), &patch).await.unwrap();
    sync(env).await;
}

/// Puts the claims of the API server into cluster state, as the watch does.
async fn sync(env: &InterruptionEnv) {
    let claims = env.claims().list(&ListParams::default()).await.unwrap().items;
    env.env.cluster.lock().reset(claims.into_iter().map(TrackedClaim::from).collect::<Vec<_>>());
}

fn failed_for(env: &InterruptionEnv, seconds: u64) -> Vec<StatusCheck> {
    let impaired_since = env.env.clock.now().checked_sub(Duration::from_secs(seconds)).ok();
    vec![StatusCheck { name: "reachability".into(), status: "failed".into(), impaired_since }]
}

fn retirement(description: &str) -> Vec<ScheduledEvent> {
    vec![ScheduledEvent { code: "instance-retirement".into(), description: description.into() }]
}

async fn timestamp(env: &InterruptionEnv) -> Option<String> {
    let claim = env.claims().get("a-0").await.unwrap();
    claim.metadata.annotations.unwrap_or_default().get(TERMINATION_TIMESTAMP).cloned()
}

// spec 06 #100
#[tokio::test(start_paused = true)]
async fn a_system_check_that_fails_for_two_minutes_ends_the_drain() {
    let (env, id) = env_with_instance().await;
    let system_checks = failed_for(&env, 119);
    env.env.aws.set_instance_status(InstanceStatus { instance_id: id, system_checks, ..InstanceStatus::default() });
    assert_eq!(env.check().await, Ok(ReconcileAction::RequeueAfter(Duration::from_mins(1))));
    assert_eq!((env.live_claims().await.len(), timestamp(&env).await), (1, None));
    tokio::time::advance(Duration::from_secs(1)).await;
    env.check().await.unwrap();
    let now = jiff::Timestamp::from_second(env.env.clock.now().as_second()).unwrap();
    assert_eq!((env.live_claims().await.len(), timestamp(&env).await), (0, Some(now.to_string())));
    let metrics = env.metrics();
    assert!(metrics.contains("instance_status_unhealthy_total{category=\"SystemStatus\"} 1"), "{metrics}");
    assert!(metrics.contains("disrupted_total{reason=\"system_status\""), "{metrics}");
}

// spec 06 #101, #102
#[tokio::test(start_paused = true)]
async fn a_scheduled_event_drains_and_a_failed_check_ends_that_drain() {
    let (env, id) = env_with_instance().await;
    let event = InstanceStatus { instance_id: id, events: retirement(""), ..InstanceStatus::default() };
    env.env.aws.set_instance_status(event.clone());
    env.check().await.unwrap();
    assert_eq!((env.live_claims().await.len(), timestamp(&env).await), (0, None));
    sync(&env).await;
    env.env.aws.set_instance_status(InstanceStatus { instance_checks: failed_for(&env, 300), ..event });
    env.check().await.unwrap();
    assert!(timestamp(&env).await.is_some());
}

// spec 06 #103
#[tokio::test(start_paused = true)]
async fn an_unhealthy_instance_is_counted_once_until_it_recovers() {
    let (env, id) = env_with_instance().await;
    let unhealthy = InstanceStatus { instance_id: id.clone(), events: retirement("x"), ..InstanceStatus::default() };
    let healthy = InstanceStatus { instance_id: id, ..InstanceStatus::default() };
    let count = || {
        let metrics = env.metrics();
        let line = metrics.lines().find(|line| line.contains("unhealthy_total{category=\"EventStatus\"}"));
        line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned())
    };
    for (status, expected) in
        [(&unhealthy, "1"), (&unhealthy, "1"), (&unhealthy, "1"), (&healthy, "1"), (&unhealthy, "2")]
    {
        env.env.aws.set_instance_status(status.clone());
        env.check().await.unwrap();
        assert_eq!(count().as_deref(), Some(expected));
    }
}

// spec 06 #104
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_deleting_is_not_written_again() {
    let (env, id) = env_with_instance().await;
    let instance_checks = failed_for(&env, 300);
    env.env.aws.set_instance_status(InstanceStatus { instance_id: id, instance_checks, ..InstanceStatus::default() });
    env.check().await.unwrap();
    sync(&env).await;
    let version = env.claims().get("a-0").await.unwrap().metadata.resource_version;
    env.check().await.unwrap();
    assert_eq!(env.claims().get("a-0").await.unwrap().metadata.resource_version, version);
}

// spec 06 #105, #106, #124
#[tokio::test(start_paused = true)]
async fn only_failed_checks_and_events_that_are_not_over_count() {
    let (env, id) = env_with_instance().await;
    let status = InstanceStatus { instance_id: id, ..InstanceStatus::default() };
    let check = |status: &str| vec![StatusCheck { status: status.into(), ..StatusCheck::default() }];
    for harmless in [
        InstanceStatus { ebs_checks: failed_for(&env, 300), events: retirement("[Completed] done"), ..status.clone() },
        InstanceStatus { events: retirement("[Canceled] never mind"), ..status.clone() },
        InstanceStatus { instance_checks: check("initializing"), events: retirement("[Completed]"), ..status.clone() },
        InstanceStatus { system_checks: check("insufficient-data"), ..status.clone() },
    ] {
        env.env.aws.set_instance_status(harmless);
        env.check().await.unwrap();
    }
    assert_eq!((env.live_claims().await.len(), env.env.events.texts().len()), (1, 0));
    env.env.aws.set_instance_status(InstanceStatus { instance_checks: check("failed"), ..status });
    env.check().await.unwrap();
    assert_eq!(env.live_claims().await.len(), 0, "without a time the check has failed for long");
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_tried_again_after_an_hour() {
    let (env, _) = env_with_instance().await;
    let denied = AwsFault::Error { status: 403, code: "UnauthorizedOperation".into(), message: "no".into() };
    env.env.aws.set_faults(vec![AwsFaultRule::always("DescribeInstanceStatus", denied)]);
    assert_eq!(env.check().await, Ok(ReconcileAction::RequeueAfter(Duration::from_hours(1))));
    env.env.aws.set_faults(vec![AwsFaultRule::always("DescribeInstanceStatus", AwsFault::Throttled)]);
    let error = env.check().await.unwrap_err();
    assert!(error.starts_with("describing instance status, operation error EC2: DescribeInstanceStatus"), "{error}");
}
