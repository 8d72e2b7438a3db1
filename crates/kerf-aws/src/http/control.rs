//! Paths outside of AWS's names, for tests: the running instances, the recorded calls, and changes
//! of the account.

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::json;

use super::AwsHttp;
use super::service::response;
use crate::memory::{CallRecord, LaunchedInstance};
use crate::ports::ec2::InstanceStateName;

/// First part of all these paths.
pub(super) const PREFIX: &str = "/kerf/";

pub(super) fn respond(front: &AwsHttp, method: &Method, path: &str, body: &Bytes) -> Response<Bytes> {
    let aws = &front.aws;
    match (method, path) {
        (&Method::GET, "/kerf/instances") => {
            let is_running = |launched: &LaunchedInstance| launched.instance.state == InstanceStateName::Running;
            let instances: Vec<_> = aws.instances().into_iter().filter(is_running).map(|it| instance(&it)).collect();
            response(200, "application/json", json!(instances).to_string())
        }
        (&Method::GET, "/kerf/calls") => {
            let mut lines = String::new();
            for record in aws.calls() {
                lines += &call(&record).to_string();
                lines.push('\n');
            }
            response(200, "application/x-ndjson", lines)
        }
        (&Method::POST, "/kerf/aws") => match front.change.as_ref().map(|change| change(body)) {
            Some(Ok(changes)) => {
                response(200, "application/json", serde_json::json!({ "changes": changes }).to_string() + "\n")
            }
            Some(Err(problems)) => response(400, "text/plain", problems.join("\n") + "\n"),
            None => response(404, "text/plain", "the account of this server cannot be changed\n".to_owned()),
        },
        _ => {
            let text = "not found: use GET /kerf/instances, GET /kerf/calls or POST /kerf/aws\n";
            response(404, "text/plain", text.to_owned())
        }
    }
}

fn instance(launched: &LaunchedInstance) -> serde_json::Value {
    let instance = &launched.instance;
    let user_data = base64::engine::general_purpose::STANDARD.decode(&launched.template.user_data).unwrap_or_default();
    json!({
        "id": instance.id,
        "providerID": format!("aws:///{}/{}", instance.zone, instance.id),
        "privateDnsName": instance.private_dns_name,
        "privateIpAddress": launched.private_address.to_string(),
        "zone": instance.zone,
        "zoneId": instance.zone_id,
        "instanceType": instance.instance_type,
        "imageId": instance.image_id,
        "lifecycle": instance.lifecycle.as_deref().unwrap_or("on-demand"),
        "launchTemplate": launched.template_name,
        "launchedAt": instance.launched_at.map(|time| time.to_string()),
        "tags": instance.tags,
        "userData": String::from_utf8_lossy(&user_data),
    })
}

fn call(record: &CallRecord) -> serde_json::Value {
    json!({
        "at": record.at.to_string(),
        "service": record.service,
        "operation": record.operation,
        "request": record.request,
        "status": record.status,
        "error": record.error,
        "requestId": record.request_id,
    })
}
