//! Reads changes of the AWS account that are made by hand, outside a scenario.

use serde_json::Value;

use super::fields::aws_step_errors;
use crate::api::parse_yaml;
use crate::aws_step::AwsStep;

/// Reads a change of the AWS account in YAML or JSON. Fails with all mistakes of the text that do
/// not depend on the account.
pub fn read_aws_step(body: &[u8]) -> Result<AwsStep, Vec<String>> {
    let no_mapping =
        || vec!["the change is no mapping: write for example `reclaim: {}`, see docs/SANDBOX.md".to_owned()];
    if body.trim_ascii().is_empty() {
        return Err(no_mapping());
    }
    let tree: Value = parse_yaml(body).map_err(|problem| vec![problem])?.value;
    if !tree.is_object() {
        return Err(no_mapping());
    }
    let mut mistakes: Vec<String> = aws_step_errors(&tree).iter().map(ToString::to_string).collect();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let step: AwsStep = serde_json::from_value(tree).map_err(|problem| vec![problem.to_string()])?;
    step.add_errors(&mut |field, why| {
        let field = field.trim_start_matches('.');
        mistakes.push(if field.is_empty() { why.to_owned() } else { format!("{field}: {why}") });
    });
    if mistakes.is_empty() { Ok(step) } else { Err(mistakes) }
}
