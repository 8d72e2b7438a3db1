//! Zonal shifts through the facade and the controller, on an EC2 in memory.

use kerf_cloud::{CloudProvider as _, InstanceError};
use serde_json::json;

use super::*;
use crate::memory::{AwsFault, AwsFaultRule, MemorySettings};
use crate::ports::ZonalShiftRecord;
use crate::testing::{ProviderEnv, TYPES, claim, on_demand, require};

const ARN: &str = "arn:aws:eks:us-west-2:111122223333:cluster/demo";

/// Returns a provider whose cluster is enabled for zonal shift.
async fn shifting_env() -> ProviderEnv {
    ProviderEnv::with_account(
        &TYPES,
        MemorySettings::default(),
        |account| {
            account.zonal_shifts.insert(ARN.to_owned(), Vec::new());
        },
        |settings| settings.enable_zonal_shift = true,
    )
    .await
}

fn set_shifts(env: &ProviderEnv, zone_ids: &[&str]) {
    let shifts = zone_ids.iter().map(|zone_id| ZonalShiftRecord {
        away_from: (*zone_id).to_owned(),
        applied_status: "APPLIED".to_owned(),
        expires_at: Some(env.clock.now() + Duration::from_hours(1)),
        ..ZonalShiftRecord::default()
    });
    let shifts = shifts.collect();
    env.aws.change_account(|account| account.zonal_shifts.insert(ARN.to_owned(), shifts));
}

async fn reconcile(controller: &ZonalShiftRefresh) -> Result<ReconcileAction, ZonalShiftError> {
    controller.reconcile(&Str::default()).await
}

// spec 06 #115
#[tokio::test(start_paused = true)]
async fn spec_06_115_a_shift_is_published_once_on_each_pool_and_once_when_it_is_cleared() {
    let env = shifting_env().await;
    env.set_pools(&["a", "b"]);
    let controller = ZonalShiftRefresh::new(env.provider.context().clone());
    set_shifts(&env, &["usw2-az1"]);
    for _ in 0..2 {
        assert_eq!(reconcile(&controller).await.unwrap(), ReconcileAction::RequeueAfter(REFRESH_INTERVAL));
    }
    let text = "Zonal shift detected: offerings in zone us-west-2a (usw2-az1) are unavailable for this NodePool";
    let shifted = ["a", "b"].map(|pool| format!("NodePool/{pool} Warning \"ZonalShiftActive\" {text}"));
    assert_eq!(env.events.texts(), shifted);
    set_shifts(&env, &[]);
    reconcile(&controller).await.unwrap();
    let text = "Zonal shift cleared: offerings in zone us-west-2a (usw2-az1) are restored for this NodePool";
    let cleared = ["a", "b"].map(|pool| format!("NodePool/{pool} Normal \"ZonalShiftCleared\" {text}"));
    assert_eq!(env.events.texts()[2..], cleared);
}

// spec 06 #129: the part of a zonal shift
#[tokio::test(start_paused = true)]
async fn spec_06_129_shifts_of_two_zones_are_two_events_of_one_pool() {
    let env = shifting_env().await;
    let controller = ZonalShiftRefresh::new(env.provider.context().clone());
    set_shifts(&env, &["usw2-az1", "usw2-az2"]);
    reconcile(&controller).await.unwrap();
    let values = env.events.dedupe_values();
    assert_eq!(values, [["uid-default", "usw2-az1"], ["uid-default", "usw2-az2"]]);
}

// spec 06 #116
#[tokio::test(start_paused = true)]
async fn spec_06_116_a_pool_that_cannot_use_the_zone_gets_no_event() {
    let env = shifting_env().await;
    let controller = ZonalShiftRefresh::new(env.provider.context().clone());
    env.set_pool_requirements("default", json!([require("topology.kubernetes.io/zone", &["us-west-2b"])]));
    set_shifts(&env, &["usw2-az1"]);
    reconcile(&controller).await.unwrap();
    env.set_pool_requirements("default", json!([require("topology.k8s.aws/zone-id", &["usw2-az1"])]));
    set_shifts(&env, &["usw2-az1", "usw2-az2"]);
    reconcile(&controller).await.unwrap();
    env.set_pools(&["default"]);
    set_shifts(&env, &["usw2-az1", "usw2-az2", "usw2-az4"]);
    reconcile(&controller).await.unwrap();
    // A class that does not exist is skipped.
    env.remove_classes();
    set_shifts(&env, &[]);
    reconcile(&controller).await.unwrap();
    assert_eq!(env.events.texts(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_is_an_error_and_changes_nothing() {
    let env = shifting_env().await;
    let controller = ZonalShiftRefresh::new(env.provider.context().clone());
    set_shifts(&env, &["usw2-az1"]);
    env.aws.set_faults(vec![AwsFaultRule::once("GetManagedResource", AwsFault::Throttled)]);
    let error = reconcile(&controller).await.unwrap_err();
    assert!(error.to_string().starts_with("updating zonal shifts, operation error ARC Zonal Shift"), "{error}");
    assert_eq!(env.events.texts(), [] as [String; 0]);
    reconcile(&controller).await.unwrap();
    assert_eq!(env.events.texts().len(), 1);
}

// spec 05 #59, spec 06 §15: the first query reads the shifts
#[tokio::test(start_paused = true)]
async fn spec_05_59_no_offering_of_a_shifted_zone_is_available_until_the_shift_ends() {
    let env = shifting_env().await;
    set_shifts(&env, &["usw2-az1"]);
    let pool = crate::testing::pool("default");
    let available_in_a = async || {
        let types = env.provider.instance_types(&pool).await.unwrap();
        let offerings = types.iter().flat_map(|own| own.offerings().collect::<Vec<_>>());
        offerings
            .filter(|offering| offering.is_available())
            .filter(|offering| offering.requirements.get(labels::ZONE).unwrap().has("us-west-2a"))
            .count()
    };
    assert_eq!(available_in_a().await, 0);
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(available_in_a().await, 8);
}

// spec 05 #117, spec 06 #117
#[tokio::test(start_paused = true)]
async fn spec_05_117_an_instance_in_a_shifted_zone_is_read_from_memory_and_neither_terminated_nor_tagged() {
    let env = shifting_env().await;
    let zone = require("topology.kubernetes.io/zone", &["us-west-2a"]);
    let instance = env.provider.create(&claim("a", json!([on_demand(), zone]))).await.unwrap();
    let id = instance.provider_id.rsplit('/').next().unwrap().to_owned();
    let context = env.provider.context();
    // Only the fleet's answer is known, so this reads the zone's ID into memory.
    env.provider.list().await.unwrap();
    set_shifts(&env, &["usw2-az1"]);
    context.zonal_shifts.refresh().await.unwrap();
    env.aws.clear_calls();
    let record = context.instances.get(&id, crate::instances::ReadFrom::Ec2).await.unwrap();
    assert_eq!(record.id, id);
    let Err(InstanceError::Other(error)) = env.provider.delete(&instance.provider_id, None).await else { panic!() };
    let text = format!("instance {id} is in zonally shifted availability zone us-west-2a (usw2-az1), skipping");
    assert_eq!(error.to_string(), format!("{text} termination"));
    let error = context.instances.tag(&id, crate::ports::Tags::new()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{text} tag creation"));
    assert_eq!(env.operations(), [] as [&str; 0]);
    // EC2 does not report the instance any more, as in an outage of the zone.
    env.aws.fail_instance(&id, "Server.InternalError");
    tokio::time::advance(Duration::from_hours(3)).await;
    set_shifts(&env, &["usw2-az1"]);
    context.zonal_shifts.refresh().await.unwrap();
    assert_eq!(env.provider.list().await.unwrap(), []);
    assert!(context.instances.get(&id, crate::instances::ReadFrom::Cache).await.is_ok(), "kept in memory");
}

// spec 06 §15: the start
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_enabled_for_zonal_shift_ends_the_start() {
    let env = shifting_env().await;
    env.aws.change_account(|account| account.zonal_shifts.clear());
    let error = env.provider.start().await.unwrap_err();
    assert_eq!(
        error.message,
        "failed to find cluster demo in ARC zonal shift, check that the cluster is enabled for zonal shift and that \
         the controller's role allows arc-zonal-shift:GetManagedResource"
    );
    assert!(error.cause.to_string().contains("ResourceNotFoundException"), "{}", error.cause);
}
