//! The question `ami` (spec 11 §2.5): the images of a node class.

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_aws::data::ShippedCatalogue;
use serde_json::{Value, json};

use super::QuestionError;
use super::calls::describe_calls;
use super::document::Document;
use super::world::{World, describe_amis, describe_conditions, run};

/// Resolves the AMI selector terms.
pub(super) fn answer(document: &Document) -> Result<Value, QuestionError> {
    run(resolve(document))
}

fn find_condition(class: &EC2NodeClass) -> Option<Value> {
    describe_conditions(class).into_iter().find(|condition| condition["type"] == "AMIsReady")
}

async fn resolve(document: &Document) -> Result<Value, QuestionError> {
    let class = document.node_class()?;
    let had_condition = find_condition(&class).is_some();
    let none = ShippedCatalogue { instance_types: Vec::new(), offerings: Vec::new() };
    let world = World::new(document, Some(&class), none).await?;
    let (class, result) = world.trial.resolve_amis(class).await;
    let calls = world.account.calls();
    let mut reads: Vec<&str> =
        calls.iter().filter(|call| call.operation == "GetParameter").filter_map(|call| call.input.as_str()).collect();
    reads.sort_unstable();
    let mut answer = json!({ "amis": describe_amis(&class), "reads": reads, "queries": describe_calls(&calls) });
    // Karpenter adds the condition only when it sets it.
    let is_set = |condition: &Value| had_condition || condition["reason"] != "AwaitingReconciliation";
    if let Some(condition) = find_condition(&class).filter(is_set) {
        answer["condition"] = condition;
    }
    if let Err(error) = result {
        answer["error"] = json!({ "class": "Other", "text": error.to_string() });
    }
    Ok(answer)
}
