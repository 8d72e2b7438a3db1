//! The facade on an EC2 in memory.

mod burst;
mod garbage_collection;
mod leadership;

use std::collections::BTreeMap;

use kerf_cloud::conformance::{self, ConformanceInput};
use serde_json::json;

use super::*;
use crate::memory::{AwsFault, AwsFaultRule, MemorySettings};
use crate::ports::ec2::{CreateFleet, InstanceStateName, InstanceTypeOffering};
use crate::testing::{ProviderEnv, TYPES, claim, on_demand, pool, require};

#[tokio::test(start_paused = true)]
async fn the_provider_passes_the_conformance_tests() {
    let env = ProviderEnv::new().await;
    let claim = claim(
        "general-x7k2p",
        json!([on_demand(), require("topology.kubernetes.io/zone", &["us-west-2b", "us-west-2c"])]),
    );
    let input = ConformanceInput {
        claim: &claim,
        pool: &pool("default"),
        unknown_provider_id: "aws:///us-west-2a/i-0123456789abcdef0",
        wait: async || tokio::time::sleep(Duration::from_secs(5)).await,
    };
    conformance::check(&*env.provider, input).await;
}

// spec 05 §15.8, spec 06 §8
#[tokio::test(start_paused = true)]
async fn a_launched_instance_has_everything_that_its_claim_adopts() {
    let env = ProviderEnv::new().await;
    let claim = claim("general-x7k2p", json!([on_demand(), require("kubernetes.io/arch", &["amd64"])]));
    let mut instance = env.provider.create(&claim).await.unwrap();
    let launched = &env.live_instances()[0].instance;
    assert_eq!(instance.provider_id, format!("aws:///{}/{}", launched.zone, launched.id));
    assert_eq!(instance.image_id.as_deref(), Some(launched.image_id.as_str()));
    instance.provider_id = "aws:///us-west-2a/i-…".into();
    instance.image_id = Some("ami-…".into());
    insta::assert_debug_snapshot!(instance);
    assert_eq!(
        env.operations(),
        [
            "DescribeLaunchTemplates",
            "CreateLaunchTemplate",
            "DescribeLaunchTemplates",
            "CreateLaunchTemplate",
            "CreateFleet"
        ]
    );
    let tags: Vec<String> = launched.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    insta::assert_debug_snapshot!(tags);
}

/// Returns the number of entries of each cache.
fn cache_sizes(env: &ProviderEnv) -> BTreeMap<String, usize> {
    let text = env.registry.text(env.clock.now());
    let caches =
        text.lines().filter_map(|line| line.strip_prefix("kerf_aws_cache_entries{cache=\"")?.split_once("\"} "));
    caches.map(|(name, entries)| (name.to_owned(), entries.parse().unwrap())).collect()
}

// spec 07 §6.5
#[tokio::test(start_paused = true)]
async fn the_metric_has_the_caches_that_the_specification_lists() {
    let env = ProviderEnv::new().await;
    let _controller = nodeclass::test_controller(env.provider.context());
    let spec = include_str!("../../../../docs/spec/07-operations.md");
    let row = spec.lines().find(|line| line.starts_with("| `kerf_aws_cache_entries`")).unwrap();
    let listed = row.split_once("`cache` (").unwrap().1.split_once(')').unwrap().0;
    let mut names: Vec<&str> = listed.split(", ").map(|name| name.trim_matches('`')).collect();
    names.sort_unstable();
    assert_eq!(cache_sizes(&env).into_keys().collect::<Vec<_>>(), names);

    env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    let context = env.provider.context();
    context.unavailable.mark_subnet("subnet-1");
    context.reservation_slots.set_free([("cr-1".to_owned(), 2), ("cr-2".to_owned(), 0)]);
    let sizes = cache_sizes(&env);
    let size = |name: &str| sizes[name];
    assert_eq!((size("launches"), size("launch_filters"), size("reservation_slots")), (1, 1, 2));
    assert!(size("launch_templates") > 0);
    assert_eq!(size("unavailable_offerings"), 1);
    tokio::time::advance(Duration::from_mins(3)).await;
    context.unavailable.snapshot();
    assert_eq!(cache_sizes(&env)["unavailable_offerings"], 0);
    env.provider.list().await.unwrap();
    assert_eq!((cache_sizes(&env)["instances"], cache_sizes(&env)["terminated_instances"]), (1, 0));
    let id = format!("aws:///us-west-2a/{}", env.live_instances()[0].instance.id);
    env.provider.delete(&id, None).await.unwrap();
    tokio::time::advance(Duration::from_mins(3)).await;
    env.provider.delete(&id, None).await.unwrap_err();
    assert_eq!((cache_sizes(&env)["instances"], cache_sizes(&env)["terminated_instances"]), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_launch_returns_the_same_instance_until_it_is_terminated() {
    let env = ProviderEnv::new().await;
    let claim = claim("a", json!([on_demand()]));
    let first = env.provider.create(&claim).await.unwrap();
    assert_eq!(env.provider.create(&claim).await.unwrap(), first);
    assert_eq!(env.live_instances().len(), 1);
    env.provider.delete(&first.provider_id, Some(&claim)).await.unwrap();
    let second = env.provider.create(&claim).await.unwrap();
    assert_ne!(second.provider_id, first.provider_id);
}

// spec 05 §16: delete
#[tokio::test(start_paused = true)]
async fn a_termination_is_requested_once_and_ends_as_not_found() {
    let env = ProviderEnv::new().await;
    let instance = env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    env.aws.clear_calls();
    env.provider.delete(&instance.provider_id, None).await.unwrap();
    env.provider.delete(&instance.provider_id, None).await.unwrap();
    assert_eq!(env.operations(), ["DescribeInstances", "TerminateInstances", "DescribeInstances"]);
    let read = env.provider.get(&instance.provider_id).await.unwrap();
    assert!(read.is_terminating);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let deleted = env.provider.delete(&instance.provider_id, None).await;
    assert!(matches!(deleted, Err(InstanceError::NotFound(_))), "{deleted:?}");
    let read = env.provider.get(&instance.provider_id).await;
    assert!(matches!(read, Err(InstanceError::NotFound(_))), "the cache has forgotten it: {read:?}");
}

// spec 05 §16
#[tokio::test(start_paused = true)]
async fn a_failed_termination_is_counted_once_and_returned() {
    let env = ProviderEnv::new().await;
    let instance = env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    let fault = AwsFault::Error { status: 403, code: "UnauthorizedOperation".into(), message: "No.".into() };
    env.aws.set_faults(vec![AwsFaultRule::always("TerminateInstances", fault)]);
    let error = env.provider.delete(&instance.provider_id, None).await.unwrap_err().to_string();
    assert!(error.contains("api error UnauthorizedOperation: No."), "{error}");
    let text = env.registry.text(env.clock.now());
    assert!(
        text.contains(
            "karpenter_cloudprovider_instance_termination_failures_total{zone=\"us-west-2a\",zone_id=\"usw2-az1\"} 1\n"
        ),
        "{text}"
    );
}

// spec 05 #118, #119
#[tokio::test(start_paused = true)]
async fn a_list_has_the_instances_of_this_cluster_only() {
    let env = ProviderEnv::new().await;
    for i in 0..20 {
        let x86 = json!([on_demand(), require("kubernetes.io/arch", &["amd64"])]);
        env.provider.create(&claim(&format!("own-{i}"), x86)).await.unwrap();
    }
    let template = env.live_instances()[0].template_name.clone();
    for i in 0..20 {
        let request = CreateFleet {
            client_token: format!("foreign-{i}"),
            ..crate::memory::testing::fleet(
                1,
                crate::memory::testing::on_demand(),
                &template,
                &[("m5.large", crate::memory::testing::SUBNETS[0])],
            )
        };
        env.aws.ports().ec2.create_fleet(request).await.unwrap();
    }
    assert_eq!(env.aws.instances().len(), 40);
    let listed = env.provider.list().await.unwrap();
    assert_eq!(listed.len(), 20);
    assert!(listed.iter().all(|instance| instance.labels[labels::CAPACITY_TYPE] == "on-demand"));
    assert!(listed.iter().all(|instance| !instance.labels.contains_key(aws::CAPACITY_RESERVATION_ID)));
}

// spec 05 §16, §22 (12)
#[tokio::test(start_paused = true)]
async fn missing_pools_and_classes_leave_labels_out() {
    let env = ProviderEnv::new().await;
    let instance = env.provider.create(&claim("a", json!([on_demand()]))).await.unwrap();
    let keys = |instance: &Instance| instance.labels.keys().cloned().collect::<Vec<_>>();
    let read = env.provider.get(&instance.provider_id).await.unwrap();
    assert_eq!(keys(&read), keys(&instance));
    env.set_pools(&["other"]);
    let listed = env.provider.list().await.unwrap();
    assert_eq!(
        keys(&listed[0]),
        [aws::INSTANCE_TENANCY, labels::CAPACITY_TYPE, labels::NODEPOOL, aws::ZONE_ID, labels::ZONE]
    );
    assert!(listed[0].capacity.is_empty());
    env.remove_classes();
    let read = env.provider.get(&instance.provider_id).await.unwrap();
    assert!(!read.labels.contains_key(aws::ZONE_ID));
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_subnets_were_never_read_is_not_an_error() {
    let env = ProviderEnv::new().await;
    let set_condition = |status: Option<&str>| {
        let conditions: Vec<_> = status
            .map(|status| json!({"type": "SubnetsReady", "status": status, "reason": "a", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
            .into_iter()
            .collect();
        env.change_class(|class| class["status"] = json!({"conditions": conditions}));
    };
    for status in [None, Some("Unknown")] {
        set_condition(status);
        let error = env.provider.instance_types(&pool("default")).await.unwrap_err();
        assert!(matches!(error, InstanceTypesError::ClassUnresolved(_)), "{error:?}");
    }
    set_condition(Some("False"));
    let error = env.provider.instance_types(&pool("default")).await.unwrap_err();
    assert!(matches!(error, InstanceTypesError::Other(_)), "{error:?}");
}

// spec 05 §4.2, spec 06 §8
#[tokio::test(start_paused = true)]
async fn a_pool_whose_class_is_missing_or_terminating_has_no_types_and_gets_an_event() {
    let env = ProviderEnv::new().await;
    assert_eq!(env.provider.instance_types(&pool("default")).await.unwrap().len(), TYPES.len());
    env.change_class(|class| class["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert!(env.provider.instance_types(&pool("default")).await.unwrap().is_empty());
    env.remove_classes();
    assert!(env.provider.instance_types(&pool("default")).await.unwrap().is_empty());
    assert_eq!(env.events.texts(), vec![r#"NodePool/default Warning "" Failed resolving NodeClass"#; 2]);
}

// spec 06 §18, §14
#[test]
fn repair_policies_and_garbage_collection_are_those_of_the_specification() {
    let minutes: Vec<(&str, &str, u64)> =
        REPAIR_POLICIES.iter().map(|p| (p.condition, p.status, p.toleration.as_secs() / 60)).collect();
    assert_eq!(minutes.len(), 7);
    assert!(minutes.contains(&("AcceleratedHardwareReady", "False", 10)));
    assert!(minutes.iter().all(|(condition, _, minutes)| *condition == "AcceleratedHardwareReady" || *minutes == 30));
    let schedule = GARBAGE_COLLECTION;
    // An orphan lives for at most 30 s + 10 s + the time of a run, later 30 s + 2 min.
    assert_eq!(schedule.first_interval * schedule.first_runs, Duration::from_secs(200));
    assert!(schedule.instance_age_min + schedule.first_interval <= Duration::from_secs(45));
    assert!(schedule.instance_age_min + schedule.interval <= Duration::from_secs(155));
}

// spec 06 §20.1; issue 21, bad input
#[tokio::test(start_paused = true)]
async fn start_up_names_the_step_that_failed() {
    let env = ProviderEnv::new().await;
    let start = async |operation: &str| {
        let fault = AwsFault::Error { status: 401, code: "AuthFailure".into(), message: "No credentials.".into() };
        env.aws.set_faults(vec![AwsFaultRule::always(operation, fault)]);
        env.provider.start().await.map_err(|error| error.to_string())
    };
    let error = start("DescribeInstanceTypes").await.unwrap_err();
    assert!(
        error.starts_with("ec2 api connectivity check failed, operation error EC2: DescribeInstanceTypes, "),
        "{error}"
    );
    assert!(error.ends_with("api error AuthFailure: No credentials."), "{error}");
    let error = start("DescribeCluster").await.unwrap_err();
    assert!(error.starts_with("failed detecting cluster endpoint, describing cluster demo, "), "{error}");
    let error = start("DescribeInstanceTypeOfferings").await.unwrap_err();
    assert!(error.starts_with("failed updating instance types, "), "{error}");
    assert_eq!(start("DescribeSubnets").await, Ok(()));
}

#[test]
fn provider_ids_have_a_zone_and_an_instance_id() {
    assert_eq!(parse_provider_id("aws:///us-west-2a/i-0123"), Ok("i-0123"));
    for malformed in ["", "i-0123", "aws:///us-west-2a/", "kwok://a"] {
        assert_eq!(
            parse_provider_id(malformed).unwrap_err().to_string(),
            format!("provider id does not match known format (provider-id={malformed})")
        );
    }
}

// spec 05 §2: eventual consistency of DescribeInstances
#[tokio::test(start_paused = true)]
async fn a_new_instance_that_ec2_does_not_describe_yet_is_returned_by_a_repeated_launch() {
    let memory = MemorySettings { instances_visible_after: Duration::from_secs(20), ..MemorySettings::default() };
    let env = ProviderEnv::with(&TYPES, memory, |_| {}).await;
    let claim = claim("a", json!([on_demand()]));
    let first = env.provider.create(&claim).await.unwrap();
    assert_eq!(env.provider.create(&claim).await.unwrap().provider_id, first.provider_id);
    assert!(env.provider.list().await.unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(env.provider.list().await.unwrap().len(), 1);
    assert_eq!(env.live_instances()[0].instance.state, InstanceStateName::Running);
}

// spec 12 #46
#[tokio::test(start_paused = true)]
async fn spec_12_46_a_claim_of_a_type_that_its_zone_no_longer_offers_has_not_drifted() {
    let env = ProviderEnv::new().await;
    env.set_pools(&["default"]);
    let in_zone = json!([
        on_demand(),
        require("node.kubernetes.io/instance-type", &["m5.large"]),
        require("topology.kubernetes.io/zone", &["us-west-2a"]),
    ]);
    let instance = env.provider.create(&claim("old", in_zone)).await.unwrap();
    let context = env.provider.context();
    let zones = ["us-west-2a", "us-west-2b", "us-west-2c"];
    let offered = TYPES.iter().flat_map(|name| zones.map(|zone| (*name, zone)));
    let offered = offered.filter(|pool| *pool != ("m5.large", "us-west-2a"));
    let offerings = offered
        .map(|(name, zone)| InstanceTypeOffering { instance_type: name.to_owned(), zone: zone.to_owned() })
        .collect();
    let infos = TYPES.iter().filter_map(|name| context.instance_types.info(name)).collect();
    context.instance_types.set_catalogue(infos, offerings);
    let types = env.provider.instance_types(&pool("default")).await.unwrap();
    let on_demand: Vec<(String, bool)> = types
        .find("m5.large")
        .unwrap()
        .offerings()
        .filter(|offering| offering.requirements.get(labels::CAPACITY_TYPE).is_some_and(|own| own.has("on-demand")))
        .map(|offering| {
            let zone = offering.requirements.get(labels::ZONE).unwrap().pick_value().unwrap();
            (zone.to_string(), offering.is_launchable())
        })
        .collect();
    let expected = [("us-west-2a", false), ("us-west-2b", true), ("us-west-2c", true)];
    assert_eq!(on_demand, expected.map(|(zone, is_launchable)| (zone.to_owned(), is_launchable)));
    // The drift check of a claim that is old enough.
    let drift = |labels: &BTreeMap<String, String>, types: &InstanceTypes| {
        let mut object = claim("old", json!([]));
        object.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(env.clock.now() - Duration::from_hours(2)));
        object.metadata.labels.get_or_insert_default().extend(labels.clone());
        let pool = kerf_state::to_engine_pool(&pool("default"), &kerf_state::NodeClassState::Ready, None);
        let rules = env.provider.label_rules();
        let mut old = kerf_state::to_engine_claim(&object, false);
        old.lifecycle.is_launched = true;
        assert!(kerf_engine::must_verify_type(&old, env.clock.now()));
        kerf_engine::drift_reason(&old, &pool, types.types(), rules, env.clock.now())
    };
    assert_eq!(instance.labels["topology.kubernetes.io/zone"], "us-west-2a");
    assert_eq!(drift(&instance.labels, &types), None);
    // A type that is not listed at all.
    let without_types = drift(&instance.labels, &InstanceTypes::default());
    assert_eq!(without_types.as_deref(), Some("InstanceTypeNotFound"));
}
