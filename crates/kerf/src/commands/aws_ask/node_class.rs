//! The question `nodeclass` (spec 11 §2.8): one run of the controller `nodeclass`.

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_aws::data::ShippedCatalogue;
use kerf_runtime::ReconcileAction;
use serde_json::{Value, json};

use super::QuestionError;
use super::calls::describe_calls;
use super::document::Document;
use super::stored_objects::NODE_CLASSES;
use super::world::{World, describe_amis, describe_conditions, run};

/// The text that stands for the name of a new instance profile, which is random.
const GENERATED: &str = "<generated>";

/// Runs the controller once.
pub(super) fn answer(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    run(reconcile(document, common))
}

async fn reconcile(document: &Document, common: &ShippedCatalogue) -> Result<Value, QuestionError> {
    let mut class = document.node_class()?;
    let finalizers = class.metadata.finalizers.get_or_insert_default();
    // The API server keeps an object that is being deleted only as long as it has a finalizer.
    if class.metadata.deletion_timestamp.is_some() && finalizers.is_empty() {
        finalizers.push(kerf_api::finalizers::aws::TERMINATION.to_owned());
    }
    let world = World::new(document, Some(&class), document.catalogue(common, Some(&class))?).await?;
    let name = class.metadata.name.clone().unwrap_or_default();
    let result = world.trial.reconcile_class(&name).await;
    let class: EC2NodeClass =
        serde_json::from_value(world.stored.last_state(NODE_CLASSES, &name)).map_err(QuestionError::other)?;
    let status = class.status.clone().unwrap_or_default();
    let profile = status.instance_profile.unwrap_or_default();
    let cluster_name = document.options().settings().cluster_name;
    let (requeue, requeue_after) = match &result {
        Ok(ReconcileAction::RequeueWithBackoff) => (true, 0.0),
        Ok(ReconcileAction::RequeueAfter(delay)) => (false, delay.as_secs_f64()),
        Ok(ReconcileAction::Done) | Err(_) => (false, 0.0),
    };
    let mut calls = Value::Array(describe_calls(&world.account.calls()));
    hide_generated_names(&mut calls, &cluster_name);
    let mut answer = json!({
        "subnets": status.subnets.unwrap_or_default(),
        "securityGroups": status.security_groups.unwrap_or_default(),
        "amis": describe_amis(&class),
        "capacityReservations": status.capacity_reservations.unwrap_or_default(),
        "instanceProfile": without_generated_name(&profile, &cluster_name),
        "conditions": describe_conditions(&class),
        "finalizers": class.metadata.finalizers.unwrap_or_default(),
        // Karpenter answers the last state of a class without finalizers (spec 11 §2.8).
        "gone": false,
        "requeue": requeue,
        "requeueAfterSeconds": requeue_after,
        "calls": calls,
        "events": world.events.take(),
    });
    if let Err(error) = result {
        answer["error"] = json!({ "class": "Other", "text": error.text });
        answer["terminal"] = json!(error.is_terminal);
    }
    Ok(answer)
}

/// Replaces the names of new instance profiles in all texts.
fn hide_generated_names(value: &mut Value, cluster_name: &str) {
    match value {
        Value::String(text) => *text = without_generated_name(text, cluster_name),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_generated_names(item, cluster_name)),
        Value::Object(members) => members.values_mut().for_each(|member| hide_generated_names(member, cluster_name)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces each `<cluster>_<digits>` in a text.
fn without_generated_name(text: &str, cluster_name: &str) -> String {
    let prefix = format!("{cluster_name}_");
    let mut hidden = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&prefix) {
        let without_digits = after.trim_start_matches(|character: char| character.is_ascii_digit());
        hidden.push_str(before);
        hidden.push_str(if without_digits.len() < after.len() { GENERATED } else { &prefix });
        rest = without_digits;
    }
    hidden.push_str(rest);
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_new_profiles_are_hidden() {
        assert_eq!(without_generated_name("a demo_12 demo_x demo_3", "demo"), "a <generated> demo_x <generated>");
        assert_eq!(without_generated_name("demo", "demo"), "demo");
    }
}
