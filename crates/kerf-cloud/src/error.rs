//! What can go wrong at a provider, one variant for each way in which the controllers react (spec 04 §2.2). Each operation has the
//! classes that it can answer with, so that a reaction cannot be forgotten; a cause of any depth stays reachable by `source`.

use std::error::Error;

/// Whatever lies behind a failure.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a machine was not launched.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is none to be had. The claim is deleted, and provisioning makes another.
    #[error("insufficient capacity, {0}")]
    InsufficientCapacity(#[source] BoxError),
    /// Its node class cannot be used. The claim is deleted.
    #[error("NodeClassRef not ready, {0}")]
    NodeClassNotReady(#[source] BoxError),
    /// The provider says why, in words for the claim's `Launched` condition. The launch is tried again.
    #[error("creating nodeclaim, {cause}")]
    Refused {
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
        /// What lies behind it.
        #[source]
        cause: BoxError,
    },
    /// Anything else. The launch is tried again.
    #[error("{0}")]
    Other(#[source] BoxError),
}

impl CreateError {
    /// The class of an error that may be one of ours under any number of wrappings.
    pub fn classify(error: BoxError) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(classified) => return *classified,
            Err(other) => other,
        };
        match find_in_chain::<Self>(error.as_ref()) {
            Some(Self::InsufficientCapacity(_)) => Self::InsufficientCapacity(error),
            Some(Self::NodeClassNotReady(_)) => Self::NodeClassNotReady(error),
            Some(Self::Refused { reason, message, .. }) => {
                Self::Refused { reason: reason.clone(), message: message.clone(), cause: error }
            }
            Some(Self::Other(_)) | None => Self::Other(error),
        }
    }

    /// The value of the metric label `error`.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity(_) => "InsufficientCapacityError",
            Self::NodeClassNotReady(_) => "NodeClassNotReadyError",
            Self::Refused { .. } | Self::Other(_) => "",
        }
    }
}

/// Why a machine could not be looked up or terminated.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// There is no such machine, or no longer.
    #[error("nodeclaim not found, {0}")]
    NotFound(#[source] BoxError),
    /// Anything else; it is tried again.
    #[error("{0}")]
    Other(#[source] BoxError),
}

impl InstanceError {
    /// The class of an error that may be one of ours under any number of wrappings.
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

    /// The value of the metric label `error`.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NodeClaimNotFoundError",
            Self::Other(_) => "",
        }
    }
}

/// Why machines could not be listed: the whole pass is tried again.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ListError(#[source] pub BoxError);

/// Why a pool's instance types are not known.
#[derive(Debug, thiserror::Error)]
pub enum InstanceTypesError {
    /// Node overlays have not been evaluated for the pool yet; it sits out this pass.
    #[error("nodepool {pool:?} is awaiting evaluation")]
    Unevaluated {
        /// The pool.
        pool: String,
    },
    /// Anything else; the pool sits out this pass, and an error is logged.
    #[error("{0}")]
    Other(#[source] BoxError),
}

/// Why it could not be said whether a machine has drifted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DriftError(#[source] pub BoxError);

/// The first error of type `E` in a chain of causes.
fn find_in_chain<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut current = Some(error);
    while let Some(link) = current {
        if let Some(found) = link.downcast_ref() {
            return Some(found);
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
            (CreateError::Other("boom".into()), "", ""),
        ] {
            let plain = CreateError::classify(Box::new(error));
            assert_eq!(plain.metric_label(), label);
            let wrapped = CreateError::classify(wrap(plain));
            assert_eq!(wrapped.metric_label(), label);
            assert!(wrapped.to_string().starts_with(&format!("{text}launching, calling the fleet, ")), "{wrapped}");
        }
        let gone = InstanceError::classify(wrap(InstanceError::NotFound("i-1".into())));
        assert!(matches!(gone, InstanceError::NotFound(_)));
        assert_eq!(gone.metric_label(), "NodeClaimNotFoundError");
        assert_eq!(InstanceError::classify(wrap("boom")).metric_label(), "");
    }

    #[test]
    fn a_refusal_keeps_its_words_under_any_wrapping() {
        let refusal = CreateError::Refused { reason: "Fraud".into(), message: "no".into(), cause: "m".into() };
        let CreateError::Refused { reason, message, .. } = CreateError::classify(wrap(refusal)) else {
            panic!("another class");
        };
        assert_eq!((reason.as_str(), message.as_str()), ("Fraud", "no"));
    }
}
