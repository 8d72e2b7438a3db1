//! The question `interruption` (spec 11 §2.7): messages of the queue, delivered one after the other
//! to the controller.

use std::collections::BTreeSet;

use kerf_api::annotations::NODECLAIM_TERMINATION_TIMESTAMP;
use kerf_api::nodeclaim::NodeClaim;
use kerf_aws::data::ShippedCatalogue;
use kerf_aws::interruption::parse_message;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::QuestionError;
use super::controller_memory::MarkedPools;
use super::document::Document;
use super::stored_objects::NODE_CLAIMS;
use super::world::{World, run};

/// Name of the queue.
const QUEUE: &str = "queue";

/// Delivers the messages.
pub(super) fn answer(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    run(deliver_all(document, common))
}

async fn deliver_all(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    let class = if document.has_node_class() { Some(document.ready_node_class()?) } else { None };
    let catalogue = document.catalogue(common, class.as_ref())?;
    let marked = MarkedPools::new(document, &catalogue, class.as_ref());
    let world = World::new(document, class.as_ref(), catalogue).await?;
    let queue = world.trial.interruption_queue(QUEUE);
    let mut messages = Vec::new();
    for message in document.messages.iter().flatten() {
        let body = body(message);
        let parsed = body.as_deref().map(parse_message);
        let before = Claims::of(&world)?;
        world.account.send_message(body.clone());
        let result = queue.receive().await;
        let after = Claims::of(&world)?;
        let mut described = json!({
            "instanceIDs": [],
            "parseError": true,
            "handleError": result.is_err(),
            "messageDeleted": world.account.is_message_deleted(),
            "deletedClaims": before.live.difference(&after.live).collect::<Vec<_>>(),
            "forced": after.forced.difference(&before.forced).collect::<Vec<_>>(),
            "unavailable": marked.marked(world.trial.unavailable()),
            "reservations": world.free_slots(document),
            "events": world.events.take(),
        });
        if let Some(Ok(parsed)) = parsed {
            described["parseError"] = json!(false);
            described["kind"] = json!(parsed.kind.name());
            described["instanceIDs"] = json!(parsed.instance_ids);
        }
        messages.push(described);
    }
    Ok(json!({ "messages": messages }))
}

/// Returns the body of a message: a text itself, the written text of any other value. `None` for
/// `null`.
fn body(message: &RawValue) -> Option<String> {
    match serde_json::from_str::<Option<String>>(message.get()) {
        Ok(body) => body,
        Err(_) => Some(message.get().to_owned()),
    }
}

/// The claims in the API server.
struct Claims {
    /// Names of those that are not being deleted.
    live: BTreeSet<String>,
    /// Names of those that are terminated by force.
    forced: BTreeSet<String>,
}

impl Claims {
    fn of(world: &World) -> Result<Self, QuestionError> {
        let all = world.stored.existing(NODE_CLAIMS).into_iter().map(serde_json::from_value);
        let all: Vec<NodeClaim> = all.collect::<Result<_, _>>().map_err(QuestionError::other)?;
        let names = |is_named: fn(&NodeClaim) -> bool| {
            all.iter().filter(|claim| is_named(claim)).filter_map(|claim| claim.metadata.name.clone()).collect()
        };
        let live = names(|claim| claim.metadata.deletion_timestamp.is_none());
        let forced = names(|claim| {
            let annotations = claim.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(NODECLAIM_TERMINATION_TIMESTAMP))
        });
        Ok(Self { live, forced })
    }
}
