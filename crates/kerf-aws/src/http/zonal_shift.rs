//! ARC zonal shift: REST with JSON.

use http::Method;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Content;
use super::query::path_decoded;
use crate::memory::{AwsFailure, MemoryAws};
use crate::ports::{ZonalShift as _, ZonalShiftRecord};

/// First part of the path of a managed resource; its ARN follows.
pub(super) const MANAGED_RESOURCES: &str = "/managedresources/";

const GET_MANAGED_RESOURCE: &str = "GetManagedResource";

pub(super) fn operation(method: &Method, path: &str) -> Option<&'static str> {
    let arn = path.strip_prefix(MANAGED_RESOURCES)?;
    (method == Method::GET && !arn.is_empty() && !arn.contains('/')).then_some(GET_MANAGED_RESOURCE)
}

pub(super) async fn call(aws: &MemoryAws, operation: &str, path: &str) -> Content {
    if operation != GET_MANAGED_RESOURCE {
        let message = format!("This server has the operation GET {MANAGED_RESOURCES}{{resourceIdentifier}}.");
        return Err(AwsFailure::new(404, "UnknownOperationException", message).into());
    }
    let arn = path_decoded(path.strip_prefix(MANAGED_RESOURCES).unwrap_or_default())
        .ok_or_else(|| AwsFailure::bad_request("ValidationException", "The ARN of the resource is not UTF-8."))?;
    let resource = aws.get_managed_resource(&arn).await?;
    // A zone has the weight 0 while traffic is shifted away from it, and 1 otherwise.
    let mut weights: Map<String, Value> =
        aws.change_account(|account| account.zones.iter().map(|zone| (zone.id.clone(), json!(1.0))).collect());
    for shift in &resource.zonal_shifts {
        if shift.applied_status == "APPLIED" {
            weights.insert(shift.away_from.clone(), json!(0.0));
        }
    }
    let shifts: Vec<Value> = resource.zonal_shifts.iter().map(|shift| written_shift(shift, &resource.arn)).collect();
    let answer = json!({
        "arn": resource.arn,
        "name": resource.name,
        "appliedWeights": weights,
        "zonalShifts": shifts,
    });
    Ok(answer.to_string())
}

fn written_shift(shift: &ZonalShiftRecord, arn: &str) -> Value {
    let mut object = json!({
        "appliedStatus": shift.applied_status,
        "awayFrom": shift.away_from,
        "comment": "",
        "resourceIdentifier": arn,
        "zonalShiftId": shift.id,
    });
    for (name, time) in [("startTime", shift.started_at), ("expiryTime", shift.expires_at)] {
        if let Some(time) = time {
            object[name] = epoch_seconds(time);
        }
    }
    object
}

/// Returns a time in seconds since 1970, with milliseconds if it has any.
fn epoch_seconds(time: Timestamp) -> Value {
    match time.as_millisecond() % 1000 {
        0 => json!(time.as_second()),
        _ => json!(time.as_millisecond() as f64 / 1000.0),
    }
}
