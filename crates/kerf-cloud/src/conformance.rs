//! Conformance tests that the test suite of each provider calls. They use the [`CloudProvider`]
//! trait alone and check what the controllers rely on: a launch can be repeated, a launched
//! instance is listed and can be read, a terminated instance ends as not found, and each instance
//! type has the labels and offerings that the engine needs.

use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_engine::requirement::{Requirement, Requirements, UndefinedLabels};

use crate::error::InstanceError;
use crate::provider::CloudProvider;

/// Number of delete calls after which a termination counts as stuck.
const DELETE_ATTEMPTS_MAX: usize = 10;

/// Runs every check, with a claim that can be launched and a pool that it could belong to. Panics
/// at the first check that fails.
pub async fn check(provider: &dyn CloudProvider, claim: &NodeClaim, pool: &NodePool) {
    check_instance_types(provider, pool).await;
    check_instance_lifecycle(provider, claim).await;
    check_unknown_instances(provider).await;
    assert!(!provider.node_classes().is_empty(), "a provider supports at least one kind of node class");
    assert!(provider.supports(&claim.spec.node_class_ref), "the claim refers to a kind that the provider supports");
}

async fn check_instance_types(provider: &dyn CloudProvider, pool: &NodePool) {
    let types = expect_ok(provider.instance_types(pool).await, "instance types can be listed");
    assert!(!types.is_empty(), "there are instance types");
    for described in types.iter() {
        for key in [labels::INSTANCE_TYPE, labels::ARCH, labels::OS, labels::ZONE, labels::CAPACITY_TYPE] {
            assert!(described.requirements.contains_key(key), "{} says what its {key} is", described.name);
        }
        for (i, offering) in described.offerings.iter().enumerate() {
            for key in labels::OFFERING_LABELS {
                let values = offering.requirements.get(key).and_then(|r| r.allowed_values()).unwrap_or_default();
                assert_eq!(values.len(), 1, "offering {i} of {} has one {key}", described.name);
            }
            let undefined = UndefinedLabels::AllowWellKnown(provider.label_rules());
            let fits = described.requirements.compatible(&offering.requirements, undefined);
            assert_eq!(fits, Ok(()), "offering {i} of {} is one of the type", described.name);
            assert!(
                described.offerings[..i].iter().all(|other| other.requirements != offering.requirements),
                "offering {i} of {} is there once",
                described.name
            );
        }
    }
}

async fn check_instance_lifecycle(provider: &dyn CloudProvider, claim: &NodeClaim) {
    let machine = expect_ok(provider.create(claim).await, "the claim can be launched");
    assert!(!machine.provider_id.is_empty(), "a machine has a provider id");
    let again = expect_ok(provider.create(claim).await, "a launch can be repeated");
    assert_eq!(again.provider_id, machine.provider_id, "a claim is launched once, however often it is asked for");
    for key in [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE] {
        assert!(machine.labels.contains_key(key), "a machine says its {key}");
    }
    let asked: Requirements = claim
        .spec
        .requirements
        .iter()
        .map(|r| {
            let values: Vec<_> = r.values.iter().flatten().map(Str::from).collect();
            Requirement::new(provider.label_rules(), &r.key, &r.operator, &values, None)
                .unwrap_or_else(|why| panic!("the claim's requirement on {} can be read: {why}", r.key))
        })
        .collect();
    for requirement in &asked {
        if let Some(value) = machine.labels.get(requirement.key().as_str()) {
            assert!(requirement.has(value), "the machine's {}={value} is what was asked for", requirement.key());
        }
    }
    let found = expect_ok(provider.get(&machine.provider_id).await, "what is launched is found");
    assert_eq!(found.provider_id, machine.provider_id, "what is found is what was asked for");
    let listed = expect_ok(provider.list().await, "machines can be listed");
    assert!(
        listed.iter().any(|m| m.provider_id == machine.provider_id && !m.is_terminating),
        "what is launched is listed: {} is not among {listed:?}",
        machine.provider_id
    );

    for attempt in 1.. {
        match provider.delete(&machine.provider_id).await {
            Err(InstanceError::NotFound(_)) => break,
            Ok(()) => assert!(attempt < DELETE_ATTEMPTS_MAX, "a termination ends"),
            Err(other) => panic!("a machine can be terminated: {other}"),
        }
    }
    let gone = provider.get(&machine.provider_id).await;
    assert!(matches!(gone, Err(InstanceError::NotFound(_))), "what is terminated is gone: {gone:?}");
    let listed = expect_ok(provider.list().await, "machines can be listed");
    assert!(
        !listed.iter().any(|m| m.provider_id == machine.provider_id && !m.is_terminating),
        "what is terminated is no longer listed: {} is among {listed:?}",
        machine.provider_id
    );
}

async fn check_unknown_instances(provider: &dyn CloudProvider) {
    for id in ["", "nonsense", "kwok://never-was", "aws:///us-east-1a/i-0000000000000000f"] {
        let found = provider.get(id).await;
        assert!(matches!(found, Err(InstanceError::NotFound(_))), "{id:?} is not found: {found:?}");
        let deleted = provider.delete(id).await;
        assert!(matches!(deleted, Err(InstanceError::NotFound(_))), "{id:?} cannot be terminated: {deleted:?}");
    }
}

/// Returns the value of a call, or panics with the expectation and the provider's error.
#[track_caller]
fn expect_ok<T, E: std::fmt::Display>(outcome: Result<T, E>, what: &str) -> T {
    outcome.unwrap_or_else(|why| panic!("{what}, but: {why}"))
}
