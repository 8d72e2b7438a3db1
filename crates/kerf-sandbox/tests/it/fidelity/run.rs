//! Runs a script against any server that a `kube::Client` reaches, and records the responses.
//! Values that differ between any two runs are normalized: times, uids, versions, and suffixes of
//! generated names.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::step::{RequestStep, Until};

/// Interval between polls for a response that takes a while, and their maximum number.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLLS: usize = 300;
/// Maximum duration of a single request; watches end after a second.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The response of a server to a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedResponse {
    pub(super) step: String,
    pub(super) code: u16,
    /// The events in order, if the request was a watch.
    pub(super) body: Value,
}

/// Returns all responses, in the order of the steps.
pub(super) async fn run(client: &kube::Client, script: &[RequestStep]) -> Vec<RecordedResponse> {
    let mut captured = BTreeMap::new();
    let mut responses = Vec::new();
    for step in script {
        let (code, mut body) = send_until_done(client, step, &captured).await;
        for (name, pointer) in &step.captures {
            let value = body.pointer(pointer).unwrap_or_else(|| panic!("{}: no {pointer} in {body:#}", step.id));
            captured.insert(*name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        for pointer in &step.ignored_pointers {
            remove(&mut body, pointer);
        }
        normalize(&mut body, "", step.compares_managed_fields);
        responses.push(RecordedResponse { step: step.id.clone(), code, body });
    }
    responses
}

async fn send_until_done(client: &kube::Client, step: &RequestStep, captured: &BTreeMap<&str, String>) -> (u16, Value) {
    let mut last = (0, Value::Null);
    for _ in 0..if step.until.is_some() { MAX_POLLS } else { 1 } {
        last = send(client, step, captured).await;
        let done = match &step.until {
            None => true,
            Some(Until::Code(code)) => last.0 == *code,
            Some(Until::Field(pointer, value)) => last.1.pointer(pointer) == Some(value),
        };
        if done {
            return last;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("{}: {:?} was never reached; the last answer was {} {:#}", step.id, step.until, last.0, last.1)
}

async fn send(client: &kube::Client, step: &RequestStep, captured: &BTreeMap<&str, String>) -> (u16, Value) {
    let fill_in = |text: &str| {
        captured.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    };
    let mut request = http::Request::builder()
        .method(step.method)
        .uri(fill_in(&step.path))
        .header("user-agent", "script/1.0")
        .header("accept", &step.accept);
    if !step.body.is_empty() {
        request = request.header("content-type", &step.content);
    }
    let request = request.body(kube::client::Body::from(fill_in(&step.body).into_bytes())).unwrap();
    let exchange = async {
        let response = client.send(request).await.unwrap_or_else(|error| panic!("{}: {error}", step.id));
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap_or_else(|error| panic!("{}: {error}", step.id));
        (code, bytes.to_bytes())
    };
    let response = tokio::time::timeout(REQUEST_TIMEOUT, exchange).await;
    let (code, bytes) = response.unwrap_or_else(|_| panic!("{}: no answer in {REQUEST_TIMEOUT:?}", step.id));
    let body = if step.path.contains("watch=true") && code == 200 {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()).collect()
    } else {
        serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).trim_end().into())
    };
    (code, body)
}

/// Removes the value at a pointer; `*` stands for all elements of a list or values of a map.
fn remove(value: &mut Value, pointer: &str) {
    let Some((first, rest)) = pointer.trim_start_matches('/').split_once('/') else {
        let name = pointer.trim_start_matches('/').replace("~1", "/");
        match value {
            Value::Object(fields) => drop(fields.remove(&name)),
            // The other elements keep their positions.
            Value::Array(elements) => {
                if let Some(element) = name.parse::<usize>().ok().and_then(|index| elements.get_mut(index)) {
                    *element = Value::Null;
                }
            }
            _ => {}
        }
        return;
    };
    match value {
        Value::Object(fields) if first == "*" => fields.values_mut().for_each(|field| remove(field, rest)),
        Value::Object(fields) => {
            if let Some(field) = fields.get_mut(&first.replace("~1", "/")) {
                remove(field, rest);
            }
        }
        Value::Array(elements) if first == "*" => elements.iter_mut().for_each(|element| remove(element, rest)),
        Value::Array(elements) => {
            if let Some(element) = first.parse::<usize>().ok().and_then(|index| elements.get_mut(index)) {
                remove(element, rest);
            }
        }
        _ => {}
    }
}

/// Replaces every value that differs between runs by a placeholder.
fn normalize(value: &mut Value, name: &str, keeps_managed_fields: bool) {
    match value {
        Value::Object(fields) => {
            if !keeps_managed_fields {
                fields.remove("managedFields");
            }
            if let (Some(Value::String(prefix)), Some(Value::String(name))) =
                (fields.get("generateName").cloned(), fields.get_mut("name"))
                && name.starts_with(&prefix)
            {
                *name = format!("{prefix}<suffix>");
            }
            fields.iter_mut().for_each(|(name, field)| normalize(field, name, keeps_managed_fields));
        }
        Value::Array(elements) => {
            for element in elements {
                normalize(element, name, keeps_managed_fields);
            }
        }
        Value::String(text) => {
            if name == "resourceVersion" {
                // An empty resource version has a meaning and stays.
                if !text.is_empty() {
                    "<version>".clone_into(text);
                }
            } else if name == "continue" {
                if !text.is_empty() {
                    "<token>".clone_into(text);
                }
            } else if is_time(text) {
                "<time>".clone_into(text);
            } else {
                *text = without_uids_and_versions(text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_time(text: &str) -> bool {
    // Times that the script itself sends are in 2019, years before any clock's time.
    text.parse::<jiff::Timestamp>().is_ok() && !text.starts_with("2019")
}

/// Replaces uids, and the versions in messages.
fn without_uids_and_versions(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.char_indices().find(|(at, _)| uid_at(&rest[*at..])).map(|(at, _)| at) {
        out.push_str(&rest[..at]);
        out.push_str("<uid>");
        rest = &rest[at + 36..];
    }
    out.push_str(rest);
    for marker in ["current: ", "does not match the ResourceVersion in record ("] {
        if let Some(at) = out.find(marker) {
            let start = at + marker.len();
            let digits = out[start..].find(|letter: char| !letter.is_ascii_digit()).unwrap_or(out.len() - start);
            out.replace_range(start..start + digits, "<version>");
        }
    }
    out
}

fn uid_at(text: &str) -> bool {
    let is = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() >= 36 && text.is_char_boundary(36) && text.bytes().take(36).enumerate().all(is)
}
