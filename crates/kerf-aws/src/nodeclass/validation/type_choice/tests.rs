//! Tests of the choice with the shipped catalogue.

use kerf_api::ec2nodeclass::{EC2NodeClassSpec, EC2NodeClassStatus, Subnet};
use kerf_runtime::Clock;
use serde_json::{Value, json};

use super::*;
use crate::data;
use crate::instance_types::InstanceTypeSettings;
use crate::pricing::Pricing;
use crate::settings::AwsSettings;
use crate::unavailable_offerings::UnavailableOfferings;

fn catalogue() -> InstanceTypeCatalogue {
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let settings = InstanceTypeSettings::new("us-west-2", &AwsSettings::new("demo"));
    let unavailable = Arc::new(UnavailableOfferings::new(clock));
    let catalogue = InstanceTypeCatalogue::new(settings, Arc::new(Pricing::new("us-west-2")), unavailable, clock);
    let shipped = data::catalogue();
    catalogue.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
    catalogue
}

/// Returns the images of AL2023: for GPUs, for accelerators, and for neither.
fn images() -> Value {
    let arch = |arch: &str| json!({"key": "kubernetes.io/arch", "operator": "In", "values": [arch]});
    let gpu = |operator: &str| json!({"key": aws::INSTANCE_GPU_COUNT, "operator": operator});
    let accelerator = |operator: &str| json!({"key": aws::INSTANCE_ACCELERATOR_COUNT, "operator": operator});
    json!([
        {"id": "ami-nvidia", "requirements": [arch("amd64"), gpu("Exists")]},
        {"id": "ami-neuron", "requirements": [arch("amd64"), accelerator("Exists")]},
        {"id": "ami-amd", "requirements": [arch("amd64"), gpu("DoesNotExist"), accelerator("DoesNotExist")]},
        {"id": "ami-arm", "requirements": [arch("arm64"), gpu("DoesNotExist"), accelerator("DoesNotExist")]},
    ])
}

fn class(spec: Value, amis: Value) -> EC2NodeClass {
    let mut all = json!({"amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [],
        "securityGroupSelectorTerms": []});
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let spec: EC2NodeClassSpec = serde_json::from_value(all).unwrap();
    let subnet = Subnet { id: "s".to_owned(), zone: "us-west-2a".to_owned(), zone_id: None };
    let mut class = EC2NodeClass {
        spec: Some(spec),
        status: Some(EC2NodeClassStatus {
            amis: serde_json::from_value(amis).unwrap(),
            subnets: Some(vec![subnet]),
            ..EC2NodeClassStatus::default()
        }),
        ..EC2NodeClass::default()
    };
    class.metadata.name = Some("default".to_owned());
    class
}

/// Returns a pool with one requirement, and a class name that it uses.
fn pool(class: &str, key: &str, values: &[&str]) -> Arc<NodePool> {
    let requirement = json!({"key": key, "operator": "In", "values": values});
    let pool = json!({"metadata": {"name": "pool"}, "spec": {"template": {"spec": {"requirements": [requirement],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class}}}}});
    Arc::new(serde_json::from_value(pool).unwrap())
}

fn chosen(class: &EC2NodeClass, pools: &[Arc<NodePool>]) -> ValidationTarget {
    choose_target(&catalogue(), class, pools, &LabelRules::aws()).unwrap()
}

/// Returns the type and the image for pools of these instance families.
fn for_families(families: &[&str]) -> (String, String) {
    let target = chosen(&class(json!({}), images()), &[pool("default", aws::INSTANCE_FAMILY, families)]);
    (target.instance_type, target.image_id)
}

fn texts(instance_type: &str, image_id: &str) -> (String, String) {
    (instance_type.to_owned(), image_id.to_owned())
}

#[tokio::test(start_paused = true)]
async fn without_pools_a_fallback_type_is_used() {
    let target = chosen(&class(json!({}), images()), &[pool("other", aws::INSTANCE_FAMILY, &["c5"])]);
    assert_eq!((target.instance_type.as_str(), target.image_id.as_str()), ("m6g.large", "ami-arm"));
    assert_eq!((target.max_pods, target.tenancy), (0, "default"));
    let amd = json!([{"id": "ami-amd", "requirements": [images()[2]["requirements"][0]]}]);
    assert_eq!(chosen(&class(json!({}), amd), &[]).instance_type, "m5.large");
}

// spec 06 #56
#[tokio::test(start_paused = true)]
async fn types_without_devices_come_first() {
    assert_eq!(for_families(&["g5", "m6i"]), texts("m6i.large", "ami-amd"));
    assert_eq!(for_families(&["g5"]), texts("g5.xlarge", "ami-nvidia"));
    assert_eq!(for_families(&["inf2"]), texts("inf2.xlarge", "ami-neuron"));
}

// spec 06 #54: a1 types cannot run AL2023.
#[tokio::test(start_paused = true)]
async fn a_pool_of_incompatible_types_gives_a_fallback_type() {
    assert_eq!(for_families(&["a1"]), texts("m6g.large", "ami-arm"));
}

// spec 06 #55
#[tokio::test(start_paused = true)]
async fn interfaces_that_the_fallback_types_cannot_have_give_another_type() {
    let interfaces = json!([
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "interface"},
    ]);
    let target = chosen(&class(json!({"networkInterfaces": interfaces}), images()), &[]);
    let info = data::catalogue().instance_types.iter().find(|info| info.name == target.instance_type).unwrap();
    assert!(info.network.network_cards.len() > 1, "{target:?}");
}

// spec 06 #57
#[tokio::test(start_paused = true)]
async fn tenancy_is_dedicated_if_a_pool_admits_it() {
    let class = class(json!({}), images());
    let tenancy = |values: &[&str]| chosen(&class, &[pool("default", aws::INSTANCE_TENANCY, values)]).tenancy;
    assert_eq!(tenancy(&["default", "dedicated"]), "dedicated");
    assert_eq!(tenancy(&["dedicated"]), "dedicated");
    assert_eq!(tenancy(&["default"]), "default");
    assert_eq!(chosen(&class, &[pool("default", aws::INSTANCE_FAMILY, &["m5"])]).tenancy, "default");
    // spec 06 §4.7.8: a label of the template is a requirement of the claims
    let mut labelled = pool("default", aws::INSTANCE_FAMILY, &["m5"]);
    let labels = [(aws::INSTANCE_TENANCY.to_owned(), "dedicated".to_owned())].into();
    Arc::make_mut(&mut labelled).spec.template.metadata.get_or_insert_default().labels = Some(labels);
    assert_eq!(chosen(&class, &[labelled]).tenancy, "dedicated");
}

// spec 06 #58
#[tokio::test(start_paused = true)]
async fn windows_uses_m5_large() {
    let alias = json!({"amiSelectorTerms": [{"alias": "windows2022@latest"}]});
    let requirements = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]);
    let class = class(alias, json!([{"id": "ami-windows", "requirements": requirements}]));
    let target = chosen(&class, &[pool("default", aws::INSTANCE_FAMILY, &["m6i"])]);
    assert_eq!(target.instance_type, "m5.large");
}

// spec 06 #122
#[tokio::test(start_paused = true)]
async fn a_class_without_a_usable_type_is_an_error() {
    let arm = json!([images()[3]]);
    let pools = [pool("default", "kubernetes.io/arch", &["amd64"])];
    let error = choose_target(&catalogue(), &class(json!({}), arm), &pools, &LabelRules::aws()).unwrap_err();
    assert_eq!(error.to_string(), "no instance types satisfy requirements of amis [ami-arm]");
    let empty = catalogue();
    empty.set_catalogue(Vec::new(), Vec::new());
    let error = choose_target(&empty, &class(json!({}), images()), &[], &LabelRules::aws()).unwrap_err();
    assert_eq!(error.to_string(), "getting instance types, no instance types found");
}
