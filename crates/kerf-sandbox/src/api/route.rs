//! Routing of requests to their handlers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Response};

use super::call::Call;
use super::kinds::SupportedVerbs;
use super::registry::Registry;
use super::request::{Query, RequestPath, RequestTarget, Verb};
use super::respond::{Body, JSON, Reply, ResponseForm, negotiate, respond};
use super::server::ServerState;
use super::status::{ApiResult, StatusError};
use super::watch::watch;
use super::{cloud_account, delete, discovery, openapi, read, subresources, table, usage_metrics, write};

/// Faults that are injected into one request. By default there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InjectedFaults {
    /// Reads see the state this many writes ago.
    pub(crate) stale_by_writes: Option<u64>,
    /// The watch ends after this time without an error.
    pub(crate) drop_watch_after: Option<Duration>,
    /// The watch delivers every event later by this time.
    pub(crate) watch_delay: Option<Duration>,
    /// The watch delivers nothing after this time, and does not end.
    pub(crate) silence_watch_after: Option<Duration>,
    /// The watch fails with 410, as if its history were compacted.
    pub(crate) expire_watch: bool,
}

/// Handles a request.
pub(crate) fn route(
    server: &Arc<ServerState>,
    parts: &http::request::Parts,
    body: Bytes,
    injected_faults: InjectedFaults,
) -> ApiResult<Response<Body>> {
    let header =
        |name| parts.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok()).unwrap_or_default();
    let query = Query::parse(parts.uri.query());
    let registry = server.registry();
    let target = match RequestPath::parse(parts.uri.path()) {
        RequestPath::Other(segments) if segments.first().is_some_and(|first| first == "kerf") => {
            let path: Vec<&str> = segments.iter().skip(1).map(String::as_str).collect();
            return cloud_account::handle(server.attached_cloud(), &parts.method, &path, &body);
        }
        RequestPath::Other(segments) => return route_non_resource(&registry, &parts.method, &segments, header(ACCEPT)),
        RequestPath::Resource(target) => target,
    };
    let Some(resource) = registry.get(&target.group, &target.version, &target.resource).cloned() else {
        if registry.is_usage_metrics(&target.group) {
            return Err(usage_metrics::unavailable(&target));
        }
        let known = registry.has_group(&target.group);
        return Err(if known { StatusError::no_such_resource() } else { StatusError::no_such_api() });
    };
    let verb = Verb::from_request(&parts.method, &target, &query)?;
    let call = Call {
        server,
        registry,
        resource,
        verb,
        query,
        form: negotiate(header(ACCEPT))?,
        user_agent: header(USER_AGENT).into(),
        content_type: header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
        body,
        target,
        stale_by_writes: injected_faults.stale_by_writes,
    };
    dispatch(&call, injected_faults)
}

/// Handles paths that do not name a resource.
fn route_non_resource(
    registry: &Registry,
    method: &Method,
    segments: &[String],
    accept: &str,
) -> ApiResult<Response<Body>> {
    if !matches!(method.as_str(), "GET" | "HEAD") {
        return Err(StatusError::method_not_allowed());
    }
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => {
            Ok(respond(200, "text/plain; charset=utf-8", Bytes::from_static(b"ok").into(), &[]))
        }
        ["version"] => Ok(json(&discovery::version())),
        [] => Ok(json(&discovery::paths(registry))),
        ["openapi", "v2"] => openapi::handle_v2(accept),
        ["openapi", "v3", path @ ..] => openapi::handle_v3(registry, path),
        ["api" | "apis", ..] => discovery::handle_discovery(registry, &segments, accept),
        _ => Err(StatusError::no_such_api()),
    }
}

fn json(value: &serde_json::Value) -> Response<Body> {
    respond(200, JSON, Bytes::from(value.to_string()).into(), &[])
}

/// Calls the handler of a request.
fn dispatch(call: &Call<'_>, injected_faults: InjectedFaults) -> ApiResult<Response<Body>> {
    check_path_and_verb(call)?;
    call.check_field_manager()?;
    if !call.subresource().is_empty() {
        return subresources::handle_subresource(call).and_then(|reply| render_reply(call, reply));
    }
    let reply = match call.verb {
        Verb::List => return read::list(call),
        Verb::Watch => return watch(call, injected_faults),
        Verb::Get => Reply::new(200, read::get(call)?),
        Verb::Create if call.resource.supported_verbs == SupportedVerbs::CreateOnly => {
            subresources::handle_create_only(call)?
        }
        Verb::Create => write::create(call)?,
        Verb::Update => write::replace(call)?,
        Verb::Patch => write::patch(call)?,
        Verb::Delete => delete::delete(call)?,
        Verb::DeleteCollection => delete::delete_collection(call)?,
    };
    render_reply(call, reply)
}

/// Checks that the resource has the path and supports the verb.
fn check_path_and_verb(call: &Call<'_>) -> ApiResult<()> {
    let RequestTarget { namespace, name, .. } = &call.target;
    let namespaced = call.resource.namespaced;
    // Objects of all namespaces can only be listed and watched.
    let is_valid_scope = if namespaced {
        namespace.is_some() || (name.is_none() && matches!(call.verb, Verb::List | Verb::Watch))
    } else {
        namespace.is_none()
    };
    if !is_valid_scope {
        return Err(if namespaced { StatusError::method_not_allowed() } else { StatusError::no_such_resource() });
    }
    let allowed = match call.resource.supported_verbs {
        SupportedVerbs::All => true,
        SupportedVerbs::NoDeleteCollection => call.verb != Verb::DeleteCollection,
        SupportedVerbs::CreateOnly => call.verb == Verb::Create,
    };
    if allowed { Ok(()) } else { Err(StatusError::method_not_allowed()) }
}

/// Converts a reply to the form that the client requests.
fn render_reply(call: &Call<'_>, reply: Reply) -> ApiResult<Response<Body>> {
    let content = match call.form {
        ResponseForm::FullObject => reply.content,
        ResponseForm::Metadata => read::partial_object_metadata(&reply.content).to_string().into(),
        ResponseForm::Table => table::of_object(call, &reply.content)?.to_string().into(),
    };
    Ok(respond(reply.code, JSON, content.into(), &reply.warnings))
}
