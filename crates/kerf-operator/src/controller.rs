//! The interface of a controller: its name, what it does with a key, and the errors that it
//! returns.

use std::fmt;

use kerf_api::slim::Str;
use kerf_runtime::ReconcileAction;
use serde_json::Value;

/// A controller.
pub trait Reconcile: Send + Sync + 'static {
    /// The error of a failed reconcile.
    type Error: ReconcileError;

    /// True if a running reconcile is dropped when shutdown is requested, because it may wait for
    /// long. Others get time to finish. Set it only if every step may be repeated.
    const ENDS_AT_SHUTDOWN: bool = false;

    /// Compares the wanted with the actual state of the object that the key names, acts on the
    /// difference, and returns when to run again. It reads the current state, not the event that
    /// enqueued the key, so the source and the number of events do not matter.
    fn reconcile(&self, key: &Str) -> impl Future<Output = Result<ReconcileAction, Self::Error>> + Send;
}

/// The error of a reconcile. It is logged as `Reconciler error` and counted.
pub trait ReconcileError: fmt::Display + Send {
    /// Returns true if a retry cannot help. The key then waits for the next event; other errors are
    /// retried with back-off (spec 06 §1.1).
    fn is_terminal(&self) -> bool {
        false
    }

    /// Returns further fields of the log line (spec 06 §1.2), in the order of their keys.
    fn log_fields(&self) -> Vec<(String, Value)> {
        Vec::new()
    }
}

/// Published name of a controller, and the kind that its keys name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerName {
    /// Name in logs and metrics, for example `nodeclaim.lifecycle`.
    pub name: &'static str,
    /// Kind of the objects that the keys name; `None` for singletons.
    pub kind: Option<ObjectKind>,
}

impl ControllerName {
    /// Returns the name of a controller that has a single key.
    pub const fn singleton(name: &'static str) -> Self {
        Self { name, kind: None }
    }

    /// Returns the name of a controller whose keys name objects of one kind.
    pub const fn of_kind(name: &'static str, kind: ObjectKind) -> Self {
        Self { name, kind: Some(kind) }
    }
}

/// Group and kind of an object, for log fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Kind, for example `NodeClaim`.
    pub kind: &'static str,
}

impl ObjectKind {
    /// Returns group and kind of a typed resource.
    pub const fn of<K: k8s_openapi::Resource>() -> Self {
        Self { group: K::GROUP, kind: K::KIND }
    }
}
