//! Filters on types of the shipped catalogue.

use std::sync::Arc;

use kerf_api::nodeclaim::NodeClaim;
use kerf_api::slim::Str;
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceTypeRef, OfferingRef};
use kerf_engine::catalogue::{Offering, OfferingState};
use kerf_engine::requirement::Requirement;
use serde_json::{Value, json};

use super::super::candidate::single_value;
use super::super::capacity::{choose_capacity_type, narrowed};
use super::super::fleet_request::{FleetInput, NamedTemplate, fleet_request};
use super::super::template_groups::template_groups;
use super::*;
use crate::data;
use crate::instance_types::kubelet::ResolvedKubelet;
use crate::ports::ec2::FleetTarget;
use crate::testing::{ProviderEnv, claim, on_demand, require};

fn filter(types: &InstanceTypes, claim: &NodeClaim, policy: MinValuesCheck) -> Result<InstanceTypes, NoTypesError> {
    let rules = LabelRules::aws();
    let claim = LaunchClaim::new(claim, &rules).unwrap();
    filter_types(types, &claim, &rules, policy)
}

async fn types(env: &ProviderEnv) -> InstanceTypes {
    use kerf_cloud::CloudProvider as _;
    env.provider.instance_types(&crate::testing::pool("default")).await.unwrap()
}

fn names(types: &InstanceTypes) -> Vec<&str> {
    types.types().iter().map(|instance_type| instance_type.name.as_str()).collect()
}

fn names_for(types: &InstanceTypes, requirements: Value) -> Result<Vec<String>, String> {
    let kept = filter(types, &claim("a", requirements), MinValuesCheck::Required);
    kept.map(|kept| names(&kept).into_iter().map(str::to_owned).collect()).map_err(|error| error.to_string())
}

// spec 05 #105
#[tokio::test(start_paused = true)]
async fn bare_metal_and_accelerators_are_left_out_unless_nothing_else_is_left() {
    let env = ProviderEnv::with_types(&["g4dn.xlarge", "inf2.xlarge", "m5.large", "m5.metal"]).await;
    let types = types(&env).await;
    assert_eq!(names_for(&types, json!([on_demand()])).unwrap(), ["m5.large"]);
    let exotic = require(labels::INSTANCE_TYPE, &["g4dn.xlarge", "m5.metal"]);
    assert_eq!(names_for(&types, json!([on_demand(), exotic])).unwrap(), ["g4dn.xlarge", "m5.metal"]);
    let mut flexible = require(labels::INSTANCE_TYPE, &["g4dn.xlarge", "m5.large", "m5.metal"]);
    flexible["minValues"] = json!(2);
    let kept = names_for(&types, json!([on_demand(), flexible])).unwrap();
    assert_eq!(kept, ["m5.large", "g4dn.xlarge", "m5.metal"], "not filtered, cheapest first");
}

// spec 05 #106
#[tokio::test(start_paused = true)]
async fn no_spot_offering_costs_more_than_the_cheapest_on_demand_offering() {
    let env = ProviderEnv::with_types(&["m5.large", "m5.xlarge", "m5.2xlarge"]).await;
    // m5.large costs 0.096 on demand.
    for (name, price) in [("m5.large", "0.05"), ("m5.xlarge", "0.096"), ("m5.2xlarge", "0.097")] {
        env.set_spot_price(name, price);
    }
    tokio::time::sleep(std::time::Duration::from_mins(6)).await;
    let types = types(&env).await;
    let prices = |requirements: Value| {
        let kept = filter(&types, &claim("a", requirements), MinValuesCheck::Required).unwrap();
        let spot = |offering: &OfferingRef<'_>| capacity_type_of(*offering) == "spot" && offering.is_available();
        let count = |t: InstanceTypeRef<'_>| (t.name.to_string(), t.offerings().filter(spot).count());
        kept.iter().map(count).collect::<Vec<_>>()
    };
    let counts = |large: usize, xlarge: usize, larger: usize| {
        vec![("m5.large".to_owned(), large), ("m5.xlarge".to_owned(), xlarge), ("m5.2xlarge".to_owned(), larger)]
    };
    assert_eq!(prices(json!([])), counts(3, 3, 0));
    let spot_only = require(labels::CAPACITY_TYPE, &["spot"]);
    assert_eq!(prices(json!([spot_only])), counts(3, 3, 3));
}

// spec 05 #107
#[tokio::test(start_paused = true)]
async fn the_sixty_cheapest_types_are_kept_and_must_satisfy_min_values() {
    let all: Vec<&str> = data::catalogue()
        .instance_types
        .iter()
        .map(|info| info.name.as_str())
        .filter(|name| {
            ["m5", "c5", "r5", "m6i", "c6i", "r6i", "m7i"].iter().any(|f| name.starts_with(&format!("{f}.")))
        })
        .collect();
    assert!(all.len() > 60);
    let env = ProviderEnv::with_types(&all).await;
    let types = types(&env).await;
    let kept = filter(&types, &claim("a", json!([on_demand()])), MinValuesCheck::Required).unwrap();
    assert_eq!(kept.len(), 60);
    let price = |name: &str| data::prices("us-west-2")[name];
    let kept_names = names(&kept);
    assert!(kept_names.is_sorted_by_key(|name| price(name)));
    let most_expensive = price(kept_names[59]);
    let cheaper_outside = all
        .iter()
        .filter(|name| !kept_names.contains(name) && !name.contains("metal"))
        .filter(|name| price(name) < most_expensive);
    assert_eq!(cheaper_outside.count(), 0);

    let mut families = json!({ "key": "karpenter.k8s.aws/instance-family", "operator": "Exists" });
    families["minValues"] = json!(8);
    let text = "truncating instance types based on the passed-in requirements, validating minValues, minValues \
                requirement is not met for label(s) (label(s)=[karpenter.k8s.aws/instance-family])";
    assert_eq!(names_for(&types, json!([on_demand(), families.clone()])).unwrap_err(), text);
    let best_effort = claim("a", json!([on_demand(), families]));
    assert_eq!(filter(&types, &best_effort, MinValuesCheck::Skipped).unwrap().len(), 60);
}

#[tokio::test(start_paused = true)]
async fn types_that_do_not_meet_the_claim_are_left_out() {
    let env = ProviderEnv::new().await;
    let types = types(&env).await;
    let arm = require(labels::ARCH, &["arm64"]);
    assert_eq!(names_for(&types, json!([on_demand(), arm])).unwrap(), ["m6g.large"]);
    // A label that no type defines is a label of the node.
    let team = require("team", &["a"]);
    assert_eq!(names_for(&types, json!([on_demand(), team])).unwrap().len(), 4);
    let zone = require(labels::ZONE, &["us-west-2x"]);
    assert_eq!(
        names_for(&types, json!([zone])).unwrap_err(),
        "all requested instance types were unavailable during launch"
    );
}

/// Returns types with offerings of reservations. Each entry is type, zone, reservation, kind, free
/// slots and price.
fn reserved_types(types: &InstanceTypes, reservations: &[(&str, &str, &str, &str, i32, &str)]) -> InstanceTypes {
    let with_reservations = types.iter().map(|instance_type| {
        let (mut instance_type, mut states) = instance_type.to_pair();
        let mut offerings = instance_type.offerings.to_vec();
        for (name, zone, id, kind, free, price) in reservations {
            if *name != instance_type.name.as_str() {
                continue;
            }
            let one = |key: &'static str, value: &str| Requirement::one_of(key, [Str::new(value)]);
            let is_block = *kind == "capacity-block";
            let requirements = [
                one(labels::CAPACITY_TYPE, "reserved"),
                one(labels::ZONE, zone),
                one(aws::CAPACITY_RESERVATION_ID, id),
                one(aws::CAPACITY_RESERVATION_TYPE, if is_block { kind } else { "default" }),
                one(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, if *kind == "interruptible" { "true" } else { "false" }),
            ];
            offerings.push(Offering {
                requirements: Arc::new(requirements.into_iter().collect()),
                price: Price::from_decimal(price).unwrap(),
                capacity_override: None,
                overhead_override: None,
            });
            states.push(OfferingState { is_available: true, reservation_capacity: *free });
        }
        instance_type.offerings = offerings.into();
        let mut requirements = (*instance_type.requirements).clone();
        for key in [
            aws::CAPACITY_RESERVATION_ID,
            aws::CAPACITY_RESERVATION_TYPE,
            aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
            labels::CAPACITY_TYPE,
        ] {
            requirements.remove(key);
        }
        instance_type.requirements = Arc::new(requirements);
        (instance_type, states)
    });
    with_reservations.collect()
}

fn kept_reservations(types: &InstanceTypes) -> Vec<String> {
    let kept = filter(types, &claim("a", json!([])), MinValuesCheck::Required).unwrap();
    let text = |t: InstanceTypeRef<'_>| {
        let ids = t.offerings().map(|offering| {
            let id = single_value(&offering.offering().requirements, aws::CAPACITY_RESERVATION_ID);
            if id.is_empty() { "open".to_owned() } else { id.to_owned() }
        });
        format!("{} {}", t.name, ids.collect::<Vec<_>>().join(","))
    };
    kept.iter().map(text).collect()
}

// spec 05 §15.3, filters 2 to 4
#[tokio::test(start_paused = true)]
async fn reserved_capacity_of_one_kind_is_used_before_anything_else() {
    let env = ProviderEnv::with_types(&["c5.large", "m5.large", "m5.xlarge"]).await;
    let types = types(&env).await;
    let default = [
        ("m5.large", "us-west-2a", "cr-10", "default", 10, "0.001"),
        ("m5.large", "us-west-2a", "cr-15", "default", 15, "0.001"),
        ("m5.large", "us-west-2b", "cr-b", "default", 1, "0.001"),
        ("m5.xlarge", "us-west-2b", "cr-x", "default", 2, "0.002"),
    ];
    assert_eq!(kept_reservations(&reserved_types(&types, &default)), ["m5.large cr-15,cr-b", "m5.xlarge cr-x"]);

    let blocks = [
        ("m5.large", "us-west-2a", "cr-block", "capacity-block", 10, "0.0005"),
        ("m5.xlarge", "us-west-2a", "cr-block-2", "capacity-block", 10, "0.0004"),
        ("c5.large", "us-west-2a", "cr-default", "default", 10, "0.001"),
    ];
    assert_eq!(kept_reservations(&reserved_types(&types, &blocks)), ["m5.xlarge cr-block-2"], "one offering");

    let tie = [
        ("m5.large", "us-west-2a", "cr-i", "interruptible", 10, "0.001"),
        ("m5.large", "us-west-2a", "cr-d", "default", 10, "0.001"),
    ];
    assert_eq!(kept_reservations(&reserved_types(&types, &tie)), ["m5.large cr-d"]);

    let full = [("m5.large", "us-west-2a", "cr-full", "default", 0, "0.001")];
    let kept = kept_reservations(&reserved_types(&types, &full));
    assert_eq!(kept.len(), 3, "a full reservation is not used: {kept:?}");
}

// spec 05 #94
#[tokio::test(start_paused = true)]
async fn each_reservation_has_a_template_of_its_own() {
    let env = ProviderEnv::with_types(&["m5.large", "m5.xlarge"]).await;
    let types = types(&env).await;
    let reservations = [
        ("m5.large", "us-west-2a", "cr-10", "default", 10, "0.001"),
        ("m5.large", "us-west-2a", "cr-15", "default", 15, "0.001"),
        ("m5.large", "us-west-2b", "cr-b", "default", 1, "0.001"),
        ("m5.xlarge", "us-west-2b", "cr-x", "default", 2, "0.002"),
    ];
    let (rules, claim) = (LabelRules::aws(), claim("a", json!([])));
    let kept = filter(&reserved_types(&types, &reservations), &claim, MinValuesCheck::Required).unwrap();
    let claim = LaunchClaim::new(&claim, &rules).unwrap();
    let capacity_type = choose_capacity_type(&kept, &claim.requirements, &rules);
    assert_eq!(capacity_type, "reserved");
    let narrowed = narrowed(&claim.requirements, capacity_type);
    let refs: Vec<InstanceTypeRef<'_>> = kept.iter().collect();
    let amis = [kerf_api::ec2nodeclass::Ami { id: "ami-1".into(), ..Default::default() }];
    let groups = template_groups(&refs, &amis, &claim, &narrowed, &rules, |_| Ok(ResolvedKubelet::default())).unwrap();
    let templates: Vec<NamedTemplate<'_, '_>> = groups
        .iter()
        .map(|group| NamedTemplate { name: group.reservation.as_ref().unwrap().id.clone(), group })
        .collect();
    let context = env.provider.context();
    let class = context.node_classes.get("default").await.unwrap();
    let subnets = context.subnets.choose_for_launch(&class, &refs, capacity_type).unwrap();
    let tags = crate::ports::Tags::new();
    let (claim, narrowed, subnets) = (&claim, &narrowed, &subnets);
    let input = FleetInput { claim, narrowed, capacity_type, subnets, tags: &tags, context: None, rules: &rules };
    let request = fleet_request(input, &templates).unwrap();
    let overrides: Vec<String> = request
        .configs
        .iter()
        .flat_map(|config| config.overrides.iter().map(|o| (&config.template_name, o)))
        .map(|(name, o)| format!("{name} {} {}", o.instance_type, o.zone.as_deref().unwrap()))
        .collect();
    assert_eq!(overrides, ["cr-15 m5.large us-west-2a", "cr-b m5.large us-west-2b", "cr-x m5.xlarge us-west-2b"]);
    assert_eq!(request.target, FleetTarget::OnDemand { allocation_strategy: "lowest-price".into() });
}
