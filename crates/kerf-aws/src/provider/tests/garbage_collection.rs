//! `instance.garbagecollection` with the schedule of EC2 (spec 06 §14).

use std::time::Duration;

use kerf_api::crds::CrdVariant;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::{DaemonSet, Node, Pod};
use kerf_cloud::{CloudProvider as _, InstanceGarbageCollection, ProviderSetup};
use kerf_runtime::Shutdown;
use kerf_sandbox::install_crds;
use kerf_state::TrackedClaim;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::provider::GARBAGE_COLLECTION;
use crate::testing::{ProviderEnv, claim, on_demand, require};

/// Starts the controller. It runs until the returned value is dropped.
pub(super) async fn start(env: &ProviderEnv) -> Shutdown {
    install_crds(&env.server.client_as("test"), CrdVariant::Aws).await.unwrap();
    let add = |setup: &mut ProviderSetup<'_>| InstanceGarbageCollection::add_to(setup, GARBAGE_COLLECTION);
    let set = ProviderEnv::controller_set(&env.provider, add);
    {
        let mut cluster = env.cluster.lock();
        cluster.reset::<NodePool>(Vec::new());
        cluster.reset::<TrackedClaim>(Vec::new());
        cluster.reset::<Node>(Vec::new());
        cluster.reset::<Pod>(Vec::new());
        cluster.reset::<DaemonSet>(Vec::new());
    }
    let (stop, signal) = Shutdown::new();
    tokio::spawn(async move { futures::future::join_all(set.run(&signal)).await });
    stop
}

/// Waits until no instance is left, in steps of a second, and returns the time.
async fn until_collected(env: &ProviderEnv) -> Duration {
    let started = tokio::time::Instant::now();
    while !env.live_instances().is_empty() {
        assert!(started.elapsed() < Duration::from_mins(10), "the instance was not collected");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    started.elapsed()
}

// spec 06 #110, #112
#[tokio::test(start_paused = true)]
async fn an_instance_without_a_claim_lives_no_longer_than_the_bounds() {
    let env = ProviderEnv::new().await;
    let _running = start(&env).await;
    for (sleep, max) in [(0, 45), (33, 45), (47, 45), (400, 155), (77, 155)] {
        tokio::time::sleep(Duration::from_secs(sleep)).await;
        env.provider.create(&claim(&format!("orphan-{sleep}"), json!([on_demand()]))).await.unwrap();
        let lived = until_collected(&env).await;
        assert!((30..=max).contains(&lived.as_secs()), "{lived:?} after a pause of {sleep} s");
    }
}

// spec 06 #110: the Node is deleted too; an instance with a claim stays
#[tokio::test(start_paused = true)]
async fn the_node_of_an_orphan_is_deleted_and_claimed_instances_stay() {
    let env = ProviderEnv::new().await;
    let _running = start(&env).await;
    let orphan = env.provider.create(&claim("orphan", json!([on_demand()]))).await.unwrap();
    let owned_claim = claim("owned", json!([on_demand()]));
    let owned = env.provider.create(&owned_claim).await.unwrap();
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(env.server.client_as("test"));
    let node = json!({ "metadata": { "name": "n" }, "spec": { "providerID": orphan.provider_id } });
    let node = nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    {
        let mut cluster = env.cluster.lock();
        cluster.reset::<Node>(vec![serde_json::from_value(serde_json::to_value(&node).unwrap()).unwrap()]);
        let mut object = owned_claim.clone();
        object.status = serde_json::from_value(json!({ "providerID": owned.provider_id })).unwrap();
        cluster.reset(vec![TrackedClaim::from(object)]);
    }
    tokio::time::sleep(Duration::from_secs(45)).await;
    let live = env.live_instances();
    assert_eq!(live.len(), 1);
    assert!(owned.provider_id.ends_with(&live[0].instance.id));
    assert!(nodes.get_opt("n").await.unwrap().is_none());
}

// spec 06 #111
#[tokio::test(start_paused = true)]
async fn an_instance_without_the_tags_is_not_ours() {
    let env = ProviderEnv::new().await;
    let x86 = json!([on_demand(), require("kubernetes.io/arch", &["amd64"])]);
    env.provider.create(&claim("a", x86)).await.unwrap();
    let template = env.live_instances()[0].template_name.clone();
    let _running = start(&env).await;
    until_collected(&env).await;
    let overrides = [("m5.large", crate::memory::testing::SUBNETS[0])];
    let mut foreign = crate::memory::testing::fleet(1, crate::memory::testing::on_demand(), &template, &overrides);
    foreign.tags[0].tags = [("eks:eks-cluster-name".to_owned(), "demo".to_owned())].into();
    env.aws.ports().ec2.create_fleet(foreign).await.unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(env.live_instances().len(), 1);
}

// spec 06 #127
#[tokio::test(start_paused = true)]
async fn spec_06_127_an_orphan_in_a_shifted_zone_stays_and_the_others_are_terminated() {
    let env = ProviderEnv::new().await;
    let in_zone =
        |name: &str, zone: &str| claim(name, json!([on_demand(), require("topology.kubernetes.io/zone", &[zone])]));
    let shifted = env.provider.create(&in_zone("a", "us-west-2a")).await.unwrap();
    env.provider.create(&in_zone("b", "us-west-2b")).await.unwrap();
    env.provider.list().await.unwrap();
    let ends_at = env.clock.now() + Duration::from_mins(5);
    env.provider.context().zonal_shifts.zones().replace([("usw2-az1".to_owned(), ends_at)]);
    let _running = start(&env).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let live = env.live_instances();
    assert_eq!(live.len(), 1);
    assert!(shifted.provider_id.ends_with(&live[0].instance.id));
    assert!(until_collected(&env).await >= Duration::from_mins(2), "terminated when the shift has ended");
}
