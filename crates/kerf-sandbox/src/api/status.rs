//! Errors as `Status` objects, with the reasons, codes, causes and messages of kube-apiserver:
//! clients branch on them (`IsNotFound`, `IsConflict`), and people search for them on the web.
//!
//! Invariant: every error that a client can cause is built by a constructor of this file.

use serde::Serialize;
use serde_json::Value;

use super::field::{self, FieldError};

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, StatusError>;

/// A failed request. Boxed, to keep the results of successful requests small.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatusError(Box<StatusObject>);

/// The wire form (`meta/v1 Status`).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "this is the field name in the API")]
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
    /// Warnings that were found before the error; sent as headers.
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

/// The resource that an error names, as Kubernetes' `GroupResource`.
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

    pub(crate) fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found"), Some(resource.details(name)))
    }

    /// Returns the error for an unknown resource of an existing API.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource".into(), Some(Details::default()))
    }

    /// Returns the error for a path that belongs to no API. The response is plain text, see
    /// [`StatusError::is_plain`].
    pub(crate) fn no_such_api() -> Self {
        Self::new(404, "NotFound", "404 page not found".into(), None)
    }

    /// Returns true if the response is plain text and not an object, as for paths that belong to no
    /// API.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.message == "404 page not found"
    }

    pub(crate) fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} \"{name}\" already exists"), Some(resource.details(name)))
    }

    /// Returns the error for a name that a terminating object still has.
    pub(crate) fn still_exists(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("object is being deleted: {resource} \"{name}\" already exists");
        Self::new(409, "AlreadyExists", message, Some(resource.details(name)))
    }

    pub(crate) fn conflict(resource: GroupResource<'_>, name: &str, reason: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {reason}");
        Self::new(409, "Conflict", message, Some(resource.details(name)))
    }

    /// Returns the error for a failed optimistic lock: another client has changed the object.
    pub(crate) fn resource_version_conflict(resource: GroupResource<'_>, name: &str) -> Self {
        let reason = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, reason)
    }

    /// Returns the error for server-side apply of fields that other managers own.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Self::new(409, "Conflict", message, Some(Details { causes, ..Details::default() }))
    }

    pub(crate) fn forbidden(resource: GroupResource<'_>, name: &str, reason: &str, causes: Vec<Cause>) -> Self {
        let message = format!("{resource} \"{name}\" is forbidden: {reason}");
        Self::new(403, "Forbidden", message, Some(Details { causes, ..resource.details(name) }))
    }

    /// Returns the error for an object that was decoded and is invalid. `group` and `kind` name the
    /// kind, not the resource.
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

    /// Returns the error for a query option that is not allowed in this request.
    pub(crate) fn invalid_option(kind: &str, field: &str, detail: &str) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[field::forbidden(field, detail)])
    }

    /// Returns the error for a missing query option.
    pub(crate) fn required_option(kind: &str, field: &str, detail: &str) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[field::required(field, detail)])
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), None)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized".into(), None)
    }

    /// Returns the error for creating an object whose CRD is being deleted.
    pub(crate) fn crd_terminating() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating".into(),
            Some(Details::default()),
        )
    }

    /// Returns the error for a method that the path does not support.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".into(),
            Some(Details::default()),
        )
    }

    /// Returns the error for a part of the API that this server lacks. The message names what to
    /// use instead.
    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message.into(), None)
    }

    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"), None)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message, None)
    }

    /// Returns the error for a patch format that the resource does not support.
    pub(crate) fn unsupported_patch() -> Self {
        let message = "415: Unsupported Media Type".to_owned();
        Self::new(415, "UnsupportedMediaType", message, Some(Details::default()))
    }

    /// Converts the error of an invalid body to that of an invalid result of a patch.
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

    /// Returns the error for a revision that is no longer in the history. Clients then list again.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into(), None)
    }

    /// Returns the error for a version that this server has not reached yet. The client got it from
    /// another server, or this is a stale read.
    pub(crate) fn version_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
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

    pub(crate) fn internal(reason: &str) -> Self {
        let cause = Cause { message: reason.into(), ..Cause::default() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::new(500, "InternalError", format!("Internal error occurred: {reason}"), Some(details))
    }

    /// Returns a 500 without a reason and details, as the real server has a few.
    pub(crate) fn server_error(message: &str) -> Self {
        Self::new(500, "", message.into(), None)
    }

    /// Returns the error for a valid patch that cannot be applied to the object.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message.into(), Some(Details::default()))
    }

    pub(crate) fn too_many_operations(message: &str) -> Self {
        Self::new(413, "RequestEntityTooLarge", message.into(), None)
    }

    /// Adds the token with which the client can continue the list inconsistently.
    pub(crate) fn with_continue(mut self, token: &str) -> Self {
        token.clone_into(&mut self.0.metadata.continue_token);
        self
    }

    /// Adds warnings that were found before the error, so that the client gets them too.
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

    /// Returns the `Status` object.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(&*self.0).unwrap_or_default()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&*self.0).unwrap_or_default()
    }
}
