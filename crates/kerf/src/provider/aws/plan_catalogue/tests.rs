//! The region, the instance types and the notices of plans for EC2.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::num::NonZeroUsize;

use super::*;
use crate::input::load_text;

const CLASS: &str = "\
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: r
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
";

fn pool(requirements: &str) -> String {
    format!(
        "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: default}}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}\n      requirements: [{requirements}]\n"
    )
}

fn objects(manifest: &str) -> Objects {
    load_text(manifest, NonZeroUsize::MIN).unwrap()
}

fn plan_types(region: Option<&str>, manifest: &str) -> Result<Ec2PlanCatalogue, Problem> {
    Ec2PlanCatalogue::new(region, &AwsSettings::new("demo"), &objects(manifest))
}

fn default_class() -> NodeClassReference {
    NodeClassReference { group: "karpenter.k8s.aws".into(), kind: "EC2NodeClass".into(), name: "default".into() }
}

fn warnings(types: &Ec2PlanCatalogue) -> Vec<&str> {
    let notices = types.notices.iter();
    notices
        .filter_map(|notice| match notice {
            PlanNotice::Warning(text) => Some(text.as_str()),
            PlanNotice::Note(_) => None,
        })
        .collect()
}

// spec 09 #23
#[test]
fn a_class_without_status_is_planned_in_all_zones_of_the_default_region() {
    let types = plan_types(None, CLASS).unwrap();
    assert_eq!(
        types.notices,
        [
            PlanNotice::Note(
                "EC2 in us-east-1 (the default; --region selects another): instance types of 2026-10-27 (moto 5.2.5), \
                 on-demand prices of 2026-07-06 (Karpenter AWS provider v1.14.1); spot is priced as on-demand"
                    .into()
            ),
            PlanNotice::Warning(
                "EC2NodeClass `default`: its status does not tell, so the plan assumes: subnets (all zones of \
                 us-east-1), images (amd64 and arm64)"
                    .into()
            ),
        ]
    );
    let list = types.instance_types(&default_class()).unwrap();
    let m5 = list.types().iter().find(|found| found.name == "m5.large").unwrap();
    let zones = m5.requirements.get(labels::ZONE).unwrap();
    assert!(["us-east-1a", "us-east-1f"].into_iter().all(|zone| zones.has(zone)), "{zones:?}");
    assert!(m5.offerings.iter().all(|offering| offering.price == kerf_engine::Price::from_nanos(96_000_000)));
    let other = NodeClassReference { name: "other".into(), ..default_class() };
    assert!(types.instance_types(&other).is_none(), "a class that is not in the input");
}

#[test]
fn the_region_is_that_of_the_user_or_of_the_zones() {
    let note = |types: Ec2PlanCatalogue| match types.notices.into_iter().next() {
        Some(PlanNotice::Note(text)) => text,
        other => panic!("{other:?}"),
    };
    let status = "status: {subnets: [{id: subnet-1, zone: eu-west-1a}]}\n";
    let in_europe = format!("{CLASS}{status}");
    assert!(note(plan_types(None, &in_europe).unwrap()).starts_with(
        "EC2 in eu-west-1: instance types of 2026-10-27 (moto 5.2.5), on-demand prices of us-east-1, as none of \
             eu-west-1 are shipped, of 2026-07-06"
    ));
    assert!(note(plan_types(Some("us-west-2"), &in_europe).unwrap()).starts_with("EC2 in us-west-2: "));
    let zone = "{key: topology.kubernetes.io/zone, operator: In, values: [ap-south-1a, us-west-2-lax-1a, ap-south-1b]}";
    let types = plan_types(None, &format!("{CLASS}{}", pool(zone))).unwrap();
    assert!(
        warnings(&types)[0]
            .starts_with("the input also has zones of us-west-2: the plan knows only those of ap-south-1"),
        "{:?}",
        types.notices
    );
    let foreign = plan_types(Some("us-west-2"), &in_europe).unwrap();
    assert!(
        warnings(&foreign)
            .contains(&"EC2NodeClass `default` has subnets in eu-west-1a: the plan knows no instance types there")
    );
}

// spec 09 #21
#[test]
fn an_unknown_region_is_a_problem_that_lists_the_known_ones() {
    let problem = super::super::check_region("eu-west-9").unwrap_err();
    assert_eq!(problem.to_string(), "--region eu-west-9: Kerf ships no instance types of this region");
    assert!(problem.hint().unwrap().contains("eu-west-1, eu-west-2, eu-west-3, "));
    let zone = "{key: topology.kubernetes.io/zone, operator: In, values: [ap-southeast-7a]}";
    let problem = plan_types(None, &format!("{CLASS}{}", pool(zone))).err().unwrap();
    assert_eq!(
        problem.to_string(),
        "the zones of the input are in ap-southeast-7, and Kerf ships no instance types of this region"
    );
}

// spec 09 #22
#[test]
fn types_that_the_plan_cannot_use_are_listed() {
    let names =
        "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, g4ad.xlarge, x9.large, m8azn.large]}";
    let types = plan_types(Some("me-south-1"), &format!("{CLASS}{}", pool(names))).unwrap();
    assert_eq!(
        warnings(&types)[1..],
        [
            "instance types that the input names and Kerf does not know: g4ad.xlarge, x9.large",
            "instance types that the input names and me-south-1 does not offer: m8azn.large",
        ]
    );
}

#[test]
fn reservations_and_placement_groups_without_status_are_named() {
    let class = format!(
        "{CLASS}  capacityReservationSelectorTerms: [{{id: cr-0123456789abcdef0}}]\n  amiFamily: Windows2022\n"
    )
    .replace("al2023@latest", "windows2022@latest");
    let types = plan_types(None, &class).unwrap();
    assert_eq!(
        warnings(&types),
        ["EC2NodeClass `default`: its status does not tell, so the plan assumes: subnets (all zones of us-east-1), \
          images (amd64), capacity reservations (none)"]
    );
}
