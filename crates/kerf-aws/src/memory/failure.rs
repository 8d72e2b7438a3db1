//! An error answer, before the service and the operation are known.

/// An error that a service answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwsFailure {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
}

impl AwsFailure {
    pub(crate) fn new(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into() }
    }

    /// Returns an error with status 400, which EC2 uses for nearly all errors.
    pub(crate) fn bad_request(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    pub(crate) fn invalid_value(message: impl Into<String>) -> Self {
        Self::bad_request("InvalidParameterValue", message)
    }

    pub(crate) fn missing(parameter: &str) -> Self {
        Self::bad_request("MissingParameter", format!("The request must contain the parameter {parameter}"))
    }

    /// Returns EC2's answer to a dry run that passed.
    pub(crate) fn dry_run() -> Self {
        Self::new(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
    }
}
