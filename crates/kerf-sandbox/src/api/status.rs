//! How the server says no: `Status` objects with the reasons, codes, causes and sentences of kube-apiserver, because clients
//! branch on them (`IsNotFound`, `IsConflict`) and people search the web for them.
//! Invariant: every failure that a client can provoke is built by a constructor of this file.

use serde::Serialize;
use serde_json::Value;

use super::field::{self, FieldError};

/// What a handler returns.
pub(crate) type ApiResult<T> = Result<T, StatusError>;

/// A request that was not carried out, in the words of the API. Boxed, because the good path should not pay for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusError(Box<StatusObject>);

/// The wire form (`meta/v1 Status`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the wire calls it so")]
struct StatusObject {
    kind: &'static str,
    api_version: &'static str,
    metadata: StatusMetadata,
    status: &'static str,
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
    /// What was found before the refusal, for the headers.
    #[serde(skip)]
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct StatusMetadata {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<Cause>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) retry_after_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cause {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) reason: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

/// Which resource a refusal speaks of: what the real server calls a group-resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupResource<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl GroupResource<'_> {
    fn details(self, name: &str) -> Details {
        Details { name: name.into(), group: self.group.into(), kind: self.resource.into(), ..Details::default() }
    }
}

impl StatusError {
    fn new(code: u16, reason: &'static str, message: String, details: Option<Details>) -> Self {
        let status = StatusObject {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMetadata::default(),
            status: "Failure",
            message,
            reason,
            details,
            code,
            warnings: Vec::new(),
        };
        Self(Box::new(status))
    }

    pub(crate) fn not_found(subject: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{subject} \"{name}\" not found"), Some(subject.details(name)))
    }

    /// A resource that an API which exists does not have.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource".into(), Some(Details::default()))
    }

    /// A path that names no API at all. It is answered with plain text, see [`Refusal::is_plain`].
    pub(crate) fn no_such_api() -> Self {
        Self::new(404, "NotFound", "404 page not found".into(), None)
    }

    /// Whether the answer is the bare sentence and no object, as for paths that belong to no API.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.message == "404 page not found"
    }

    pub(crate) fn already_exists(subject: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{subject} \"{name}\" already exists"), Some(subject.details(name)))
    }

    /// The name is taken by an object that is on its way out.
    pub(crate) fn still_exists(subject: GroupResource<'_>, name: &str) -> Self {
        let message = format!("object is being deleted: {subject} \"{name}\" already exists");
        Self::new(409, "AlreadyExists", message, Some(subject.details(name)))
    }

    pub(crate) fn conflict(subject: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {subject} \"{name}\": {why}");
        Self::new(409, "Conflict", message, Some(subject.details(name)))
    }

    /// The optimistic lock did not hold: somebody else wrote in between.
    pub(crate) fn resource_version_conflict(subject: GroupResource<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(subject, name, why)
    }

    /// Server-side apply met fields that others own.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Self::new(409, "Conflict", message, Some(Details { causes, ..Details::default() }))
    }

    pub(crate) fn forbidden(subject: GroupResource<'_>, name: &str, why: &str, causes: Vec<Cause>) -> Self {
        let message = format!("{subject} \"{name}\" is forbidden: {why}");
        Self::new(403, "Forbidden", message, Some(Details { causes, ..subject.details(name) }))
    }

    /// The object is understood and not allowed. `kind` and `group` name the kind, not the resource.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let qualified = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} \"{name}\" is invalid: {}", kerf_api::admission::join_field_errors(errors));
        let causes = errors
            .iter()
            .map(|error| Cause { reason: error.kind.reason(), message: error.body(), field: error.path.clone() })
            .collect();
        let details =
            Details { name: name.into(), group: group.into(), kind: kind.into(), causes, retry_after_seconds: 0 };
        Self::new(422, "Invalid", message, Some(details))
    }

    /// An option of the request that makes no sense there.
    pub(crate) fn invalid_option(kind: &str, field: &str, detail: &str) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[field::forbidden(field, detail)])
    }

    /// An option of the request that is missing.
    pub(crate) fn required_option(kind: &str, field: &str, detail: &str) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[field::required(field, detail)])
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), None)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized".into(), None)
    }

    /// The definition of a custom resource is on its way out.
    pub(crate) fn crd_terminating() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating".into(),
            Some(Details::default()),
        )
    }

    /// The method has no meaning on this path, whatever the resource.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".into(),
            Some(Details::default()),
        )
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"), None)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message, None)
    }

    /// A patch of a kind that this resource does not take.
    pub(crate) fn unsupported_patch() -> Self {
        let message = "415: Unsupported Media Type".to_owned();
        Self::new(415, "UnsupportedMediaType", message, Some(Details::default()))
    }

    /// What a body is refused for, said of what a patch makes of an object.
    pub(crate) fn into_patch_error(self, patched: &Value) -> Self {
        if self.0.code != 400 {
            return self;
        }
        let detail = self.0.message.split_once(": ").map_or(self.0.message.as_str(), |(_, detail)| detail);
        let error = field::invalid("patch", patched.to_string(), detail);
        let message =
            format!(" \"\" is invalid: {}", kerf_api::admission::join_field_errors(std::slice::from_ref(&error)));
        let cause = Cause { reason: error.kind.reason(), message: error.body(), field: error.path.clone() };
        Self::new(422, "Invalid", message, Some(Details { causes: vec![cause], ..Details::default() }))
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"), None)
    }

    /// The history that was asked for is gone. Clients list anew when they read this.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into(), None)
    }

    /// A version that this server has not reached: the sender talked to another one, or is ahead of a stale read.
    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        Self::new(504, "Timeout", message, Some(details))
    }

    pub(crate) fn too_many_requests(message: &str, retry_after_seconds: u32, causes: Vec<Cause>) -> Self {
        let details = Details { causes, retry_after_seconds, ..Details::default() };
        Self::new(429, "TooManyRequests", message.into(), Some(details))
    }

    pub(crate) fn unavailable(message: &str, retry_after_seconds: u32) -> Self {
        let details = Details { retry_after_seconds, ..Details::default() };
        Self::new(503, "ServiceUnavailable", message.into(), Some(details))
    }

    pub(crate) fn internal(why: &str) -> Self {
        let cause = Cause { message: why.into(), ..Cause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"), Some(details))
    }

    /// A 500 whose sentence stands alone and has no reason, as a few of the real server's do.
    pub(crate) fn server_error(message: &str) -> Self {
        Self::new(500, "", message.into(), None)
    }

    /// The patch is well formed and cannot be applied to this object.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message.into(), Some(Details::default()))
    }

    pub(crate) fn too_many_operations(message: &str) -> Self {
        Self::new(413, "RequestEntityTooLarge", message.into(), None)
    }

    /// The token with which a client can go on all the same.
    pub(crate) fn with_continue(mut self, token: &str) -> Self {
        token.clone_into(&mut self.0.metadata.continue_token);
        self
    }

    /// What was found before the refusal: a client is told, whatever becomes of its object.
    pub(crate) fn with_warnings(mut self, warnings: &[String]) -> Self {
        self.0.warnings.extend_from_slice(warnings);
        self
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    pub(crate) fn code(&self) -> u16 {
        self.0.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.0.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// The object that travels.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(&*self.0).unwrap_or_default()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&*self.0).unwrap_or_default()
    }
}
