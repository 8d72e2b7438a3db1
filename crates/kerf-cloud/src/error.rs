//! Errors of a provider, with one variant per reaction of the controllers (spec 04 §2.2). Each
//! operation has its own error type, so that no caller can forget a reaction. The underlying cause
//! remains available through `source`.

use std::error::Error;
use std::time::Duration;

/// The underlying cause of an error, of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Value of the metric label `error` for errors without a class (spec 10 §2.4).
pub const UNCLASSIFIED_LABEL: &str = "unknown";

/// Reason why an instance was not launched.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// No capacity is available. The claim is deleted, and provisioning creates another.
    #[error("insufficient capacity, {0}")]
    InsufficientCapacity(#[source] BoxError),
    /// The claim's node class cannot be used. The claim is deleted.
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(#[source] BoxError),
    /// The provider rejected the launch and supplies texts for the claim's `Launched` condition.
    /// The launch is retried.
    #[error("creating nodeclaim, {cause}")]
    Rejected {
        /// Reason for the condition.
        reason: String,
        /// Message for the condition.
        message: String,
        /// The underlying error.
        #[source]
        cause: BoxError,
    },
    /// Any other error. The launch is retried.
    #[error("{0}")]
    Other(#[source] BoxError),
}

impl CreateError {
    /// Finds the class of an error that may wrap a [`CreateError`] at any depth. An error without
    /// one becomes [`CreateError::Other`]. The wrapping error becomes the cause.
    pub fn classify(error: BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(classified) => return *classified,
            Err(other) => other,
        };
        match find_in_chain::<Self>(error.as_ref()) {
            Some(Self::InsufficientCapacity(_)) => Self::InsufficientCapacity(error),
            Some(Self::NodeClassNotReady(_)) => Self::NodeClassNotReady(error),
            Some(Self::Rejected { reason, message, .. }) => {
                Self::Rejected { reason: reason.clone(), message: message.clone(), cause: error }
            }
            Some(Self::Other(_)) | None => Self::Other(error),
        }
    }

    /// Returns the value of the metric label `error`.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity(_) => "InsufficientCapacityError",
            Self::NodeClassNotReady(_) => "NodeClassNotReadyError",
            Self::Rejected { .. } | Self::Other(_) => UNCLASSIFIED_LABEL,
        }
    }
}

/// Reason why an instance could not be read or terminated.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The instance does not exist, or no longer exists.
    #[error("nodeclaim not found, {0}")]
    NotFound(#[source] BoxError),
    /// Any other error. The call is retried.
    #[error("{0}")]
    Other(#[source] BoxError),
}

impl InstanceError {
    /// Finds the class of an error that may wrap an [`InstanceError`] at any depth. An error
    /// without one becomes [`InstanceError::Other`]. The wrapping error becomes the cause.
    pub fn classify(error: BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(classified) => return *classified,
            Err(other) => other,
        };
        match find_in_chain::<Self>(error.as_ref()) {
            Some(Self::NotFound(_)) => Self::NotFound(error),
            Some(Self::Other(_)) | None => Self::Other(error),
        }
    }

    /// Returns the value of the metric label `error`.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NodeClaimNotFoundError",
            Self::Other(_) => UNCLASSIFIED_LABEL,
        }
    }
}

/// Reason why the instances could not be listed. The whole pass is retried.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ListError(#[source] pub BoxError);

/// Reason why the instance types of a pool are unknown.
#[derive(Debug, thiserror::Error)]
pub enum InstanceTypesError {
    /// Node overlays have not been evaluated for the pool yet. The pool is left out of this pass.
    #[error("nodepool {pool:?} is awaiting evaluation")]
    Unevaluated {
        /// Name of the NodePool.
        pool: String,
    },
    /// The controller of node classes has not read the pool's class yet. The pool is left out of
    /// this pass.
    #[error("{0}")]
    ClassUnresolved(#[source] BoxError),
    /// Any other error. The pool is left out of this pass, and an error is logged.
    #[error("{0}")]
    Other(#[source] BoxError),
}

/// Reason why a provider could not determine whether an instance has drifted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DriftError(#[source] pub BoxError);

/// Reason why a provider could not start. The process logs it and ends.
#[derive(Debug, thiserror::Error)]
#[error("{message}, {cause}")]
pub struct StartError {
    /// The step that failed, as it is logged, for example `ec2 api connectivity check failed`.
    pub message: String,
    /// The underlying error.
    #[source]
    pub cause: BoxError,
}

/// A call to a provider that did not return in time. The call may still take effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cloud provider did not respond within {} s", .0.as_secs())]
pub struct CallTimedOut(pub Duration);

impl From<CallTimedOut> for CreateError {
    fn from(cause: CallTimedOut) -> Self {
        Self::Other(Box::new(cause))
    }
}

impl From<CallTimedOut> for InstanceError {
    fn from(cause: CallTimedOut) -> Self {
        Self::Other(Box::new(cause))
    }
}

impl From<CallTimedOut> for ListError {
    fn from(cause: CallTimedOut) -> Self {
        Self(Box::new(cause))
    }
}

impl From<CallTimedOut> for InstanceTypesError {
    fn from(cause: CallTimedOut) -> Self {
        Self::Other(Box::new(cause))
    }
}

impl From<CallTimedOut> for DriftError {
    fn from(cause: CallTimedOut) -> Self {
        Self(Box::new(cause))
    }
}

/// Returns the first error of type `E` in a chain of causes.
fn find_in_chain<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut current = Some(error);
    while let Some(link) = current {
        if let Some(matching) = link.downcast_ref() {
            return Some(matching);
        }
        current = link.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}, {cause}")]
    struct Wrapped {
        text: &'static str,
        #[source]
        cause: BoxError,
    }

    fn wrap(cause: impl Into<BoxError>) -> BoxError {
        let once = Wrapped { text: "calling the fleet", cause: cause.into() };
        Box::new(Wrapped { text: "launching", cause: Box::new(once) })
    }

    // spec 04 #38
    #[test]
    fn a_class_is_recognised_under_any_wrapping() {
        for (error, label, text) in [
            (
                CreateError::InsufficientCapacity("none left".into()),
                "InsufficientCapacityError",
                "insufficient capacity, ",
            ),
            (CreateError::NodeClassNotReady("no subnets".into()), "NodeClassNotReadyError", "NodeClassRef not ready, "),
            (CreateError::Other("boom".into()), "unknown", ""),
        ] {
            let plain = CreateError::classify(Box::new(error));
            assert_eq!(plain.metric_label(), label);
            let wrapped = CreateError::classify(wrap(plain));
            assert_eq!(wrapped.metric_label(), label);
            assert!(wrapped.to_string().starts_with(&format!("{text}launching, calling the fleet, ")), "{wrapped}");
        }
        let not_found = InstanceError::classify(wrap(InstanceError::NotFound("i-1".into())));
        assert!(matches!(not_found, InstanceError::NotFound(_)));
        assert_eq!(not_found.metric_label(), "NodeClaimNotFoundError");
        assert_eq!(InstanceError::classify(wrap("boom")).metric_label(), "unknown");
    }

    #[test]
    fn a_rejected_launch_keeps_reason_and_message_under_any_wrapping() {
        let rejected = CreateError::Rejected { reason: "Fraud".into(), message: "no".into(), cause: "m".into() };
        let CreateError::Rejected { reason, message, .. } = CreateError::classify(wrap(rejected)) else {
            panic!("another class");
        };
        assert_eq!((reason.as_str(), message.as_str()), ("Fraud", "no"));
    }
}
