//! The question `drift` (spec 11 §2.6): the reason why the document's claim no longer matches its
//! node class.

use kerf_api::labels;
use kerf_aws::data::ShippedCatalogue;
use kerf_state::TrackedClaim;
use serde_json::{Value, json};

use super::QuestionError;
use super::document::Document;
use super::world::{World, run};

/// Checks the claim.
pub(super) fn answer(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    run(check(document, common))
}

async fn check(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    let class = document.ready_node_class()?;
    if !document.has_node_claim() {
        return Err(QuestionError::other("the document has no nodeClaim"));
    }
    let claim = document.node_claim()?;
    let world = World::new(document, Some(&class), document.catalogue(common, Some(&class))?).await?;
    let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL));
    if let Some(pool) = pool.filter(|_| !document.has_node_pools()) {
        world.cluster.lock().apply(Document::node_pool_of(pool, &claim)?);
    }
    world.cluster.lock().apply(TrackedClaim::from(claim.clone()));
    let reason = world.trial.drift(&claim).await.map_err(|error| {
        let class = if error.is_instance_not_found { "NodeClaimNotFound" } else { "Other" };
        QuestionError::of(class, error)
    })?;
    Ok(json!({ "drift": reason.unwrap_or_default(), "events": world.events.take() }))
}
