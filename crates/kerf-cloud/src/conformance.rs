//! Conformance tests that the test suite of each provider calls. They use the [`CloudProvider`]
//! trait alone and check what the controllers rely on: a launch can be repeated in one process, a
//! launched instance is listed and can be read, a terminated instance ends as not found, a
//! malformed provider ID is an error, and each instance type has the labels and offerings that the
//! engine needs.

use kerf_api::labels;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_api::slim::Str;
use kerf_engine::requirement::{Requirement, Requirements, UndefinedLabels};

use crate::error::InstanceError;
use crate::provider::CloudProvider;

/// Number of delete calls after which a termination counts as stuck.
const DELETE_ATTEMPTS_MAX: usize = 10;

/// The objects and steps that the checks need.
#[derive(Debug)]
pub struct ConformanceInput<'a, W> {
    /// A claim that can be launched.
    pub claim: &'a NodeClaim,
    /// A pool that the claim could belong to.
    pub pool: &'a NodePool,
    /// A well-formed provider ID that no instance has.
    pub unknown_provider_id: &'a str,
    /// Lets time pass between two calls of `delete`, as the controllers do (5 s).
    pub wait: W,
}

/// Runs every check. Panics at the first check that fails.
pub async fn check(provider: &dyn CloudProvider, input: ConformanceInput<'_, impl AsyncFn()>) {
    let claim = input.claim;
    check_instance_types(provider, input.pool).await;
    check_instance_lifecycle(provider, claim, input.wait).await;
    check_unknown_instances(provider, input.unknown_provider_id).await;
    assert!(!provider.node_classes().is_empty(), "a provider supports at least one kind of node class");
    assert!(provider.supports(&claim.spec.node_class_ref), "the claim refers to a kind that the provider supports");
}

async fn check_instance_types(provider: &dyn CloudProvider, pool: &NodePool) {
    let types = expect_ok(provider.instance_types(pool).await, "instance types can be listed");
    assert!(!types.is_empty(), "the provider has instance types");
    for instance_type in types.iter() {
        for key in [labels::INSTANCE_TYPE, labels::ARCH, labels::OS, labels::ZONE, labels::CAPACITY_TYPE] {
            assert!(
                instance_type.requirements.contains_key(key),
                "instance type {} has a requirement on {key}",
                instance_type.name
            );
        }
        for (i, offering) in instance_type.offerings.iter().enumerate() {
            for key in labels::OFFERING_LABELS {
                let values = offering.requirements.get(key).and_then(|r| r.allowed_values()).unwrap_or_default();
                assert_eq!(values.len(), 1, "offering {i} of {} has exactly one value of {key}", instance_type.name);
            }
            let undefined = UndefinedLabels::AllowWellKnown(provider.label_rules());
            let fits = instance_type.requirements.compatible(&offering.requirements, undefined);
            assert_eq!(fits, Ok(()), "offering {i} of {} is compatible with its instance type", instance_type.name);
            assert!(
                instance_type.offerings[..i].iter().all(|other| other.requirements != offering.requirements),
                "offering {i} of {} is listed once",
                instance_type.name
            );
        }
    }
}

async fn check_instance_lifecycle(provider: &dyn CloudProvider, claim: &NodeClaim, wait: impl AsyncFn()) {
    let instance = expect_ok(provider.create(claim).await, "the claim can be launched");
    assert!(!instance.provider_id.is_empty(), "an instance has a provider ID");
    let again = expect_ok(provider.create(claim).await, "a launch can be repeated");
    assert_eq!(again.provider_id, instance.provider_id, "a claim is launched at most once");
    for key in [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE] {
        assert!(instance.labels.contains_key(key), "an instance has the label {key}");
    }
    let requirements: Requirements = claim
        .spec
        .requirements
        .iter()
        .map(|r| {
            let values: Vec<_> = r.values.iter().flatten().map(Str::from).collect();
            Requirement::new(provider.label_rules(), &r.key, &r.operator, &values, None)
                .unwrap_or_else(|error| panic!("the claim's requirement on {} is valid: {error}", r.key))
        })
        .collect();
    for requirement in &requirements {
        if let Some(value) = instance.labels.get(requirement.key().as_str()) {
            assert!(
                requirement.has(value),
                "the instance's label {}={value} meets the claim's requirement",
                requirement.key()
            );
        }
    }
    let read_back = expect_ok(provider.get(&instance.provider_id).await, "a launched instance can be read");
    assert_eq!(read_back.provider_id, instance.provider_id, "the provider returns the requested instance");
    let listed = expect_ok(provider.list().await, "instances can be listed");
    assert!(
        listed.iter().any(|other| other.provider_id == instance.provider_id && !other.is_terminating),
        "a launched instance is listed: {} is not in {listed:?}",
        instance.provider_id
    );

    for attempt in 1.. {
        match provider.delete(&instance.provider_id, Some(claim)).await {
            Err(InstanceError::NotFound(_)) => break,
            Ok(()) => {
                assert!(attempt < DELETE_ATTEMPTS_MAX, "a termination completes");
                wait().await;
            }
            Err(other) => panic!("an instance can be terminated: {other}"),
        }
    }
    let after_delete = provider.get(&instance.provider_id).await;
    assert!(
        matches!(after_delete, Err(InstanceError::NotFound(_))),
        "a terminated instance is not found: {after_delete:?}"
    );
    let listed = expect_ok(provider.list().await, "instances can be listed");
    assert!(
        !listed.iter().any(|other| other.provider_id == instance.provider_id && !other.is_terminating),
        "a terminated instance is not listed: {} is in {listed:?}",
        instance.provider_id
    );
}

async fn check_unknown_instances(provider: &dyn CloudProvider, unknown_id: &str) {
    let result = provider.get(unknown_id).await;
    assert!(matches!(result, Err(InstanceError::NotFound(_))), "instance {unknown_id:?} is not found: {result:?}");
    let deleted = provider.delete(unknown_id, None).await;
    assert!(
        matches!(deleted, Err(InstanceError::NotFound(_))),
        "instance {unknown_id:?} cannot be terminated: {deleted:?}"
    );
    for malformed in ["", "nonsense", "other://a/b"] {
        assert!(provider.get(malformed).await.is_err(), "provider ID {malformed:?} is an error");
        assert!(provider.delete(malformed, None).await.is_err(), "provider ID {malformed:?} is an error");
    }
}

/// Returns the value of a call, or panics with the expectation and the provider's error.
#[track_caller]
fn expect_ok<T, E: std::fmt::Display>(result: Result<T, E>, expectation: &str) -> T {
    result.unwrap_or_else(|error| panic!("{expectation}, but: {error}"))
}
