//! The question `launch` (spec 11 §2.3): launches, deletions and reads through the facade of the
//! provider, step by step in one memory.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures::future::join_all;
use kerf_api::annotations::aws as annotations;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::unparsed::Resources;
use kerf_aws::data::ShippedCatalogue;
use kerf_cloud::{CreateError, Instance, InstanceError, ListError};
use kerf_runtime::Causes;
use serde_json::{Value, json};

use super::QuestionError;
use super::calls::{TemplateNames, describe_calls_with};
use super::controller_memory::{MarkedPools, apply_mark};
use super::document::{Document, Step};
use super::world::{World, run};

/// Carries out the steps.
pub(super) fn answer(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    run(carry_out(document, common))
}

async fn carry_out(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    let class = document.ready_node_class()?;
    let catalogue = document.catalogue(common, Some(&class))?;
    let marked = MarkedPools::new(document, &catalogue, Some(&class));
    let world = World::new(document, Some(&class), catalogue).await?;
    let mut names = TemplateNames::default();
    let mut launches = 0;
    let mut steps = Vec::new();
    for step in document.steps.iter().flatten() {
        prepare(&world, step);
        let claims = step.launch(launches)?;
        launches += claims.len();
        let results = results(&world, &claims, step).await?;
        steps.push(json!({
            "results": results,
            "calls": describe_calls_with(&world.account.take_calls(), &mut names),
            "unavailable": marked.marked(world.trial.unavailable()),
            "reservations": world.free_slots(document),
            "events": world.events.take(),
        }));
    }
    Ok(json!({ "steps": steps }))
}

/// Puts the rules, failures and marks of a step into force.
fn prepare(world: &World, step: &Step) {
    if let Some(rules) = &step.ice {
        world.account.set_fleet_rules(rules.clone());
    }
    if let Some(failures) = &step.fail {
        world.account.set_failures(failures.clone());
    }
    for mark in step.unavailable.iter().flatten() {
        apply_mark(world.trial.unavailable(), mark);
    }
}

/// Does what a step holds. Returns the results sorted by text.
async fn results(world: &World, claims: &[NodeClaim], step: &Step) -> Result<Vec<Value>, QuestionError> {
    let provider = world.trial.provider();
    let launched = join_all(claims.iter().map(|claim| provider.create(claim))).await;
    let mut results: Vec<Value> =
        launched.into_iter().map(|result| described(result.map(|own| instance(&own)).map_err(create_error))).collect();
    if let Some(claim) = step.delete()? {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        let deleted = provider.delete(provider_id, Some(&claim)).await;
        results.push(described(deleted.map(|()| json!({})).map_err(instance_error)));
    }
    if let Some(provider_id) = step.get.as_deref().filter(|id| !id.is_empty()) {
        let found = provider.get(provider_id).await;
        results.push(described(found.map(|own| instance(&own)).map_err(instance_error)));
    }
    if step.list == Some(true) {
        let list = provider.list().await.map(|list| {
            let mut list: Vec<Value> = list.iter().map(instance).collect();
            list.sort_by_cached_key(Value::to_string);
            json!({ "list": list })
        });
        results.push(described(list.map_err(|ListError(cause)| QuestionError::other(Causes(cause.as_ref())))));
    }
    results.sort_by_cached_key(Value::to_string);
    Ok(results)
}

fn described(result: Result<Value, QuestionError>) -> Value {
    result.unwrap_or_else(|error| error.to_json())
}

fn create_error(error: CreateError) -> QuestionError {
    let text = Causes(&error).to_string();
    match error {
        CreateError::InsufficientCapacity(_) => QuestionError::of("InsufficientCapacity", text),
        CreateError::NodeClassNotReady(_) => QuestionError::of("NodeClassNotReady", text),
        CreateError::Rejected { reason, message, .. } => {
            QuestionError { reason: Some((reason, message)), ..QuestionError::of("CreateError", text) }
        }
        CreateError::Other(_) => QuestionError::other(text),
    }
}

fn instance_error(error: InstanceError) -> QuestionError {
    let text = Causes(&error).to_string();
    match error {
        InstanceError::NotFound(_) => QuestionError::of("NodeClaimNotFound", text),
        InstanceError::Other(_) => QuestionError::other(text),
    }
}

/// Returns what a claim adopts from an instance. The two hash annotations have a question of their
/// own.
fn instance(instance: &Instance) -> Value {
    let hashes = [annotations::EC2NODECLASS_HASH, annotations::EC2NODECLASS_HASH_VERSION];
    let shown = instance.annotations.iter().filter(|(key, _)| !hashes.contains(&key.as_str()));
    let mut described = json!({
        "providerID": instance.provider_id,
        "imageID": instance.image_id.as_deref().unwrap_or_default(),
        "labels": instance.labels,
        "annotations": shown.collect::<BTreeMap<_, _>>(),
        "capacity": quantities(&instance.capacity),
        "allocatable": quantities(&instance.allocatable),
    });
    if instance.is_terminating {
        described["deleting"] = json!(true);
    }
    described
}

fn quantities(resources: &Resources) -> BTreeMap<&str, Cow<'_, str>> {
    resources.iter().map(|(name, amount)| (name.as_str(), amount.text())).collect()
}
