//! Tests of images against the EC2 in memory.

use std::time::Duration;

use kerf_api::ec2nodeclass::{Ami, EC2NodeClassSpec};
use serde_json::json;

use super::matching::AmiMatch;
use super::*;
use crate::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use crate::memory::testing::aws;
use crate::memory::{AwsFault, AwsFaultRule, MemoryAws};
use crate::settings::ClusterFacts;

fn class(terms: serde_json::Value) -> EC2NodeClass {
    EC2NodeClass {
        spec: Some(EC2NodeClassSpec {
            ami_selector_terms: serde_json::from_value(terms).unwrap(),
            ..EC2NodeClassSpec::default()
        }),
        ..EC2NodeClass::default()
    }
}

fn amis_for(aws: &MemoryAws, kubernetes_version: &str) -> Amis {
    let facts = ClusterFacts { kubernetes_version: kubernetes_version.to_owned(), ..ClusterFacts::default() };
    Amis::new(&aws.ports(), &AwsSettings::new("demo"), ClusterFactsHolder::new(facts), aws.clock())
}

fn amis(aws: &MemoryAws) -> Amis {
    amis_for(aws, "1.34")
}

/// Returns an EC2 whose only images are these: ID, architecture, name, day of creation in January
/// 2026, and whether it is deprecated.
fn aws_with_images(images: &[(&str, &str, &str, i32, bool)]) -> MemoryAws {
    let aws = aws();
    aws.change_account(|account| {
        account.images.clear();
        for (id, architecture, name, day, is_deprecated) in images {
            let image = Image {
                id: (*id).to_owned(),
                name: (*name).to_owned(),
                architecture: (*architecture).to_owned(),
                owner_id: account.account_id.clone(),
                state: "available".to_owned(),
                created_at: format!("2026-01-{day:02}T00:00:00Z").parse().ok(),
                deprecated_at: is_deprecated.then(|| "2026-01-01T00:00:00Z".parse().unwrap()),
                tags: [("team".to_owned(), "a".to_owned())].into(),
            };
            account.images.insert(image.id.clone(), image);
        }
    });
    aws
}

async fn ids(aws: &MemoryAws, terms: serde_json::Value) -> String {
    let list = amis(aws).list(&class(terms)).await.unwrap();
    list.iter().map(|ami| ami.id.as_str()).collect::<Vec<_>>().join(" ")
}

/// Shows each image as its name with its requirements.
fn shown(list: &[ResolvedAmi]) -> String {
    let line = |ami: &ResolvedAmi| format!("{}: {}", ami.name, requirements_text(&ami.requirements));
    list.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn images_of_an_alias_have_the_requirements_of_their_variants() {
    let aws = aws();
    let list = amis(&aws).list(&class(json!([{"alias": "al2023@latest"}]))).await.unwrap();
    insta::assert_snapshot!(shown(&list));
}

#[tokio::test(start_paused = true)]
async fn one_image_can_have_several_variants_in_a_fixed_order() {
    let aws = aws();
    let list = amis(&aws).list(&class(json!([{"alias": "bottlerocket@latest"}]))).await.unwrap();
    insta::assert_snapshot!(shown(&list));
}

// spec 05 #77: all leading `v`s of a Bottlerocket version are removed
#[test]
fn a_version_of_bottlerocket_may_begin_with_v() {
    for alias in ["bottlerocket@1.52.0", "bottlerocket@v1.52.0", "bottlerocket@vv1.52.0"] {
        let alias = kerf_api::ec2nodeclass::Alias::parse(alias).unwrap();
        let parameters = alias::parameters(&alias, "1.34");
        assert!(!parameters.is_empty());
        for parameter in parameters {
            assert!(parameter.name.ends_with("/1.52.0/image_id"), "{}", parameter.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn windows_images_require_the_build_of_windows() {
    let aws = aws();
    let list = amis(&aws).list(&class(json!([{"alias": "windows2022@latest"}]))).await.unwrap();
    let requirements = "kubernetes.io/os In windows; kubernetes.io/arch In amd64; \
                        node.kubernetes.io/windows-build In 10.0.20348";
    assert!(shown(&list).ends_with(requirements), "{}", shown(&list));
}

// spec 05 #75, spec 06 #5, #6
#[tokio::test(start_paused = true)]
async fn aliases_without_images_for_the_kubernetes_version_fail_before_any_call() {
    let rejection = |alias: &'static str, version: &'static str| async move {
        let aws = aws();
        aws.change_account(|account| account.publish_eks_images(version, "20251120", "1.52.0"));
        let result = amis_for(&aws, version).list(&class(json!([{"alias": alias}]))).await;
        match result {
            Ok(_) => None,
            Err(error) => {
                assert!(aws.calls().is_empty());
                Some(error.to_string())
            }
        }
    };
    let text = rejection("al2@latest", "1.33").await.unwrap();
    assert!(text.starts_with("getting AMI queries, AL2 aliases are no longer supported on EKS 1.33+ (see https://"));
    assert_eq!(rejection("al2@latest", "1.32").await, None);
    assert_eq!(
        rejection("windows2025@latest", "1.34").await.unwrap(),
        "getting AMI queries, Windows Server 2025 requires EKS version 1.35 or higher, current version: 1.34"
    );
    assert_eq!(rejection("windows2025@latest", "1.35").await, None);
    let text = rejection("al2023@a@b", "1.34").await.unwrap();
    assert_eq!(text, "getting AMI queries, alias \"al2023@a@b\" is not of the form family@version");
}

// spec 05 §12.4: an alias that becomes unsupported is rejected although an answer is kept.
#[tokio::test(start_paused = true)]
async fn an_alias_is_evaluated_before_kept_answers_are_used() {
    let aws = aws();
    aws.change_account(|account| account.publish_eks_images("1.32", "20251120", "1.52.0"));
    let amis = amis_for(&aws, "1.32");
    let class = class(json!([{"alias": "al2@latest"}]));
    assert_eq!(amis.list(&class).await.unwrap().len(), 4);
    amis.facts.update(|facts| facts.kubernetes_version = "1.33".to_owned());
    assert!(matches!(amis.list(&class).await, Err(AmiError::UnsupportedAlias(_))));
}

// spec 05 #76, spec 06 #7
#[tokio::test(start_paused = true)]
async fn missing_parameters_of_an_alias_are_skipped() {
    let aws = aws();
    aws.change_account(|account| {
        account.publish_eks_images("1.32", "20251120", "1.52.0");
        account
            .parameters
            .retain(|name, _| !name.contains("amazon-linux-2-gpu") && !name.contains("aws-k8s-1.32-nvidia/arm64"));
    });
    let amis = amis_for(&aws, "1.32");
    for (alias, count) in [("al2@latest", 2), ("bottlerocket@latest", 4), ("al2023@latest", 5)] {
        assert_eq!(amis.list(&class(json!([{"alias": alias}]))).await.unwrap().len(), count, "{alias}");
    }
    aws.change_account(|account| account.parameters.clear());
    let error = amis_for(&aws, "1.32").list(&class(json!([{"alias": "al2@latest"}]))).await.unwrap_err();
    assert_eq!(error.to_string(), "getting AMI queries, failed to discover any AMIs for alias (alias=al2@latest)");
}

// spec 05 #77
#[test]
fn paths_of_pinned_versions() {
    let names = |alias: &str| -> Vec<String> {
        let alias = kerf_api::ec2nodeclass::Alias::parse(alias).unwrap();
        let parameters = alias::parameters(&alias, "1.34").into_iter();
        parameters.map(|parameter| format!("{} mutable: {}", parameter.name, parameter.is_mutable)).collect()
    };
    let all =
        ["bottlerocket@v1.45.0", "bottlerocket@latest", "al2@v20240807", "al2023@v20240807", "windows2019@latest"];
    insta::assert_snapshot!(all.map(|alias| format!("{alias}\n{}\n", names(alias).join("\n"))).join("\n"));
}

// spec 05 #78
#[tokio::test(start_paused = true)]
async fn a_deprecated_image_is_used_only_if_all_are_deprecated() {
    let by_tag = || json!([{"tags": {"team": "a"}}]);
    let aws = aws_with_images(&[("ami-1", "arm64", "n", 1, false), ("ami-2", "arm64", "n", 2, true)]);
    assert_eq!(ids(&aws, by_tag()).await, "ami-1");
    let aws = aws_with_images(&[("ami-1", "arm64", "n", 1, true), ("ami-2", "arm64", "n", 2, true)]);
    assert_eq!(ids(&aws, by_tag()).await, "ami-2");
    // Of equal times the greater name is used, then the first.
    let aws = aws_with_images(&[("ami-1", "arm64", "b", 1, false), ("ami-2", "arm64", "a", 1, false)]);
    assert_eq!(ids(&aws, by_tag()).await, "ami-1");
    let aws = aws_with_images(&[("ami-1", "arm64", "a", 1, false), ("ami-2", "arm64", "a", 1, false)]);
    assert_eq!(ids(&aws, by_tag()).await, "ami-1");
}

// spec 05 #79
#[tokio::test(start_paused = true)]
async fn the_newest_image_is_first_and_ties_are_ordered_by_id() {
    let by_tag = || json!([{"tags": {"team": "a"}}]);
    let aws = aws_with_images(&[("ami-2", "arm64", "n", 1, false), ("ami-1", "x86_64", "n", 1, false)]);
    assert_eq!(ids(&aws, by_tag()).await, "ami-1 ami-2");
    let aws = aws_with_images(&[("ami-2", "arm64", "n", 2, false), ("ami-1", "x86_64", "n", 1, false)]);
    assert_eq!(ids(&aws, by_tag()).await, "ami-2 ami-1");
}

// spec 05 #80
#[tokio::test(start_paused = true)]
async fn images_in_other_states_or_of_other_architectures_are_ignored() {
    let aws = aws_with_images(&[("ami-1", "i386", "n", 1, false), ("ami-2", "x86_64", "n", 1, false)]);
    aws.change_account(|account| account.images.get_mut("ami-2").unwrap().state = "pending".to_owned());
    assert_eq!(ids(&aws, json!([{"id": "ami-1"}, {"id": "ami-2"}])).await, "");
}

// spec 05 #81
#[test]
fn owners_depend_on_the_term() {
    let owners = |term: serde_json::Value| term_query(&serde_json::from_value(term).unwrap()).owners.join(" ");
    assert_eq!(owners(json!({"name": "a*"})), "self amazon");
    assert_eq!(owners(json!({"name": "a*", "owner": "111122223333"})), "111122223333");
    assert_eq!(owners(json!({"tags": {"a": "b"}})), "");
    assert_eq!(owners(json!({"tags": {"a": "b"}, "owner": "self"})), "self");
}

#[tokio::test(start_paused = true)]
async fn ids_and_parameters_form_one_call_without_owners() {
    let aws = aws_with_images(&[("ami-1", "arm64", "n", 1, false), ("ami-2", "x86_64", "n", 1, false)]);
    aws.change_account(|account| account.parameters.insert("/my/image".to_owned(), "ami-2".to_owned()));
    assert_eq!(ids(&aws, json!([{"id": "ami-1"}, {"ssmParameter": "/my/image"}])).await, "ami-1 ami-2");
    let operations: Vec<&str> = aws.calls().iter().map(|call| call.operation).collect();
    assert_eq!(operations, ["GetParameter", "DescribeImages"]);
}

// spec 05 #82
#[tokio::test(start_paused = true)]
async fn a_missing_parameter_is_ignored_and_other_errors_are_not() {
    let aws = aws_with_images(&[]);
    aws.change_account(|account| account.parameters.insert("text".to_owned(), "no image".to_owned()));
    assert_eq!(ids(&aws, json!([{"ssmParameter": "missing"}, {"ssmParameter": "text"}])).await, "");
    aws.set_faults(vec![AwsFaultRule::always("GetParameter", AwsFault::Throttled)]);
    let error = amis(&aws).list(&class(json!([{"ssmParameter": "missing"}]))).await.unwrap_err();
    assert!(matches!(error, AmiError::Parameter(_)), "{error}");
}

// spec 05 #83, spec 06 #119, #128
#[tokio::test(start_paused = true)]
async fn latest_parameters_of_deprecated_images_are_read_again() {
    let aws = aws();
    let amis = amis(&aws);
    let (latest, pinned) = (class(json!([{"alias": "al2023@latest"}])), json!([{"alias": "al2023@v20251120"}]));
    let pinned = class(pinned);
    amis.list(&latest).await.unwrap();
    amis.list(&pinned).await.unwrap();
    let reads = || aws.calls().iter().filter(|call| call.operation == "GetParameter").count();
    assert_eq!(reads(), 10);
    amis.forget_deprecated_parameters().await.unwrap();
    amis.list(&latest).await.unwrap();
    assert_eq!(reads(), 10, "no image is deprecated");
    aws.change_account(|account| {
        for image in account.images.values_mut().filter(|image| image.name.contains("arm64")) {
            image.deprecated_at = Some("2026-01-01T00:00:00Z".parse().unwrap());
        }
    });
    aws.set_faults(vec![AwsFaultRule::once("DescribeImages", AwsFault::Throttled)]);
    assert!(amis.forget_deprecated_parameters().await.is_err());
    amis.forget_deprecated_parameters().await.unwrap();
    amis.list(&latest).await.unwrap();
    amis.list(&pinned).await.unwrap();
    assert_eq!(reads(), 12, "two parameters of the latest version name deprecated images");
}

// spec 05 #84
#[tokio::test(start_paused = true)]
async fn tags_of_an_image_are_no_requirements() {
    let aws = aws_with_images(&[("ami-1", "arm64", "n", 1, false)]);
    aws.change_account(|account| {
        let tags = &mut account.images.get_mut("ami-1").unwrap().tags;
        tags.insert("node.kubernetes.io/instance-type".to_owned(), "m5.large".to_owned());
    });
    let list = amis(&aws).list(&class(json!([{"id": "ami-1"}]))).await.unwrap();
    assert_eq!(shown(&list), "n: kubernetes.io/arch In arm64");
}

// spec 06 #8
#[tokio::test(start_paused = true)]
async fn an_image_becomes_deprecated_while_its_answer_is_kept() {
    let aws = aws_with_images(&[("ami-1", "arm64", "n", 1, false)]);
    let soon = aws.clock().now().saturating_add(Duration::from_secs(30)).unwrap();
    aws.change_account(|account| account.images.get_mut("ami-1").unwrap().deprecated_at = Some(soon));
    let (amis, class) = (amis(&aws), class(json!([{"id": "ami-1"}])));
    assert!(!amis.list(&class).await.unwrap()[0].is_deprecated);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(amis.list(&class).await.unwrap()[0].is_deprecated);
    assert_eq!(aws.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn descriptions_are_kept_for_the_refresh_interval() {
    let aws = aws();
    let (amis, class) = (amis(&aws), class(json!([{"alias": "al2023@latest"}])));
    let described = || aws.calls().iter().filter(|call| call.operation == "DescribeImages").count();
    for (advance_secs, calls) in [(0, 1), (59, 1), (1, 2)] {
        tokio::time::advance(Duration::from_secs(advance_secs)).await;
        amis.list(&class).await.unwrap();
        assert_eq!(described(), calls);
    }
}

fn catalogue(aws: &MemoryAws) -> InstanceTypeCatalogue {
    let settings = InstanceTypeSettings::new("us-west-2", &AwsSettings::new("demo"));
    let pricing = Arc::new(crate::pricing::Pricing::new("us-west-2"));
    let unavailable = Arc::new(crate::unavailable_offerings::UnavailableOfferings::new(aws.clock()));
    InstanceTypeCatalogue::new(settings, pricing, unavailable, aws.clock())
}

fn status_ami(id: &str, requirements: serde_json::Value) -> Ami {
    Ami { id: id.to_owned(), requirements: serde_json::from_value(requirements).unwrap(), ..Ami::default() }
}

// spec 05 §12.5
#[tokio::test(start_paused = true)]
async fn a_type_uses_the_first_image_whose_requirements_it_meets() {
    let aws = aws();
    let catalogue = catalogue(&aws);
    catalogue.refresh(aws.ports().ec2.as_ref()).await.unwrap();
    let mut class = class(json!([]));
    class.status = Some(kerf_api::ec2nodeclass::EC2NodeClassStatus {
        subnets: Some(vec![kerf_api::ec2nodeclass::Subnet {
            id: "s1".to_owned(),
            zone: "us-west-2a".to_owned(),
            zone_id: None,
        }]),
        ..Default::default()
    });
    let list = catalogue.list(&class).unwrap();
    let types: Vec<_> = list.iter().collect();
    let matched = |amis: &[Ami]| {
        let matches = map_types_to_amis(&types, amis).map_err(|error| error.to_string())?;
        let names = |entry: &AmiMatch<'_, '_>| {
            let names: Vec<&str> = entry.types.iter().map(|t| t.instance_type().name.as_str()).collect();
            format!("{}: {}", entry.ami.id, names.join(" "))
        };
        Ok::<_, String>(matches.iter().map(names).collect::<Vec<_>>().join("; "))
    };
    let arch = |arch: &str| json!([{"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}]);
    let gpus = json!([{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"}]);
    let no_gpus = json!([{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}]);
    let unknown = json!([{"key": "example.com/unknown", "operator": "Exists"}]);
    let amd = status_ami("ami-amd", arch("amd64"));
    let arm = status_ami("ami-arm", arch("arm64"));
    assert_eq!(matched(&[arm.clone(), amd.clone()]).unwrap(), "ami-arm: m6g.large; ami-amd: m5.large m5.xlarge");
    assert_eq!(matched(&[status_ami("ami-gpu", gpus.clone()), arm.clone()]).unwrap(), "ami-arm: m6g.large");
    let first = status_ami("ami-plain", no_gpus);
    assert_eq!(matched(&[first, arm]).unwrap(), "ami-plain: m5.large m5.xlarge m6g.large");
    let error =
        matched(&[status_ami("ami-1", gpus), status_ami("ami-2", unknown.clone()), status_ami("ami-1", unknown)]);
    assert_eq!(error.unwrap_err(), "no instance types satisfy requirements of amis [ami-1 ami-2]");
    assert_eq!(matched(&[]).unwrap_err(), "no amis exist given constraints");
}
