//! Paths beside those of Kubernetes, by which a person changes and reads the cloud of a running
//! sandbox: `POST /kerf/aws` carries out a step as in a scenario, `GET /kerf/aws/instances` lists
//! the instances with their console output. `kubectl create --raw` and `kubectl get --raw` call
//! them.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use serde_json::json;

use super::respond::{Body, JSON, respond};
use super::status::{ApiResult, StatusError};
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
            let changes =
                cloud.perform_by_hand(body).map_err(|failures| StatusError::bad_request(failures.join("; ")))?;
            let message = changes.join("\n");
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "message": message })
        }
        ("GET", ["aws", "instances"]) => cloud.describe_instances(),
        (_, ["aws"] | ["aws", "instances"]) => return Err(StatusError::method_not_allowed()),
        _ => return Err(StatusError::no_such_api()),
    };
    Ok(respond(200, JSON, Bytes::from(answer.to_string()).into(), &[]))
}
