//! The audit log: a list of write requests, recorded only after [`crate::ApiServer::start_audit`].
//! Tests read it, for example to assert that a controller wrote nothing while there was nothing to
//! do.

use jiff::Timestamp;

use crate::api::Verb;

/// One write request, successful or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedWrite {
    /// Time of the request on the server's clock.
    pub at: Timestamp,
    /// User agent of the client.
    pub user_agent: String,
    /// Verb of the request; always one that writes.
    pub verb: Verb,
    /// Plural name of the resource, such as `pods`.
    pub resource: String,
    /// Subresource of the request; empty if it had none.
    pub subresource: String,
    /// Namespace of the object; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object; empty if the server generated the name, or if the request concerned a
    /// collection.
    pub name: String,
    /// HTTP status code of the response.
    pub code: u16,
}
