//! AWS Systems Manager: public parameters with image IDs.

use super::AwsFuture;

/// The calls of AWS Systems Manager.
pub trait Ssm: Send + Sync {
    /// `GetParameter`: returns the value of a parameter. `name` may also be an ARN.
    fn get_parameter<'a>(&'a self, name: &'a str) -> AwsFuture<'a, String>;

    /// Returns a number that changes when kept values of parameters that AWS changes, such as
    /// `latest`, are to be read again before their time. AWS never asks for it; the sandbox does
    /// when a person publishes images.
    fn refresh_count(&self) -> u64 {
        0
    }
}
