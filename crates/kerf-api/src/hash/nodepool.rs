//! Drift hash of a NodePool's template.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::structure::{StructHasher, hash_bytes, hash_i64, hash_list, hash_map, hash_non_empty};
use crate::duration::{Duration, DurationError, parse_nillable};
use crate::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassReference, TemplateMetadata};
use crate::taints::Taint;
use crate::unparsed::DurationText;

/// Returns the hash of a NodePool's template; the annotation `karpenter.sh/nodepool-hash` contains
/// it in decimal. Durations are hashed by value. Fails if a duration cannot be parsed.
pub fn nodepool_hash(template: &NodeClaimTemplate) -> Result<u64, DurationError> {
    let metadata = template.metadata.as_ref().filter(|metadata| **metadata != TemplateMetadata::default());
    Ok(StructHasher::named("NodeClaimTemplate")
        .field("ObjectMeta", metadata.map(object_meta))
        .field("Spec", Some(hash_spec(&template.spec)?))
        .finish())
}

fn object_meta(metadata: &TemplateMetadata) -> u64 {
    StructHasher::named("ObjectMeta")
        .field("Labels", metadata.labels.as_ref().map(hash_map))
        .field("Annotations", metadata.annotations.as_ref().map(hash_map))
        .finish()
}

fn hash_spec(spec: &NodeClaimTemplateSpec) -> Result<u64, DurationError> {
    let grace = spec.termination_grace_period.as_ref().map(|text| text.as_str().parse()).transpose()?;
    let expiry = parse_nillable(spec.expire_after.as_ref().map(DurationText::as_str))?;
    let taints = |taints: &Vec<Taint>| hash_list(taints.iter().map(hash_taint));
    Ok(StructHasher::named("NodeClaimTemplateSpec")
        .field("Taints", spec.taints.as_ref().map(taints))
        .field("StartupTaints", spec.startup_taints.as_ref().map(taints))
        .field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", grace.map(grace_period))
        .field("ExpireAfter", expiry.map(hash_nillable_duration))
        .finish())
}

fn hash_taint(taint: &Taint) -> u64 {
    StructHasher::named("Taint")
        .field("Key", hash_non_empty(&taint.key))
        .field("Value", taint.value.as_deref().and_then(hash_non_empty))
        .field("Effect", hash_non_empty(taint.effect.as_str()))
        .field("TimeAdded", taint.time_added.as_ref().map(hash_time))
        .finish()
}

fn node_class_ref(reference: &NodeClassReference) -> u64 {
    StructHasher::named("NodeClassReference")
        .field("Kind", hash_non_empty(&reference.kind))
        .field("Name", hash_non_empty(&reference.name))
        .field("Group", hash_non_empty(&reference.group))
        .finish()
}

fn grace_period(duration: Duration) -> u64 {
    let nanos = (duration != Duration::ZERO).then(|| hash_i64(duration.nanos()));
    StructHasher::named("Duration").field("Duration", nanos).finish()
}

fn hash_nillable_duration(duration: Duration) -> u64 {
    StructHasher::named("NillableDuration").field("Duration", Some(hash_i64(duration.nanos()))).finish()
}

/// Hashes a time in Go's binary form: version, seconds since year one, nanoseconds, UTC offset in
/// minutes.
fn hash_time(time: &Time) -> u64 {
    const YEAR_ONE: i64 = 62_135_596_800;
    let mut binary = [0; 15];
    binary[0] = 1;
    binary[1..9].copy_from_slice(&(time.0.as_second() + YEAR_ONE).to_be_bytes());
    binary[9..13].copy_from_slice(&time.0.subsec_nanosecond().to_be_bytes());
    StructHasher::named("Time").field("Time", Some(hash_bytes(&binary))).finish()
}
