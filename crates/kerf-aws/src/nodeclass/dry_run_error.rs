//! Errors of the checks with AWS calls.

use crate::discovery::amis::AmiMatchError;
use crate::instance_types::InstanceTypeError;
use crate::launch_templates::LaunchTemplateContentError;
use crate::ports::AwsError;
use crate::restricted_tags::RestrictedTagsError;
use crate::user_data::UserDataError;

/// Reason why a class cannot be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DryRunError {
    /// There is no instance type for the check.
    #[error(transparent)]
    TypeChoice(#[from] TypeChoiceError),
    /// The class sets tags that Kerf owns.
    #[error(transparent)]
    Tags(#[from] RestrictedTagsError),
    /// The content of the template cannot be made.
    #[error("validating ec2:CreateLaunchTemplate authorization, {0}")]
    TemplateContent(#[source] LaunchTemplateContentError),
    /// EC2 returned several templates of one name.
    #[error("validating ec2:CreateLaunchTemplate authorization, {0}")]
    AmbiguousTemplate(String),
    /// A call failed for another reason than missing permissions.
    #[error("validating {operation} authorization, {cause}")]
    Call {
        /// The call, for example `ec2:CreateFleet`.
        operation: &'static str,
        /// EC2's answer.
        #[source]
        cause: AwsError,
    },
}

impl DryRunError {
    /// Returns the failed AWS call, if there is one.
    pub(crate) fn aws_error(&self) -> Option<&AwsError> {
        match self {
            Self::Call { cause, .. } => Some(cause),
            Self::TypeChoice(_) | Self::Tags(_) | Self::TemplateContent(_) | Self::AmbiguousTemplate(_) => None,
        }
    }

    /// Returns reason and message of the condition `ValidationSucceeded` if the user has to change
    /// the class or its NodePools. Returns `None` for other errors.
    pub(crate) fn user_error(&self) -> Option<(&'static str, String)> {
        match self {
            Self::TemplateContent(LaunchTemplateContentError::UserData(error)) => match error {
                UserDataError::UnknownServiceCidr | UserDataError::Yaml(_) => None,
                UserDataError::Archive(_) | UserDataError::Settings(_) => {
                    Some(("InvalidUserData", format!("spec.userData: {error}")))
                }
            },
            Self::TemplateContent(error @ LaunchTemplateContentError::VolumeSize { .. }) => {
                Some(("InvalidBlockDeviceMappings", error.to_string()))
            }
            Self::TypeChoice(TypeChoiceError::Amis(AmiMatchError::NoMatch(ids))) => {
                let message = format!(
                    "AMIs {} run on no instance type that the NodePools of the class allow: select AMIs of another \
                     architecture in spec.amiSelectorTerms, or allow their architecture in a NodePool",
                    ids.join(", ")
                );
                Some(("NoCompatibleAMI", message))
            }
            Self::TypeChoice(TypeChoiceError::InstanceTypes(_) | TypeChoiceError::Amis(AmiMatchError::NoAmis))
            | Self::Tags(_)
            | Self::AmbiguousTemplate(_)
            | Self::Call { .. } => None,
        }
    }
}

/// Reason why a class cannot be validated with any type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TypeChoiceError {
    /// The instance types are unknown.
    #[error("getting instance types, {0}")]
    InstanceTypes(#[from] InstanceTypeError),
    /// No type has an image.
    #[error(transparent)]
    Amis(#[from] AmiMatchError),
}
