//! Converts a planned claim into a NodeClaim and creates it (spec 02 §12.1).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kerf_api::annotations::kerf::{NEVER_READY_REPLACEMENTS, REPLACES_NEVER_READY};
use kerf_api::annotations::{NODECLAIM_MIN_VALUES_RELAXED, NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use kerf_api::hash;
use kerf_api::labels::HOSTNAME;
use kerf_api::nodeclaim::{NodeClaim, NodeClaimSpec, ResourceRequirements};
use kerf_api::nodepool::NodePool;
use kerf_api::requirement::RequirementWithMinValues;
use kerf_api::unparsed::QuantityText;
use kerf_engine::PlannedClaim;
use kerf_engine::requirement::SelectorEntry;
use kerf_runtime::ApiError;
use kerf_state::NeverReadyClaim;
use tracing::info;

use super::report;
use crate::actions;
use crate::context::Context;
use crate::error::Error;
use kerf_operator::logs::{json, reference};

/// Builds the NodeClaim to create. It carries the hash of the NodePool version that it was planned
/// from, even if the NodePool has changed since.
pub(crate) fn build_claim(planned: &PlannedClaim, pool: &NodePool) -> NodeClaim {
    let template = &pool.spec.template;
    let requests = planned.requests.iter().map(|(name, q)| (name.to_string(), QuantityText::from(q.to_string())));
    let requirements = planned.launch.requirements.to_entries();
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", planned.pool)),
            labels: Some(planned.launch.labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()),
            annotations: Some(annotations(planned, pool)),
            owner_references: Some(vec![owner(pool)]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            expire_after: template.spec.expire_after.clone(),
            node_class_ref: template.spec.node_class_ref.clone(),
            requirements: requirements.into_iter().filter(|entry| entry.key != HOSTNAME).map(requirement).collect(),
            resources: Some(ResourceRequirements { requests: Some(requests.collect()) }),
            startup_taints: template.spec.startup_taints.clone(),
            taints: template.spec.taints.clone(),
            termination_grace_period: template.spec.termination_grace_period.clone(),
        },
        status: None,
    }
}

/// Records on a claim which claim it replaces because that claim's node was never Ready. So the
/// number of replacements in a row is known after a restart, too.
pub(crate) fn annotate_never_ready(claim: &mut NodeClaim, replaced: &NeverReadyClaim) {
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.insert(REPLACES_NEVER_READY.to_owned(), replaced.name.to_string());
    annotations.insert(NEVER_READY_REPLACEMENTS.to_owned(), replaced.count.to_string());
}

/// Creates a claim, logs and counts it, and returns its name. `reason` is the label of the metric,
/// such as `provisioned`.
pub(crate) async fn create(
    ctx: &Context,
    planned: &PlannedClaim,
    claim: &NodeClaim,
    reason: &str,
) -> Result<String, Error> {
    let created = match actions::claim::create(ctx, claim).await {
        Ok(created) => created,
        Err(cause @ (ApiError::NotFound | ApiError::Conflict | ApiError::TimedOut | ApiError::Other(_))) => {
            return Err(Error::Api { operation: "creating node claim", cause });
        }
    };
    let name = created.metadata.name.clone().unwrap_or_default();
    let types = &planned.launch.instance_types;
    let requests: BTreeMap<&str, String> =
        planned.requests.iter().map(|(name, amount)| (name.as_str(), amount.to_string())).collect();
    info!(
        NodePool = %reference(&planned.pool),
        NodeClaim = %reference(&name),
        requests = %json(&requests),
        "instance-types" = report::join_names(types.iter(), types.len()),
        "created nodeclaim"
    );
    ctx.metrics.claim_created(&created, reason);
    Ok(name)
}

fn annotations(planned: &PlannedClaim, pool: &NodePool) -> BTreeMap<String, String> {
    let template = &pool.spec.template;
    let template_annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.clone());
    let mut annotations: BTreeMap<String, String> = template_annotations.unwrap_or_default();
    if let Ok(hash) = hash::nodepool_hash(template) {
        annotations.insert(NODEPOOL_HASH.to_owned(), hash.to_string());
        annotations.insert(NODEPOOL_HASH_VERSION.to_owned(), hash::NODEPOOL_HASH_VERSION.to_owned());
    }
    let relaxed = if planned.min_values_relaxed { "true" } else { "false" };
    annotations.insert(NODECLAIM_MIN_VALUES_RELAXED.to_owned(), relaxed.to_owned());
    annotations
}

fn owner(pool: &NodePool) -> OwnerReference {
    OwnerReference {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

fn requirement(entry: SelectorEntry) -> RequirementWithMinValues {
    let values: Vec<String> = entry.values.iter().map(ToString::to_string).collect();
    RequirementWithMinValues {
        key: entry.key.to_string(),
        operator: entry.operator,
        values: (!values.is_empty()).then_some(values),
        min_values: entry.min_values.map(i64::from),
    }
}
