//! One request inside the server: its verb, target, query and body, the client, and the registry
//! that it sees.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::apply::{FieldManager, ManagedFields};
use super::field::{self, FieldError};
use super::json::{self, Parsed};
use super::kinds::{
    WriteContext, autoscaler_to_v1, autoscaler_to_v2, core_event_to_events_v1, events_v1_event_to_core,
};
use super::object;
use super::protobuf;
use super::registry::{Registry, Resource, ServedAs};
use super::request::{Query, RequestTarget, Verb};
use super::respond::ResponseForm;
use super::server::ServerState;
use super::status::{ApiResult, StatusError};
use super::storage::{ObjectKey, StoredObject};

/// Fields of Go structs that are encoded even if they are empty. No manager owns them.
const IMPLICIT_STRUCT_FIELDS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "template",
    "strategy",
    "updateStrategy",
    "jobTemplate",
    "involvedObject",
    "regarding",
    "source",
    "roleRef",
    "loadBalancer",
    "names",
    "scheduling",
    "containers",
    "resources",
];

/// The media type of protobuf. Only a few bodies in it can be decoded.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One request.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<ServerState>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) target: RequestTarget,
    pub(crate) verb: Verb,
    pub(crate) query: Query,
    pub(crate) form: ResponseForm,
    /// The `User-Agent` header.
    pub(crate) user_agent: String,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    /// An injected fault: reads see the state this many writes ago. `None`: the current state.
    pub(crate) stale_by_writes: Option<u64>,
}

/// The handling of unknown and duplicate fields (query parameter `fieldValidation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Strict,
    Warn,
    Ignore,
}

impl<'s> Call<'s> {
    /// Returns a call of the same client for another object, with the current registry.
    pub(crate) fn for_object(&self, resource: Arc<Resource>, namespace: Option<&str>, name: &str) -> Call<'s> {
        let target = RequestTarget {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            namespace: namespace.map(str::to_string),
            name: Some(name.to_string()),
            subresource: None,
        };
        Call {
            server: self.server,
            registry: self.server.registry(),
            resource,
            target,
            verb: self.verb,
            query: Query::default(),
            form: self.form,
            user_agent: self.user_agent.clone(),
            content_type: String::new(),
            body: Bytes::new(),
            stale_by_writes: None,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.server.clock.now()
    }

    pub(crate) fn write_context(&self) -> WriteContext<'_> {
        WriteContext { now: self.now(), serial_counter: &self.server.serial_counter }
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.target.namespace.as_deref()
    }

    /// Returns the name in the path, or an empty name if the path has none.
    pub(crate) fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    pub(crate) fn subresource(&self) -> &str {
        self.target.subresource.as_deref().unwrap_or_default()
    }

    /// Returns the past revision that a read sees, if a fault was injected.
    pub(crate) fn stale_revision(&self) -> Option<u64> {
        self.stale_by_writes.map(|back| self.server.storage.revision_before(self.resource.table, back))
    }

    pub(crate) fn not_found(&self) -> StatusError {
        StatusError::not_found(self.resource.group_resource(), self.name())
    }

    pub(crate) fn dry_run(&self) -> ApiResult<bool> {
        match self.query.text("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(self.bad_option(&field::not_supported("dryRun", serde_json::json!([other]), &["All"]))),
        }
    }

    pub(crate) fn field_validation(&self) -> ApiResult<FieldValidation> {
        match self.query.text("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => {
                let known = &["", "Ignore", "Strict", "Warn"];
                Err(self.bad_option(&field::not_supported("fieldValidation", other, known)))
            }
        }
    }

    /// Checks the length of the field manager's name.
    pub(crate) fn check_field_manager(&self) -> ApiResult<()> {
        const MAX_FIELD_MANAGER_BYTES: usize = 128;
        if self.query.text("fieldManager").len() > MAX_FIELD_MANAGER_BYTES {
            return Err(self.bad_option(&field::too_long("fieldManager", MAX_FIELD_MANAGER_BYTES)));
        }
        Ok(())
    }

    /// Returns the error for an invalid query option. Each verb has its own kind of options.
    fn bad_option(&self, error: &FieldError) -> StatusError {
        let kind = match self.verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
            Verb::Get | Verb::List | Verb::Watch => "ListOptions",
        };
        StatusError::invalid("meta.k8s.io", kind, "", std::slice::from_ref(error))
    }

    /// Returns the writer for managed fields: the field manager of the query, or else the program
    /// name in the user agent.
    pub(crate) fn field_manager<'a>(&'a self, api_version: &'a str) -> FieldManager<'a> {
        let query_manager = self.query.text("fieldManager");
        let manager = if query_manager.is_empty() {
            self.user_agent.split('/').next().unwrap_or_default()
        } else {
            query_manager
        };
        FieldManager {
            manager: if manager.is_empty() { "unknown" } else { manager },
            api_version,
            subresource: if matches!(self.subresource(), "status" | "scale") { self.subresource() } else { "" },
            now: self.now(),
            status_is_subresource: self.resource.has_status(),
            implicit_fields: if self.resource.is_custom() { &[] } else { IMPLICIT_STRUCT_FIELDS },
        }
    }

    /// Parses the body as an object, in the format that its media type states.
    pub(crate) fn read_body(&self) -> ApiResult<Parsed> {
        let kind = &self.resource.kind;
        let unrecognized = |problem: String| {
            let body_start = String::from_utf8_lossy(&self.body[..self.body.len().min(128)]).into_owned();
            let problem = if problem.starts_with("EOF") { "unexpected end of JSON input".to_string() } else { problem };
            let message = format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {problem} ({body_start})"
            );
            StatusError::bad_request(message)
        };
        let parsed = match self.content_type.as_str() {
            "" | "application/json" | "*/*" => json::parse_json(&self.body),
            "application/yaml" => json::parse_yaml(&self.body),
            PROTOBUF => match protobuf::parse(&self.body) {
                Some(value) => Ok(Parsed { value, duplicates: Vec::new() }),
                None => {
                    return Err(StatusError::unsupported_media_type(
                        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
                    ));
                }
            },
            _ => {
                return Err(StatusError::unsupported_media_type(
                    "application/json, application/yaml, application/vnd.kubernetes.protobuf",
                ));
            }
        };
        let parsed = parsed.map_err(unrecognized)?;
        if parsed.value.is_object() {
            Ok(parsed)
        } else {
            Err(unrecognized("json: cannot unmarshal value into an object".into()))
        }
    }

    /// Returns stored bytes in the form in which this resource is served.
    pub(crate) fn to_served_bytes(&self, stored: Bytes) -> Bytes {
        to_served_bytes(&self.resource, stored)
    }

    /// Converts an object from the served to the stored form.
    pub(crate) fn to_stored_form(&self, object: Value) -> Value {
        match self.resource.served_as {
            ServedAs::AsStored => object,
            ServedAs::EventsV1 => events_v1_event_to_core(&object),
            ServedAs::AutoscalingV1 => autoscaler_to_v2(&object),
            ServedAs::OtherVersion => {
                let mut object = object;
                let version = format!("{}/{}", self.resource.group, self.resource.storage_version);
                object::ensure_object(&mut object, &[]).insert("apiVersion".into(), version.into());
                object
            }
        }
    }

    /// Converts a stored object to the form in which this resource is served.
    pub(crate) fn to_served_form<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        to_served_form(&self.resource, object)
    }
}

/// Converts a stored object to the form in which `resource` is served.
pub(crate) fn to_served_form<'o>(resource: &Resource, object: &'o Value) -> Cow<'o, Value> {
    match resource.served_as {
        ServedAs::AsStored => Cow::Borrowed(object),
        ServedAs::EventsV1 => Cow::Owned(core_event_to_events_v1(object)),
        ServedAs::AutoscalingV1 => Cow::Owned(autoscaler_to_v1(object)),
        ServedAs::OtherVersion => {
            let mut served = object.clone();
            object::ensure_object(&mut served, &[]).insert("apiVersion".into(), resource.api_version().into());
            Cow::Owned(served)
        }
    }
}

/// Returns stored bytes in the form in which `resource` is served.
pub(crate) fn to_served_bytes(resource: &Resource, stored: Bytes) -> Bytes {
    if resource.served_as == ServedAs::AsStored {
        return stored;
    }
    serde_json::from_slice(&stored).map_or(stored, |object: Value| to_served_form(resource, &object).to_string().into())
}

/// Parses a stored object. It cannot fail, because the server has written the bytes itself;
/// otherwise the client gets an internal error.
pub(crate) fn parse_stored(stored: &StoredObject) -> ApiResult<Value> {
    serde_json::from_slice(stored.bytes())
        .map_err(|problem| StatusError::internal(&format!("reading a stored object: {problem}")))
}

/// Parses a stored object and returns its managed fields separately: as part of the tree they would
/// take most of the time.
pub(crate) fn parse_stored_and_split_managed_fields(stored: &StoredObject) -> ApiResult<(Value, ManagedFields)> {
    json::parse_and_split_managed_fields(stored.bytes())
        .map_err(|problem| StatusError::internal(&format!("reading a stored object: {problem}")))
}
