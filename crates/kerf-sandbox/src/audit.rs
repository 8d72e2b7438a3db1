//! Who wrote what: a list of writes, kept only while somebody wants it. Tests read it to say "this controller wrote nothing while
//! nothing was to be done".

use jiff::Timestamp;

use crate::api::Verb;

/// One write, whatever became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedWrite {
    /// When.
    pub at: Timestamp,
    /// The user agent of the client.
    pub user_agent: String,
    /// What it did.
    pub verb: Verb,
    /// To objects of which resource (`pods`).
    pub resource: String,
    /// Through which subresource; empty for none.
    pub subresource: String,
    /// In which namespace; empty for none.
    pub namespace: String,
    /// To which object; empty if the server chose the name, or for a collection.
    pub name: String,
    /// How the server answered.
    pub code: u16,
}
