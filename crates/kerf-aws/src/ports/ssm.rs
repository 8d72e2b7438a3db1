//! AWS Systems Manager: public parameters with image IDs.

use super::AwsFuture;

/// The calls of AWS Systems Manager.
pub trait Ssm: Send + Sync {
    /// `GetParameter`: returns the value of a parameter. `name` may also be an ARN.
    fn get_parameter<'a>(&'a self, name: &'a str) -> AwsFuture<'a, String>;
}
