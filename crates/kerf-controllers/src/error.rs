//! What ends a reconcile before its end. Two of the ways are no errors: the object is gone, or somebody else wrote first.

use std::time::Duration;

use kerf_cloud::BoxError;
use kerf_runtime::{ApiError, ReconcileAction};

/// Why a reconcile failed. It is logged, counted, and tried again with back-off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do what it was asked.
    #[error("{doing}, {cause}")]
    Api {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        cause: ApiError,
    },
    /// The cloud did not do what it was asked.
    #[error("{doing}, {cause}")]
    Cloud {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        cause: BoxError,
    },
    /// A registration hook failed.
    #[error("registration hook {name:?} failed, {cause}")]
    Hook {
        /// The hook.
        name: String,
        /// What went wrong.
        #[source]
        cause: BoxError,
    },
    /// A limit of the pool has been passed since the decision was taken.
    #[error("resource usage exceeds limit (limit={limit}, resource-name={resource}, usage={usage})")]
    LimitExceeded {
        /// The limit.
        limit: String,
        /// The resource.
        resource: String,
        /// What there is.
        usage: String,
    },
    /// The pool went between the decision and its deed.
    #[error("getting current resource usage, nodepool {0:?} not found")]
    PoolNotFound(String),
    /// An object says something that makes no sense; the text says which field.
    #[error("{0}")]
    Invalid(String),
    /// What a failure was part of.
    #[error("{doing}, {cause}")]
    WithContext {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        cause: Box<Error>,
    },
    /// Several failures at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
}

impl Error {
    /// The failure as a part of something.
    pub(crate) fn with_context(self, doing: &'static str) -> Self {
        Self::WithContext { doing, cause: Box::new(self) }
    }

    /// Whether the API server will not have what it was given, and would not the next time either.
    pub(crate) fn is_client_error(&self) -> bool {
        let Self::Api { cause: ApiError::Other(cause), .. } = self else { return false };
        matches!(cause.as_ref(), kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
    }

    /// All of several failures as one; none if there are none.
    pub(crate) fn combine(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

/// What ends a reconcile early.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// Nothing is wrong; this is when to come back.
    Requeue(ReconcileAction),
    /// Something is.
    Failed(Error),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Interrupted {
    /// The outcome of a reconcile that may have ended early.
    pub(crate) fn into_result(outcome: Result<ReconcileAction, Self>) -> Result<ReconcileAction, Error> {
        match outcome {
            Ok(next) | Err(Self::Requeue(next)) => Ok(next),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}

/// When a reconcile comes back after somebody else wrote first. Nothing failed, so it does not wait as long as failures do, nor at their
/// expense: by then the watch has told what was written.
pub(crate) const REQUEUE_AFTER_CONFLICT: ReconcileAction = ReconcileAction::RequeueAfter(Duration::from_millis(100));

/// How a reconcile goes on after a call to the API server about its own object: it ends if the object is gone, comes back if somebody
/// else wrote first, and fails for any other reason (spec 04 §1.1).
pub(crate) fn api_result<T>(doing: &'static str, answer: Result<T, ApiError>) -> Result<T, Interrupted> {
    answer.map_err(|cause| match cause {
        ApiError::NotFound => Interrupted::Requeue(ReconcileAction::Done),
        ApiError::Conflict => Interrupted::Requeue(REQUEUE_AFTER_CONFLICT),
        ApiError::TimedOut | ApiError::Other(_) => Interrupted::Failed(Error::Api { doing, cause }),
    })
}
