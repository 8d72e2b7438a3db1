//! A burst of a thousand equal claims: few calls, and in the end one instance for each claim.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kerf_api::nodeclaim::NodeClaim;
use kerf_cloud::CloudProvider as _;
use kerf_state::TrackedClaim;
use serde_json::json;

use super::garbage_collection::start;
use crate::memory::{AwsFault, AwsFaultRule, CapacityPool, Stock};
use crate::testing::{ProviderEnv, TYPES, claim, on_demand};

const CLAIMS: usize = 1_000;
/// Longest time until the collector has seen every instance that is older than 30 s.
const COLLECTED_AFTER: Duration = Duration::from_mins(10);

fn claims() -> Vec<NodeClaim> {
    (0..CLAIMS).map(|number| claim(&format!("c{number}"), json!([on_demand()]))).collect()
}

/// Launches all claims at once and records the instances. Launches that fail are repeated every
/// second, as the controllers of claims do.
async fn launch_all(env: &ProviderEnv, claims: &[NodeClaim]) -> BTreeMap<String, String> {
    let mut launched: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..100 {
        let name = |claim: &NodeClaim| claim.metadata.name.clone().unwrap();
        let waiting: Vec<&NodeClaim> = claims.iter().filter(|claim| !launched.contains_key(&name(claim))).collect();
        if waiting.is_empty() {
            return launched;
        }
        let results = futures::future::join_all(waiting.iter().map(|claim| env.provider.create(claim))).await;
        for (claim, result) in waiting.into_iter().zip(results) {
            let Ok(instance) = result else { continue };
            let mut object = claim.clone();
            object.status = Some(serde_json::from_value(json!({ "providerID": instance.provider_id })).unwrap());
            env.cluster.lock().apply(TrackedClaim::from(object));
            launched.insert(name(claim), instance.provider_id);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{} claims have no instance", claims.len() - launched.len());
}

/// Waits for the collector and checks that the live instances are those of the claims.
async fn assert_exact(env: &ProviderEnv, launched: &BTreeMap<String, String>) {
    tokio::time::sleep(COLLECTED_AFTER).await;
    let live: BTreeSet<String> = env.live_instances().into_iter().map(|own| own.instance.id).collect();
    let named: BTreeSet<String> =
        launched.values().map(|provider_id| provider_id.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!((live.len(), named.len()), (CLAIMS, CLAIMS));
    assert_eq!(live, named);
}

// spec 05 §17, §20
#[tokio::test(start_paused = true)]
async fn a_thousand_equal_claims_at_once_need_two_fleets() {
    let env = ProviderEnv::new().await;
    let _collector = start(&env).await;
    let launched = launch_all(&env, &claims()).await;
    let fleets = env.fleets.take_requests();
    assert!(fleets.len() <= 2, "{} fleets", fleets.len());
    assert_eq!(fleets.iter().map(|fleet| fleet.target_capacity).sum::<i32>(), 1_000);
    assert_exact(&env, &launched).await;
}

// A third of the pools has no capacity, a tenth of EC2's answers is throttling, and a twentieth of
// the fleets loses its answer, the first one included.
#[tokio::test(start_paused = true)]
async fn a_burst_with_stock_outs_throttling_and_lost_answers_ends_with_one_instance_each() {
    let env = ProviderEnv::new().await;
    env.aws.change_market(|market| {
        for (number, name) in TYPES.iter().enumerate() {
            let zone = ["us-west-2a", "us-west-2b", "us-west-2c"][number % 3];
            market.set_stock(CapacityPool::new(*name, zone, "on-demand"), Stock::Insufficient);
        }
    });
    let rate = |per_million, rule| AwsFaultRule { per_million, ..rule };
    env.aws.set_faults(vec![
        AwsFaultRule::once("CreateFleet", AwsFault::LostAnswer),
        rate(50_000, AwsFaultRule::always("CreateFleet", AwsFault::LostAnswer)),
        rate(100_000, AwsFaultRule::always("", AwsFault::Throttled)),
    ]);
    let _collector = start(&env).await;
    let launched = launch_all(&env, &claims()).await;
    let count = env.aws.instances().len();
    assert!(count > CLAIMS, "{count}: the first fleet launched instances that no claim names");
    assert_exact(&env, &launched).await;
}

// The API client sends 300 requests at once and then 200 per second, two for each claim before its
// launch (docs/PERFORMANCE.md).
#[tokio::test(start_paused = true)]
async fn at_the_default_request_rate_the_claims_of_a_second_share_a_fleet() {
    let env = ProviderEnv::new().await;
    let claims = claims();
    let launches = claims.iter().enumerate().map(|(number, claim)| {
        let provider = &env.provider;
        async move {
            let arrival = Duration::from_millis((2 * number as u64).saturating_sub(300) * 5);
            tokio::time::sleep(arrival).await;
            provider.create(claim).await.unwrap()
        }
    });
    futures::future::join_all(launches).await;
    let fleets = env.fleets.take_requests().len();
    assert_eq!(fleets, 9);
    assert_eq!(env.live_instances().len(), CLAIMS);
}
