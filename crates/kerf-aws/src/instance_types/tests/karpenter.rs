//! Recorded answers of Karpenter's own AWS provider (1.14.1) for eight to fifteen types of the
//! shipped catalogue and ten node classes, as document 11 describes them.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use kerf_api::quantity::Quantity;
use kerf_api::slim::ResourceList;
use kerf_engine::Price;
use serde::Deserialize;

use super::*;

/// Label that Karpenter 1.14 does not know.
const NEW_LABEL: &str = aws::NITRO_SANDBOX;

#[derive(Deserialize)]
struct Recording {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    question: Question,
    answer: Answer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    name: String,
    node_class: Value,
    instance_types: Option<Vec<String>>,
    offerings: Option<Vec<Value>>,
    #[serde(default)]
    options: Value,
    #[serde(default)]
    unavailable: Vec<Value>,
    #[serde(default)]
    prices: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    instance_types: Vec<TypeAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeAnswer {
    name: String,
    requirements: BTreeMap<String, Vec<String>>,
    capacity: BTreeMap<String, Quantity>,
    kube_reserved: BTreeMap<String, Quantity>,
    system_reserved: BTreeMap<String, Quantity>,
    eviction_threshold: BTreeMap<String, Quantity>,
    allocatable: BTreeMap<String, Quantity>,
    offerings: Vec<OfferingAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfferingAnswer {
    capacity_type: String,
    zone: String,
    #[serde(rename = "zoneID", default)]
    zone_id: String,
    price: f64,
    available: bool,
}

#[tokio::test(start_paused = true)]
async fn instance_types_are_those_of_karpenter() {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("karpenter-1.14.1.json.gz")[..]).read_to_string(&mut text).unwrap();
    let recording: Recording = serde_json::from_str(&text).unwrap();
    assert_eq!(recording.cases.len(), 10);
    for case in &recording.cases {
        check(case);
    }
}

fn check(case: &Case) {
    let question = &case.question;
    let list = answer(question);
    assert_eq!(list.len(), case.answer.instance_types.len(), "{}", question.name);
    for (found, expected) in list.iter().zip(&case.answer.instance_types) {
        let context = format!("{}: {}", question.name, expected.name);
        assert_eq!(found.name, expected.name, "{context}");
        let requirements: BTreeMap<String, Vec<String>> = found
            .requirements
            .iter()
            .filter(|requirement| requirement.key() != NEW_LABEL)
            .map(|requirement| {
                (requirement.key().to_string(), requirement.values().iter().map(ToString::to_string).collect())
            })
            .collect();
        assert_eq!(requirements, expected.requirements, "{context}");
        let resources = |list: &ResourceList| -> BTreeMap<String, Quantity> {
            list.iter().map(|(name, quantity)| (name.to_string(), quantity)).collect()
        };
        assert_eq!(resources(&found.capacity), expected.capacity, "{context}");
        assert_eq!(resources(&found.overhead.kube_reserved), expected.kube_reserved, "{context}");
        assert_eq!(resources(&found.overhead.system_reserved), expected.system_reserved, "{context}");
        assert_eq!(resources(&found.overhead.eviction_threshold), expected.eviction_threshold, "{context}");
        assert_eq!(resources(&found.allocatable()), expected.allocatable, "{context}");
        let mut offerings: Vec<(String, String, String, Option<Price>, bool)> = found
            .offerings()
            .map(|offering| {
                let value = |key| offering.requirements.get(key).map_or(String::new(), |r| r.values().join(","));
                let price = Some(offering.price);
                (value(labels::CAPACITY_TYPE), value(labels::ZONE), value(aws::ZONE_ID), price, offering.is_available())
            })
            .collect();
        offerings.sort();
        let expected: Vec<_> = expected
            .offerings
            .iter()
            .map(|offering| {
                let text = |text: &String| text.clone();
                let price = Price::from_dollars(offering.price);
                (
                    text(&offering.capacity_type),
                    text(&offering.zone),
                    text(&offering.zone_id),
                    price,
                    offering.available,
                )
            })
            .collect();
        assert_eq!(offerings, expected, "{context}");
    }
}

fn answer(question: &Question) -> InstanceTypes {
    let mut settings = AwsSettings::new("test");
    if let Some(percent) = question.options["vmMemoryOverheadPercent"].as_f64() {
        settings.vm_memory_overhead_percent = percent;
    }
    if let Some(enis) = question.options["reservedENIs"].as_u64() {
        settings.reserved_enis = u32::try_from(enis).unwrap();
    }
    let test = TestCatalogue::empty(&settings);
    let shipped = data::catalogue();
    let types = shipped.instance_types.iter();
    let types = types.filter(|info| question.instance_types.as_ref().is_none_or(|names| names.contains(&info.name)));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let offerings = match &question.offerings {
        Some(offerings) => offerings
            .iter()
            .map(|offering| InstanceTypeOffering {
                instance_type: text(&offering["InstanceType"]),
                zone: text(&offering["Location"]),
            })
            .collect(),
        None => shipped.offerings.clone(),
    };
    test.catalogue.set_catalogue(types.cloned().collect(), offerings);
    for mark in &question.unavailable {
        match mark["subnet"].as_str() {
            Some(subnet) => test.unavailable.mark_subnet(subnet),
            None => test.unavailable.mark_pool(InstancePool {
                instance_type: text(&mark["instanceType"]),
                zone: text(&mark["zone"]),
                capacity_type: text(&mark["capacityType"]),
                scope: PoolScope::Unscoped,
            }),
        }
    }
    let price = |value: &Value| Price::from_dollars(value.as_f64().unwrap()).unwrap();
    let no_prices = serde_json::Map::new();
    let table = |value: &Value| value.as_object().unwrap_or(&no_prices).clone();
    test.pricing.merge_on_demand(table(&question.prices["onDemand"]).iter().map(|(name, p)| (name.clone(), price(p))));
    if question.prices["spot"].is_object() {
        let spot = table(&question.prices["spot"]).into_iter().flat_map(|(name, zones)| {
            let zones = zones.as_object().cloned().unwrap_or_default();
            zones.into_iter().map(move |(zone, p)| (name.clone(), zone, price(&p))).collect::<Vec<_>>()
        });
        test.pricing.merge_spot(spot);
    }
    let mut class = question.node_class.clone();
    class["metadata"] = json!({ "name": "default" });
    class["spec"]["subnetSelectorTerms"] = json!([]);
    class["spec"]["securityGroupSelectorTerms"] = json!([]);
    test.list(&serde_json::from_value(class).unwrap())
}
