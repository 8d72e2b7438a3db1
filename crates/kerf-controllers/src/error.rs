//! Errors of a reconcile, and the other ways in which it can end early. Two of these are no errors:
//! the object no longer exists, or another writer changed it first.

use std::time::Duration;

use kerf_cloud::BoxError;
use kerf_runtime::{ApiError, ReconcileAction};

/// Reason for a failed reconcile. The error is logged and counted, and the key is retried with
/// back-off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("{operation}, {cause}")]
    Api {
        /// The attempted operation, such as "patching nodeclaim".
        operation: &'static str,
        /// The error of the client.
        #[source]
        cause: ApiError,
    },
    /// A call to the cloud provider failed.
    #[error("{operation}, {cause}")]
    Cloud {
        /// The attempted operation, such as "terminating instance".
        operation: &'static str,
        /// The error of the provider.
        #[source]
        cause: BoxError,
    },
    /// A registration hook of the cloud provider failed.
    #[error("registration hook {name:?} failed, {cause}")]
    Hook {
        /// Name of the hook.
        name: String,
        /// The error of the hook.
        #[source]
        cause: BoxError,
    },
    /// The NodePool has exceeded one of its limits since the decision was made.
    #[error("resource usage exceeds limit (limit={limit}, resource-name={resource}, usage={usage})")]
    LimitExceeded {
        /// The limit, as written in the NodePool.
        limit: String,
        /// Name of the limited resource.
        resource: String,
        /// Current usage of the resource by the NodePool.
        usage: String,
    },
    /// The NodePool was deleted between the decision and the write.
    #[error("getting current resource usage, nodepool {0:?} not found")]
    PoolNotFound(String),
    /// An object or a decision is invalid. The text names the cause.
    #[error("{0}")]
    Invalid(String),
    /// Another error, with the operation that it was part of.
    #[error("{operation}, {cause}")]
    WithContext {
        /// The operation that the failed step was part of.
        operation: &'static str,
        /// The error of the failed step.
        #[source]
        cause: Box<Error>,
    },
    /// At least two errors of steps that ran independently.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl kerf_operator::ReconcileError for Error {}

impl Error {
    /// Adds the operation that the failed step was part of.
    pub(crate) fn with_context(self, operation: &'static str) -> Self {
        Self::WithContext { operation, cause: Box::new(self) }
    }

    /// Returns true if the API server rejected the request and would reject an identical one again:
    /// status 4xx, except 429 (too many requests).
    pub(crate) fn is_client_error(&self) -> bool {
        let Self::Api { cause: ApiError::Other(cause), .. } = self else { return false };
        matches!(cause.as_ref(), kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
    }

    /// Combines errors into one result. Returns `Ok` if there are none.
    pub(crate) fn combine(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// An early end of a reconcile.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// Nothing is wrong; the reconcile ends with this action.
    Requeue(ReconcileAction),
    /// The reconcile failed.
    Failed(Error),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Interrupted {
    /// Converts the outcome of a reconcile that may have ended early into the result for its queue.
    pub(crate) fn into_result(outcome: Result<ReconcileAction, Self>) -> Result<ReconcileAction, Error> {
        match outcome {
            Ok(next) | Err(Self::Requeue(next)) => Ok(next),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}

/// Delay before a reconcile runs again after a write conflict. A conflict is not a failure, so it
/// does not use the back-off. By the end of the delay the watch has usually delivered the object
/// that the other writer stored.
pub(crate) const REQUEUE_AFTER_CONFLICT: ReconcileAction = ReconcileAction::RequeueAfter(Duration::from_millis(100));

/// Maps the result of an API request about the reconciled object itself to the way in which the
/// reconcile continues (spec 04 §1.1): it ends if the object does not exist, runs again soon after
/// a conflict, and fails on every other error.
pub(crate) fn api_result<T>(operation: &'static str, result: Result<T, ApiError>) -> Result<T, Interrupted> {
    result.map_err(|cause| match cause {
        ApiError::NotFound => Interrupted::Requeue(ReconcileAction::Done),
        ApiError::Conflict => Interrupted::Requeue(REQUEUE_AFTER_CONFLICT),
        ApiError::TimedOut | ApiError::Other(_) => Interrupted::Failed(Error::Api { operation, cause }),
    })
}
