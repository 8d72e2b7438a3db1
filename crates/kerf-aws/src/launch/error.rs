//! Failures of a launch attempt, with their class (spec 05 §15.6, §18).

use kerf_cloud::{BoxError, CreateError};
use kerf_runtime::Causes;

use crate::aws_errors::{FailureReason, failure_reason, find_aws_error};
use crate::launch_templates::{LaunchTemplateContentError, LaunchTemplateError};
use crate::ports::AwsError;
use crate::user_data::UserDataError;

/// Failure of one attempt to launch.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    /// No type or offering is left.
    #[error("{0}")]
    InsufficientCapacity(#[source] BoxError),
    /// The status of the class has no subnets.
    #[error("getting subnets, {0}")]
    Subnets(#[source] BoxError),
    /// The launch templates or the request cannot be made.
    #[error("getting launch template configs, {}", Causes(.0.as_ref()))]
    Templates(#[source] BoxError),
    /// A template does not exist any more. The attempt is repeated once.
    #[error("creating fleet request, {0}")]
    TemplateNotFound(#[source] AwsError),
    /// The request failed as a whole.
    #[error("creating fleet request, {0}")]
    Fleet(#[source] AwsError),
    /// The fleet launched no instance, and not only for lack of capacity.
    #[error("{0}")]
    FleetErrors(String),
}

impl AttemptError {
    /// Returns true if a launch template was deleted, so that another attempt creates it again.
    pub(super) fn is_template_not_found(&self) -> bool {
        find_aws_error(self).is_some_and(AwsError::is_launch_template_not_found)
    }
}

impl From<LaunchTemplateError> for AttemptError {
    fn from(error: LaunchTemplateError) -> Self {
        Self::Templates(Box::new(error))
    }
}

impl From<AttemptError> for CreateError {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::InsufficientCapacity(cause) => Self::InsufficientCapacity(cause),
            AttemptError::Subnets(_) => Self::Rejected {
                reason: "SubnetResolutionFailed".to_owned(),
                message: "Error getting subnets".to_owned(),
                cause: Box::new(error),
            },
            AttemptError::Templates(ref cause) if is_class_not_ready(cause) => Self::NodeClassNotReady(Box::new(error)),
            AttemptError::Templates(_) => rejected(error, "Error getting launch template configs: "),
            AttemptError::TemplateNotFound(_) => {
                rejected(error, "Launch templates not found when creating fleet request: ")
            }
            AttemptError::Fleet(_) => rejected(error, "Error creating fleet request: "),
            AttemptError::FleetErrors(_) => rejected(error, ""),
        }
    }
}

/// Returns the error with the reason and message of its text.
fn rejected(error: AttemptError, message_prefix: &str) -> CreateError {
    let FailureReason { reason, message } = failure_reason(&Causes(&error).to_string());
    CreateError::Rejected {
        reason: reason.to_owned(),
        message: format!("{message_prefix}{message}"),
        cause: Box::new(error),
    }
}

/// Returns true if user data needs a fact about the cluster that is found when the node class is
/// validated.
fn is_class_not_ready(cause: &BoxError) -> bool {
    let content = cause.downcast_ref::<LaunchTemplateError>();
    matches!(
        content,
        Some(LaunchTemplateError::Content(LaunchTemplateContentError::UserData(UserDataError::UnknownServiceCidr)))
    )
}
