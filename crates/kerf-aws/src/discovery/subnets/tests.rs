//! Tests of subnets against the EC2 in memory.

use kerf_api::ec2nodeclass::{EC2NodeClassSpec, EC2NodeClassStatus};
use kerf_api::slim::Str;
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceType, InstanceTypes, Offering, OfferingState, Overhead};
use kerf_engine::requirement::{Requirement, Requirements};
use serde_json::json;

use super::*;
use crate::memory::testing::{aws, aws_with};
use crate::memory::{MemoryAws, MemorySettings};

const A: &str = "us-west-2a";
const B: &str = "us-west-2b";

fn class(terms: serde_json::Value) -> EC2NodeClass {
    EC2NodeClass {
        spec: Some(EC2NodeClassSpec {
            subnet_selector_terms: serde_json::from_value(terms).unwrap(),
            ..EC2NodeClassSpec::default()
        }),
        ..EC2NodeClass::default()
    }
}

/// Replaces all subnets of the account by these: ID, zone, free addresses, tags.
fn set_subnets(aws: &MemoryAws, subnets: &[(&str, &str, i32, serde_json::Value)]) {
    aws.change_account(|account| {
        account.subnets.clear();
        for (id, zone, available_ip_count, tags) in subnets {
            let subnet = Subnet {
                id: (*id).to_owned(),
                zone: (*zone).to_owned(),
                available_ip_count: *available_ip_count,
                tags: serde_json::from_value(tags.clone()).unwrap(),
                ..Subnet::default()
            };
            account.subnets.insert(subnet.id.clone(), subnet);
        }
    });
}

fn subnets(aws: &MemoryAws) -> Subnets {
    Subnets::new(Arc::new(aws.clone()), &AwsSettings::new("demo"), aws.clock())
}

/// Returns types with this number of pods, each with an on-demand offering in these zones.
fn types(types: &[(i64, &[&str])]) -> InstanceTypes {
    let one = |key: &'static str, value: &str| Requirement::one_of(Str::new_static(key), [Str::new(value)]);
    let offering = |zone: &&str| Offering {
        requirements: Arc::new(
            [one(labels::ZONE, zone), one(labels::CAPACITY_TYPE, "on-demand")].into_iter().collect::<Requirements>(),
        ),
        price: Price::ZERO,
        capacity_override: None,
        overhead_override: None,
    };
    let built = types.iter().map(|(pods, zones)| InstanceType {
        name: Str::from(format!("type-{pods}")),
        requirements: Arc::default(),
        offerings: zones.iter().map(offering).collect(),
        capacity: [("pods", pods.to_string().as_str())].try_into().unwrap(),
        overhead: Overhead::default(),
        volume_limits: Arc::default(),
    });
    built.collect()
}

/// Returns the class with its status, as the controller writes it.
async fn with_status(subnets: &Subnets, mut class: EC2NodeClass) -> EC2NodeClass {
    let listed = subnets.list(&class).await.unwrap();
    let status = listed.iter().map(|subnet| kerf_api::ec2nodeclass::Subnet {
        id: subnet.id.clone(),
        zone: subnet.zone.clone(),
        zone_id: None,
    });
    class.status = Some(EC2NodeClassStatus { subnets: Some(status.collect()), ..EC2NodeClassStatus::default() });
    class
}

fn choose(subnets: &Subnets, class: &EC2NodeClass, types: &InstanceTypes) -> BTreeMap<String, SubnetChoice> {
    let types: Vec<_> = types.iter().collect();
    subnets.choose_for_launch(class, &types, "on-demand").unwrap()
}

fn ids(choices: &BTreeMap<String, SubnetChoice>) -> BTreeSet<String> {
    choices.values().map(|choice| choice.id.clone()).collect()
}

// spec 05 #70, spec 06 #12
#[tokio::test(start_paused = true)]
async fn terms_are_united_and_tags_of_a_term_must_all_match() {
    let cases = [
        (json!([]), "", 0),
        (json!([{"id": "s1"}, {"id": "s3"}]), "s1 s3", 1),
        (json!([{"tags": {"team": "a"}}, {"tags": {"team": "b"}}]), "s1 s2 s3", 2),
        (json!([{"tags": {"team": "a", "env": "dev"}}]), "s2", 1),
        (json!([{"tags": {"env": "*"}}]), "s2 s3", 1),
        (json!([{"tags": {"env": "p*"}}]), "s3", 1),
        (json!([{"id": "s1", "tags": {"team": "b"}}, {"tags": {"team": "a"}}]), "s1 s2", 2),
    ];
    for (terms, expected, calls) in cases {
        let aws = aws();
        set_subnets(
            &aws,
            &[
                ("s1", A, 1, json!({"team": "a"})),
                ("s2", A, 1, json!({"team": "a", "env": "dev"})),
                ("s3", B, 1, json!({"team": "b", "env": "prod"})),
            ],
        );
        let listed = subnets(&aws).list(&class(terms.clone())).await.unwrap();
        let ids: Vec<&str> = listed.iter().map(|subnet| subnet.id.as_str()).collect();
        assert_eq!((ids.join(" ").as_str(), aws.calls().len()), (expected, calls), "{terms}");
    }
}

// spec 05 #71
#[tokio::test(start_paused = true)]
async fn pages_after_an_empty_page_are_read() {
    let aws =
        aws_with(MemorySettings { first_page_is_empty: true, page_size_max: Some(1), ..MemorySettings::default() });
    let listed = subnets(&aws).list(&class(json!([{"tags": {"karpenter.sh/discovery": "demo"}}]))).await.unwrap();
    assert_eq!((listed.len(), aws.calls().len() > 3), (3, true));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_the_refresh_interval_and_a_failure_is_not() {
    let aws = aws();
    let subnets = subnets(&aws);
    let class = class(json!([{"tags": {"karpenter.sh/discovery": "demo"}}]));
    aws.set_faults(vec![crate::memory::AwsFaultRule::once("DescribeSubnets", crate::memory::AwsFault::Throttled)]);
    assert!(subnets.list(&class).await.is_err());
    for (advance_secs, calls) in [(0, 2), (59, 2), (1, 3)] {
        tokio::time::advance(Duration::from_secs(advance_secs)).await;
        assert_eq!(subnets.list(&class).await.unwrap().len(), 3);
        assert_eq!(aws.calls().len(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_without_subnets_cannot_be_launched() {
    let aws = aws();
    let error = subnets(&aws).choose_for_launch(&class(json!([])), &[], "on-demand").unwrap_err();
    assert_eq!(error.to_string(), "no subnets matched selector for nodeclass ");
}

// spec 05 #72
#[tokio::test(start_paused = true)]
async fn the_subnet_with_the_most_free_addresses_is_used_and_launches_count_before_a_refresh() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 10, json!({})), ("s2", A, 100, json!({}))]);
    let all = class(json!([{"id": "s1"}, {"id": "s2"}]));
    let provider = subnets(&aws);
    let status = with_status(&provider, all.clone()).await;
    let one_pod = types(&[(1, &[A]), (50, &[A]), (0, &[B])]);
    assert_eq!(choose(&provider, &status, &one_pod)[A].id, "s2");

    set_subnets(&aws, &[("s1", A, 10, json!({})), ("s2", A, 11, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, all).await;
    let chosen: Vec<String> = (0..3).map(|_| choose(&provider, &status, &one_pod)[A].id.clone()).collect();
    // Of equal figures the first of the status is used.
    assert_eq!(chosen, ["s2", "s1", "s2"]);
}

#[tokio::test(start_paused = true)]
async fn only_types_with_an_available_offering_count() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 10, json!({})), ("s2", A, 9, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, class(json!([{"id": "s1"}, {"id": "s2"}]))).await;
    let list = types(&[(1, &[A]), (5, &[A])]);
    let list = list.with_states(|instance_type, _| OfferingState {
        is_available: instance_type.name == "type-5",
        ..OfferingState::default()
    });
    assert_eq!(choose(&provider, &status, &list)[A].id, "s1");
    assert_eq!(choose(&provider, &status, &list)[A].id, "s2", "five addresses of s1 are taken");
    let spot = provider.choose_for_launch(&status, &list.iter().collect::<Vec<_>>(), "spot").unwrap();
    assert_eq!(spot[A].taken_addresses, 0, "no type has a spot offering");
}

// spec 05 #73
#[tokio::test(start_paused = true)]
async fn addresses_of_subnets_without_an_instance_are_added_back() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 10, json!({})), ("s2", B, 20, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, class(json!([{"id": "s1"}, {"id": "s2"}]))).await;
    let list = types(&[(4, &[A, B])]);
    let remaining = || provider.lock().clone();
    let choices = choose(&provider, &status, &list);
    assert_eq!(remaining(), BTreeMap::from([("s1".to_owned(), 6), ("s2".to_owned(), 16)]));
    provider.record_launch(&choices, &ids(&choices), &BTreeSet::new());
    assert_eq!(remaining(), BTreeMap::from([("s1".to_owned(), 10), ("s2".to_owned(), 20)]));
    let choices = choose(&provider, &status, &list);
    provider.record_launch(&choices, &ids(&choices), &BTreeSet::from(["s1".to_owned()]));
    assert_eq!(remaining(), BTreeMap::from([("s1".to_owned(), 6), ("s2".to_owned(), 20)]));
}

// spec 05 §10.2: after a refresh the figure is right already.
#[tokio::test(start_paused = true)]
async fn nothing_is_added_back_after_a_refresh() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 10, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, class(json!([{"id": "s1"}]))).await;
    let list = types(&[(4, &[A])]);
    let first = choose(&provider, &status, &list);
    tokio::time::advance(Duration::from_mins(1)).await;
    set_subnets(&aws, &[("s1", A, 9, json!({}))]);
    provider.list(&status).await.unwrap();
    assert!(provider.lock().is_empty());
    let _second = choose(&provider, &status, &list);
    provider.record_launch(&first, &ids(&first), &BTreeSet::new());
    assert_eq!(provider.lock()["s1"], 5);
}

// spec 05 #74
#[tokio::test(start_paused = true)]
async fn a_full_subnet_is_used_last_until_it_is_described_again() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 10, json!({})), ("s2", A, 100, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, class(json!([{"id": "s1"}, {"id": "s2"}]))).await;
    let list = types(&[(1, &[A])]);
    let choices = choose(&provider, &status, &list);
    assert_eq!(choices[A].id, "s2");
    provider.mark_full("s2");
    provider.record_launch(&choices, &ids(&choices), &BTreeSet::new());
    assert_eq!(choose(&provider, &status, &list)[A].id, "s1");
    tokio::time::advance(Duration::from_mins(1)).await;
    provider.list(&status).await.unwrap();
    assert_eq!(choose(&provider, &status, &list)[A].id, "s2");
}

// spec 05 #121
#[tokio::test(start_paused = true)]
async fn figures_of_subnets_without_an_override_stay_lowered() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 10, json!({})), ("s2", B, 10, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, class(json!([{"id": "s1"}, {"id": "s2"}]))).await;
    let list = types(&[(3, &[A, B])]);
    let choices = choose(&provider, &status, &list);
    // The claim is limited to zone a, so the request has no override with s2.
    let requested = BTreeSet::from(["s1".to_owned()]);
    provider.record_launch(&choices, &requested, &requested);
    assert_eq!(provider.lock()["s2"], 7);
    // An attempt that ends before CreateFleet records nothing.
    let _abandoned = choose(&provider, &status, &list);
    assert_eq!(provider.lock().clone(), BTreeMap::from([("s1".to_owned(), 4), ("s2".to_owned(), 4)]));
    tokio::time::advance(Duration::from_mins(1)).await;
    provider.list(&status).await.unwrap();
    assert!(provider.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_zone_without_free_addresses_is_still_used() {
    let aws = aws();
    set_subnets(&aws, &[("s1", A, 0, json!({}))]);
    let provider = subnets(&aws);
    let status = with_status(&provider, class(json!([{"id": "s1"}]))).await;
    let list = types(&[(3, &[A])]);
    assert_eq!(choose(&provider, &status, &list)[A].id, "s1");
    assert_eq!(choose(&provider, &status, &list)[A].id, "s1");
    assert_eq!(provider.lock()["s1"], -6);
}
