//! Paths outside of AWS's names, for tests: the running instances, and the recorded calls.

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Response};
use serde_json::json;

use super::service::response;
use crate::memory::{CallRecord, LaunchedInstance, MemoryAws};
use crate::ports::ec2::InstanceStateName;

/// First part of all these paths.
pub(super) const PREFIX: &str = "/kerf/";

pub(super) fn respond(aws: &MemoryAws, method: &Method, path: &str) -> Response<Bytes> {
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
        _ => response(404, "text/plain", "not found: GET /kerf/instances or /kerf/calls\n".to_owned()),
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
