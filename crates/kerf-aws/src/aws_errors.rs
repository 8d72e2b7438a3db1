//! Classes of failed AWS calls (spec 05 §18, 06 §19).
//!
//! The codes decide; texts decide only where AWS uses one code for different failures.

use std::error::Error;

use crate::ports::{AwsError, Fault};

/// Codes of a resource that does not exist.
const NOT_FOUND: [&str; 7] = [
    "InvalidCapacityReservationId.NotFound",
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "QueueDoesNotExist",
    "NoSuchEntity",
    "ParameterNotFound",
];

/// Codes of a fleet error for which the pool has no capacity at present.
const UNFULFILLABLE_CAPACITY: [&str; 9] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    INSUFFICIENT_ADDRESSES,
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
    "SpotMaxPriceTooLow",
];

/// Code of a subnet without free addresses.
pub(crate) const INSUFFICIENT_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";
/// Code of a spot launch in an account without the service-linked role of spot.
pub(crate) const SPOT_ROLE_MISSING: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
/// Code of a launch template that was deleted.
pub(crate) const TEMPLATE_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";

impl AwsError {
    /// Returns true if the resource that the call names does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code.as_deref().is_some_and(|code| NOT_FOUND.contains(&code))
    }

    /// Returns true if a dry run would have succeeded.
    pub(crate) fn is_dry_run_passed(&self) -> bool {
        self.has_code("DryRunOperation")
    }

    /// Returns true if the identity may not make the call.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.has_code("UnauthorizedOperation")
    }

    /// Returns true if the account makes too many calls.
    pub(crate) fn is_rate_limited(&self) -> bool {
        self.has_code("RequestLimitExceeded")
    }

    /// Returns true if the service failed.
    pub(crate) fn is_server_error(&self) -> bool {
        self.fault == Fault::Server
    }

    /// Returns true if the launch template was deleted.
    pub(crate) fn is_launch_template_not_found(&self) -> bool {
        self.has_code(TEMPLATE_NOT_FOUND)
    }

    /// Returns true if EC2 does not know the placement group.
    pub(crate) fn is_placement_group_unknown(&self) -> bool {
        self.has_code("InvalidPlacementGroup.Unknown")
    }

    /// Returns true if EC2 does not know the instance profile.
    pub(crate) fn is_instance_profile_not_found(&self) -> bool {
        self.has_code("InvalidParameterValue") && self.message.contains("Invalid IAM Instance Profile name")
    }

    /// Returns true if the user data exceeds EC2's limit.
    pub(crate) fn is_user_data_too_large(&self) -> bool {
        self.has_code("InvalidUserData.Malformed") && self.message.contains("User data is limited to")
    }

    /// Returns true if IAM does not know the role.
    pub(crate) fn is_role_not_found(&self) -> bool {
        self.has_code("NoSuchEntity") && self.message.contains("role")
    }
}

/// Returns true if a fleet error means that the pool has no capacity at present.
pub(crate) fn is_unfulfillable_capacity(code: &str) -> bool {
    UNFULFILLABLE_CAPACITY.contains(&code)
}

/// Returns true if a fleet error means that a spread placement group is full.
pub(crate) fn is_spread_group_full(code: &str, message: &str) -> bool {
    is_unfulfillable_capacity(code) && message.contains("limit of instances in this spread placement group")
}

/// Returns the failed AWS call in a chain of causes, or `None` if there is none.
pub(crate) fn find_aws_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e AwsError> {
    let mut current = Some(error);
    while let Some(link) = current {
        if let Some(aws) = link.downcast_ref::<AwsError>() {
            return Some(aws);
        }
        current = link.source();
    }
    None
}

/// A reason and a message for conditions and metrics (spec 06 §19.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailureReason {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

/// Returns reason and message for the full text of a failure. The first row that matches wins.
pub(crate) fn failure_reason(text: &str) -> FailureReason {
    let has = |part: &str| text.contains(part);
    let (reason, message) = if has(SPOT_ROLE_MISSING) {
        (
            "SpotSLRCreationFailed",
            "User does not have sufficient permission to create the Spot ServiceLinkedRole to launch spot instances",
        )
    } else if has("UnauthorizedOperation") || has("AccessDenied") || has("AuthFailure") {
        authorization_reason(text)
    } else if has("InvalidParameter") && has("belong to different networks") {
        ("SecurityGroupSubnetVPCMismatch", "Security groups and subnets must be in the same VPC.")
    } else {
        let row = REASONS.iter().find(|(part, ..)| has(part));
        row.map_or(("LaunchFailed", "Instance launch failed"), |(_, reason, message)| (*reason, *message))
    };
    FailureReason { reason, message }
}

fn authorization_reason(text: &str) -> (&'static str, &'static str) {
    if text.contains("with an explicit deny in a permissions boundary") {
        ("Unauthorized", "User is not authorized to perform this operation due to a permission boundary")
    } else if text.contains("with an explicit deny in a service control policy") {
        ("Unauthorized", "User is not authorized to perform this operation due to a service control policy")
    } else if text.contains("Not authorized for images") {
        ("AMIAuthorizationFailure", "User is not authorized for AMI used in instance launch")
    } else {
        ("Unauthorized", "User is not authorized to perform this operation because no identity-based policy allows it")
    }
}

/// Text, reason and message; in the order in which they are compared.
const REASONS: [(&str, &str, &str); 13] = [
    (
        "iamInstanceProfile.name is invalid",
        "InstanceProfileNameInvalid",
        "Instance profile name used from EC2NodeClass status does not exist",
    ),
    (
        "InvalidLaunchTemplateId.NotFound",
        "LaunchTemplateNotFound",
        "Launch template used for instance launch wasn't found",
    ),
    ("User data is limited to", "UserDataSizeLimitExceeded", "Rendered user data exceeds the EC2 user data size limit"),
    ("InvalidAMIID.Malformed", "InvalidAMIID", "AMI used for instance launch is invalid"),
    (
        "InvalidAMIID.NotFound",
        "AMINotFound",
        "AMI used for instance launch either does not exist or you don't have permissions to use it",
    ),
    ("RequestLimitExceeded", "RequestLimitExceeded", "Request limit exceeded"),
    ("InternalError", "InternalError", "An internal error has occurred"),
    ("not eligible for Free Tier", "FreeTierIneligible", "The specified instance type is not eligible for Free Tier"),
    (
        "MaxFleetCountExceeded",
        "FleetQuotaExceeded",
        "A fleet launch was requested but this would exceed your fleet request quota",
    ),
    (
        "PendingVerification",
        "AccountPendingVerification",
        "An instance launch was requested but the request for launching resources in this region is still being \
         verified",
    ),
    (
        "MaxSpotInstanceCountExceeded",
        "SpotQuotaExceeded",
        "A spot instance launch was requested but this would exceed your spot instance quota",
    ),
    ("VcpuLimitExceeded", "VCPULimitExceeded", "An instance was requested that would exceed your VCPU quota"),
    (
        INSUFFICIENT_ADDRESSES,
        INSUFFICIENT_ADDRESSES,
        "There are not enough free IP addresses to launch an instance in this subnet",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, message: &str) -> AwsError {
        AwsError::api("EC2", "CreateFleet", 400, code, message)
    }

    // spec 05 §18, spec 06 §19.1, §19.2
    #[test]
    fn codes_and_messages_decide_the_class() {
        for code in NOT_FOUND {
            assert!(error(code, "").is_not_found(), "{code}");
        }
        assert!(!error("InvalidSubnetID.NotFound", "").is_not_found());
        assert!(!AwsError::no_answer("EC2", "CreateFleet", "NoSuchEntity").is_not_found(), "a text is no code");
        assert!(error("NoSuchEntity", "The role with name x cannot be found.").is_role_not_found());
        assert!(!error("NoSuchEntity", "Instance Profile x cannot be found.").is_role_not_found());
        let profile = "Value (p) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
        assert!(error("InvalidParameterValue", profile).is_instance_profile_not_found());
        assert!(error("InvalidUserData.Malformed", "User data is limited to 16384 bytes").is_user_data_too_large());
        assert!(!error("InvalidUserData.Malformed", "Invalid BASE64 encoding").is_user_data_too_large());
        assert!(AwsError::api("EC2", "CreateFleet", 503, "Unavailable", "").is_server_error());
        assert!(is_unfulfillable_capacity("SpotMaxPriceTooLow"), "spec 10 §12.4");
        assert!(!is_unfulfillable_capacity("RequestLimitExceeded"));
        let full = "You have reached the limit of instances in this spread placement group";
        assert!(is_spread_group_full("InsufficientInstanceCapacity", full));
        assert!(!is_spread_group_full("RequestLimitExceeded", full));
    }

    // spec 06 §19.3
    #[test]
    fn the_first_row_that_matches_gives_the_reason() {
        let reason = |text: &str| failure_reason(text).reason;
        assert_eq!(reason("AuthFailure.ServiceLinkedRoleCreationNotPermitted: x"), "SpotSLRCreationFailed");
        assert_eq!(reason("UnauthorizedOperation: Not authorized for images"), "AMIAuthorizationFailure");
        let boundary = failure_reason("AccessDenied: with an explicit deny in a permissions boundary");
        assert_eq!(boundary.reason, "Unauthorized");
        assert!(boundary.message.ends_with("due to a permission boundary"));
        assert_eq!(reason("InvalidParameter: a and b belong to different networks."), "SecurityGroupSubnetVPCMismatch");
        assert_eq!(reason("InvalidParameterValue: x"), "LaunchFailed");
        for (text, expected, _) in REASONS {
            assert_eq!(reason(&format!("creating fleet, {text}: x")), expected);
        }
        assert_eq!(reason("VcpuLimitExceeded: x; MaxSpotInstanceCountExceeded: y"), "SpotQuotaExceeded", "table order");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] AwsError);

    #[test]
    fn a_failed_call_is_found_under_any_wrapping() {
        let outer = Outer(error("NoSuchEntity", "x"));
        assert_eq!(find_aws_error(&outer).and_then(|found| found.code.as_deref()), Some("NoSuchEntity"));
        assert!(find_aws_error(&std::fmt::Error).is_none());
    }
}
