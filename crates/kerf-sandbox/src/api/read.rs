//! Reading of one object or a list, in the form that the client requests.

use std::sync::Arc;

use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use http::Response;
use serde_json::{Value, json};

use super::call::{Call, to_served_bytes};
use super::field::{self, FieldError};
use super::registry::Resource;
use super::respond::{Body, JSON, ResponseForm, respond};
use super::selector::{FieldSelector, LabelSelector, Selection};
use super::status::{ApiResult, StatusError};
use super::storage::{ObjectKey, Page, PageQuery, StoredObject};
use super::table;

/// The size in bytes at which a chunk of a list's body is sent.
const LIST_CHUNK_BYTES: usize = 64 * 1024;

/// Handles `GET` of one object.
pub(crate) fn get(call: &Call<'_>) -> ApiResult<Bytes> {
    let version = call.query.text("resourceVersion");
    if !version.is_empty() {
        let requested = parse_version(version).map_err(|_| invalid_version_error(version))?;
        let current = call.server.storage.revision();
        if requested > current {
            return Err(StatusError::version_too_large(requested, current));
        }
    }
    let key = call.key();
    let stored = match call.stale_revision() {
        Some(revision) => call.server.storage.get_at(call.resource.table, &key, revision),
        None => call.server.storage.get(call.resource.table, &key),
    };
    Ok(call.to_served_bytes(stored.ok_or_else(|| call.not_found())?.bytes().clone()))
}

/// Handles `GET` of a collection.
pub(crate) fn list(call: &Call<'_>) -> ApiResult<Response<Body>> {
    let page = page(call)?;
    let resource = call.resource.clone();
    let mut metadata = list_metadata(&page);
    if call.resource.is_custom() && metadata.get("continue").is_none() {
        // Lists of custom resources always contain the field.
        metadata["continue"] = "".into();
    }
    match call.form {
        ResponseForm::Table => {
            let table = table::of_list(call, &page.objects, &metadata)?;
            Ok(respond(200, JSON, Bytes::from(table.to_string()).into(), &[]))
        }
        ResponseForm::Metadata => {
            let items: Vec<Value> = page.objects.iter().map(|stored| partial_object_metadata(stored.bytes())).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
            Ok(respond(200, JSON, Bytes::from(list.to_string()).into(), &[]))
        }
        ResponseForm::FullObject => {
            let kind = Value::from(resource.list_kind.as_str());
            let version = Value::from(resource.api_version());
            let head = format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{metadata},\"items\":[");
            Ok(respond(200, JSON, Body::stream(list_chunks(resource, head, page.objects)), &[]))
        }
    }
}

/// Returns the body of a list in chunks, so that 100,000 pods are never in one buffer.
fn list_chunks(
    resource: Arc<Resource>,
    head: String,
    objects: Vec<Arc<StoredObject>>,
) -> impl futures::Stream<Item = Bytes> + Send {
    let mut objects = objects.into_iter().enumerate().peekable();
    let mut head = Some(head);
    let mut done = false;
    futures::stream::iter(std::iter::from_fn(move || {
        if done {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(LIST_CHUNK_BYTES + 8 * 1024);
        if let Some(head) = head.take() {
            chunk.extend_from_slice(head.as_bytes());
        }
        while chunk.len() < LIST_CHUNK_BYTES {
            let Some((index, stored)) = objects.next() else { break };
            if index > 0 {
                chunk.extend_from_slice(b",");
            }
            chunk.extend_from_slice(&to_served_bytes(&resource, stored.bytes().clone()));
        }
        if objects.peek().is_none() {
            chunk.extend_from_slice(b"]}");
            done = true;
        }
        Some(chunk.freeze())
    }))
}

fn list_metadata(page: &Page) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some((next, count)) = &page.rest {
        metadata["continue"] = continue_token(page.revision, next).into();
        // The count is zero if selectors were used.
        if *count > 0 {
            metadata["remainingItemCount"] = (*count).into();
        }
    }
    metadata
}

/// Returns the page that the query requests.
fn page(call: &Call<'_>) -> ApiResult<Page> {
    let selection = selection(call)?;
    let limit = call.query.number("limit")?.filter(|limit| *limit > 0).map(|limit| limit as usize);
    let token = call.query.text("continue");
    if !token.is_empty() && !call.query.text("resourceVersionMatch").is_empty() {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        return Err(StatusError::invalid_option("ListOptions", "resourceVersionMatch", detail));
    }
    let (at_revision, from) = if token.is_empty() {
        (list_revision(call, limit)?, None)
    } else {
        let (revision, from) = read_token(token)?;
        (revision, Some(from))
    };
    let query = PageQuery {
        namespace: call.namespace(),
        selection: &selection,
        from: from.as_ref(),
        at_revision: at_revision.or_else(|| call.stale_revision()),
        limit,
    };
    let mut page = call.server.storage.page(call.resource.table, query).map_err(|_| match &from {
        Some(from) => too_old_to_continue(&continue_token(0, from)),
        None => StatusError::expired("The resourceVersion for the provided list is too old."),
    })?;
    if !selection.selects_everything() {
        // The real server does not count the remaining items if it has to filter them.
        page.rest = page.rest.map(|(key, _)| (key, 0));
    }
    Ok(page)
}

fn too_old_to_continue(token: &str) -> StatusError {
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
                   continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing \
                   with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the \
                   time the first chunk was returned and now may show up in the list.";
    StatusError::expired(message).with_continue(token)
}

/// Returns the revision of a list by `resourceVersion` and `resourceVersionMatch`. `None`: the
/// newest.
fn list_revision(call: &Call<'_>, limit: Option<usize>) -> ApiResult<Option<u64>> {
    let (version, match_rule) = (call.query.text("resourceVersion"), call.query.text("resourceVersionMatch"));
    let sends_initial_events = !call.query.text("sendInitialEvents").is_empty();
    let reject = |error: FieldError| {
        let mut errors = vec![error];
        if sends_initial_events {
            errors.push(field::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        Err(StatusError::invalid("meta.k8s.io", "ListOptions", "", &errors))
    };
    match (version, match_rule) {
        ("", "") => return Ok(None),
        ("", _) => {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return reject(field::forbidden("resourceVersionMatch", detail));
        }
        ("0", "Exact") => {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            return reject(field::forbidden("resourceVersionMatch", detail));
        }
        (_, "" | "Exact" | "NotOlderThan") => {}
        (_, other) => {
            return reject(field::not_supported("resourceVersionMatch", other, &["Exact", "NotOlderThan", ""]));
        }
    }
    let requested = parse_version(version)?;
    let current = call.server.storage.revision();
    if requested > current {
        return Err(StatusError::version_too_large(requested, current));
    }
    // A limit without a match rule means the exact version, as before the rules existed.
    let exact = match_rule == "Exact" || (match_rule.is_empty() && limit.is_some() && requested > 0);
    Ok(exact.then_some(requested))
}

/// Returns the error for an invalid version in all requests but lists.
pub(crate) fn invalid_version_error(text: &str) -> StatusError {
    StatusError::server_error(&format!(
        "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
    ))
}

pub(crate) fn parse_version(text: &str) -> ApiResult<u64> {
    text.parse().map_err(|_| {
        let message = format!("invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax");
        StatusError::bad_request(message)
    })
}

/// Parses the selectors of the query.
pub(crate) fn selection(call: &Call<'_>) -> ApiResult<Selection> {
    let labels = LabelSelector::parse(call.query.text("labelSelector")).map_err(StatusError::bad_request)?;
    // Custom resources have the name among their selectable fields, and therefore the error message
    // of kinds that have selectable fields.
    let name_field = call.resource.is_custom().then_some("metadata.name");
    let selectable = call.resource.selectable.iter().map(|(path, _)| path.as_str()).chain(name_field);
    let fields =
        FieldSelector::parse(call.query.text("fieldSelector"), selectable).map_err(StatusError::bad_request)?;
    Ok(Selection { labels, fields })
}

/// Encodes a continue token. Revision 0 means the current state: the rest of a list that cannot be
/// completed consistently.
fn continue_token(revision: u64, from: &ObjectKey) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": from.as_str()});
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
}

fn read_token(token: &str) -> ApiResult<(Option<u64>, ObjectKey)> {
    let invalid = |problem: String| {
        StatusError::bad_request(format!("invalid continue token: continue key is not valid: {problem}"))
    };
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|problem| invalid(problem.to_string()))?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|problem| invalid(problem.to_string()))?;
    let (Some(revision), Some(start)) =
        (token.get("rv").and_then(Value::as_u64), token.get("start").and_then(Value::as_str))
    else {
        return Err(invalid("it lacks a part".into()));
    };
    Ok(((revision > 0).then_some(revision), ObjectKey::from_text(start)))
}

/// Returns only the object's metadata.
pub(crate) fn partial_object_metadata(object: &[u8]) -> Value {
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata").cloned().unwrap_or_default()})
}
