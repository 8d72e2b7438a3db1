//! Subresources (status, scale, eviction, binding, finalize, tokens, in-place changes of pods) and
//! the resources that only support create (reviews, bindings).

mod binding;
mod containers;
mod direct_update;
mod eviction;
mod finalize;
mod in_place;
mod review;
mod scale;
mod token;

use super::call::Call;
use super::request::Verb;
use super::respond::Reply;
use super::status::{ApiResult, StatusError};
use super::{read, write};

pub(crate) use direct_update::update_directly;
pub(crate) use scale::selector_text;
pub(crate) use token::{IssuedTokens, is_same_secret};

/// Handles a request for a subresource.
pub(crate) fn handle_subresource(call: &Call<'_>) -> ApiResult<Reply> {
    let subresource = call.subresource();
    if containers::is_container_subresource(call) {
        return containers::reject(call);
    }
    let known = match subresource {
        "status" => call.resource.has_status(),
        "scale" => call.resource.scale.is_some(),
        other => call.resource.subresources.iter().any(|name| name == other),
    };
    if !known {
        // Kubernetes answers differently for custom resources: they have no list of subresources,
        // so the object is not found.
        return Err(if call.resource.is_custom() { call.not_found() } else { StatusError::no_such_resource() });
    }
    match (subresource, call.verb) {
        ("status" | "ephemeralcontainers" | "resize", Verb::Get) => Ok(Reply::new(200, read::get(call)?)),
        ("status", Verb::Update) => write::replace(call),
        ("status", Verb::Patch) => write::patch(call),
        ("scale", Verb::Get | Verb::Update | Verb::Patch) => scale::handle_scale(call),
        ("eviction", Verb::Create) => eviction::evict(call),
        ("binding", Verb::Create) => binding::bind(call, call.name()),
        ("token", Verb::Create) => token::create_token(call),
        ("finalize", Verb::Update) => finalize::finalize(call),
        ("ephemeralcontainers" | "resize", Verb::Update | Verb::Patch) => in_place::change_pod_in_place(call),
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// Handles a create request for a resource that is not stored.
pub(crate) fn handle_create_only(call: &Call<'_>) -> ApiResult<Reply> {
    if call.resource.is("", "bindings") {
        let body = call.read_body()?.value;
        let name = super::object::name(&body).to_string();
        return binding::bind(call, &name);
    }
    review::review(call)
}

/// Returns the response of a successful call that returns no object.
fn success() -> Reply {
    Reply::json(
        201,
        &serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}
