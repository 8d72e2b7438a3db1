//! Paths beside those of Kubernetes, by which a person changes and reads the cloud of a running
//! sandbox: `POST /kerf/aws` carries out a step as in a scenario, `GET /kerf/aws/instances` lists
//! the instances with their console output. `kubectl create --raw` and `kubectl get --raw` call
//! them.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use serde_json::{Value, json};

use super::json::parse_yaml;
use super::respond::{Body, JSON, respond};
use super::status::{ApiResult, StatusError};
use crate::aws_step::AwsStep;
use crate::sim::aws_step_errors;
use crate::simulated_cloud::SimulatedCloud;

/// Handles a path below `/kerf`.
pub(super) fn handle(
    cloud: Option<Arc<dyn SimulatedCloud>>,
    method: &Method,
    path: &[&str],
    body: &Bytes,
) -> ApiResult<Response<Body>> {
    let Some(cloud) = cloud else {
        return Err(StatusError::bad_request("the cluster has no cloud of its own; start it with --provider aws"));
    };
    let answer = match (method.as_str(), path) {
        ("POST", ["aws"]) => {
            let step = read_aws_step(body).map_err(|mistakes| StatusError::bad_request(mistakes.join("; ")))?;
            let changes = cloud.perform(&step).map_err(|failures| StatusError::bad_request(failures.join("; ")))?;
            let message = changes.join("\n");
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "message": message })
        }
        ("GET", ["aws", "instances"]) => cloud.describe_instances(),
        (_, ["aws"] | ["aws", "instances"]) => return Err(StatusError::method_not_allowed()),
        _ => return Err(StatusError::no_such_api()),
    };
    Ok(respond(200, JSON, Bytes::from(answer.to_string()).into(), &[]))
}

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
