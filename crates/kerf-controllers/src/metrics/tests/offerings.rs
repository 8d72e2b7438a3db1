//! Tests of the offering gauges.

use std::sync::Arc;

use kerf_api::labels;
use kerf_api::slim::{ResourceList, Str};
use kerf_engine::Price;
use kerf_engine::catalogue::{InstanceType, Offering, OfferingState, Overhead};
use kerf_engine::requirement::{Requirement, Requirements};

use super::super::exposition::Exposition;
use super::*;

pub(super) fn instance_type(name: &str, offerings: &[(&str, &str, i64, bool)]) -> (InstanceType, Vec<OfferingState>) {
    let offering = |(capacity_type, zone, cents, _): &(&str, &str, i64, bool)| {
        let mut requirements = Requirements::default();
        requirements.add(Requirement::one_of(labels::CAPACITY_TYPE, [Str::from(*capacity_type)]));
        requirements.add(Requirement::one_of(labels::ZONE, [Str::from(*zone)]));
        Offering {
            requirements: requirements.into(),
            price: Price::from_nanos(cents * 10_000_000),
            capacity_override: None,
            overhead_override: None,
        }
    };
    let capacity: ResourceList = serde_json::from_value(json!({"cpu": "2", "memory": "4Gi"})).unwrap();
    let instance_type = InstanceType {
        name: name.into(),
        requirements: Arc::default(),
        offerings: offerings.iter().map(offering).collect(),
        capacity,
        overhead: Overhead::default(),
        volume_limits: Arc::default(),
    };
    let state = |is_available| OfferingState { is_available, reservation_capacity: 0 };
    (instance_type, offerings.iter().map(|offering| state(offering.3)).collect())
}

fn offering_metrics(metrics: &Metrics, pools: &[&str], has_reserved: bool) -> String {
    let mut out = Exposition::default();
    metrics.offerings.write(&mut out, |pool| pools.contains(&pool), has_reserved);
    out.text
}

// spec 07 #51
#[test]
fn with_reserved_capacity_every_type_has_a_reserved_series() {
    let metrics = Metrics::new();
    let types = [
        instance_type("a", &[("on-demand", "z1", 10, true), ("spot", "z1", 3, false), ("on-demand", "z2", 10, true)]),
        instance_type("b", &[("on-demand", "z1", 20, true), ("reserved", "z1", 0, true)]),
    ];
    metrics.offerings.set_pool_types("p", &types.into_iter().collect());
    let text = offering_metrics(&metrics, &["p"], true);
    let head = "karpenter_cloudprovider_instance_type_offering";
    for line in [
        "available{instance_type=\"a\",capacity_type=\"on-demand\",zone=\"z1\"} 1",
        "available{instance_type=\"a\",capacity_type=\"spot\",zone=\"z1\"} 0",
        "available{instance_type=\"a\",capacity_type=\"reserved\",zone=\"z1\"} 0",
        "available{instance_type=\"a\",capacity_type=\"reserved\",zone=\"z2\"} 0",
        "available{instance_type=\"b\",capacity_type=\"reserved\",zone=\"z1\"} 1",
        "price_estimate{instance_type=\"a\",capacity_type=\"spot\",zone=\"z1\"} 0.03",
        "price_estimate{instance_type=\"a\",capacity_type=\"reserved\",zone=\"z2\"} 0",
    ] {
        assert!(text.lines().any(|served| served == format!("{head}_{line}")), "{line} in {text}");
    }
    assert!(text.contains("karpenter_cloudprovider_instance_type_cpu_cores{instance_type=\"a\"} 2\n"), "{text}");
    assert!(text.contains("karpenter_cloudprovider_instance_type_memory_bytes{instance_type=\"b\"} 4294967296\n"));
    assert!(!offering_metrics(&metrics, &["p"], false).contains("reserved"));
}

#[test]
fn a_pool_without_known_types_hides_no_other_pool() {
    let metrics = Metrics::new();
    metrics
        .offerings
        .set_pool_types("good", &[instance_type("a", &[("on-demand", "z", 10, true)])].into_iter().collect());
    let text = offering_metrics(&metrics, &["broken", "good"], false);
    assert!(
        text.contains("offering_available{instance_type=\"a\",capacity_type=\"on-demand\",zone=\"z\"} 1\n"),
        "{text}"
    );
}

/// An offering is available if it is available to any pool. An offering of no pool is not shown.
#[test]
fn an_offering_is_available_if_any_pool_has_it() {
    let metrics = Metrics::new();
    metrics
        .offerings
        .set_pool_types("p", &[instance_type("a", &[("on-demand", "z", 10, false)])].into_iter().collect());
    metrics.offerings.set_pool_types("q", &[instance_type("a", &[("on-demand", "z", 10, true)])].into_iter().collect());
    let available = "offering_available{instance_type=\"a\",capacity_type=\"on-demand\",zone=\"z\"} ";
    assert!(offering_metrics(&metrics, &["p", "q"], false).contains(&format!("{available}1\n")));
    assert!(
        offering_metrics(&metrics, &["p"], false).contains(&format!("{available}0\n")),
        "the other pool was deleted"
    );
    assert_eq!(offering_metrics(&metrics, &[], false), "");
}
