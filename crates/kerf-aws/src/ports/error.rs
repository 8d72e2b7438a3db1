//! A failed AWS call as data.

use std::fmt;

/// Error codes with which services answer too many requests, or requests that arrive too slowly.
/// The HTTP status of some of them is 400.
const RETRYABLE_CODES: [&str; 12] = [
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "PriorRequestNotComplete",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestTimeout",
    "RequestTimeoutException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// A failed AWS call, after all attempts of the SDK.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AwsError {
    /// Name of the service as in AWS's SDK for Go, for example `EC2`.
    pub service: &'static str,
    /// Name of the operation, for example `CreateFleet`.
    pub operation: &'static str,
    /// Error code of the service, for example `UnauthorizedOperation`. `None` if the service did
    /// not answer, or its answer has no code.
    pub code: Option<String>,
    /// The service's message, or the reason why there was no answer.
    pub message: String,
    /// HTTP status of the answer; `None` if there was none.
    pub http_status: Option<u16>,
    /// ID of the request, for support cases; `None` if there was no answer.
    pub request_id: Option<String>,
    /// Number of attempts that were made.
    pub attempts: u32,
    /// The side that the failure is attributed to.
    pub fault: Fault,
    /// True if a later attempt may succeed: throttling, server errors, time-outs, failed
    /// connections.
    pub is_retryable: bool,
}

/// The side that a failure is attributed to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// The request was wrong or not allowed.
    Client,
    /// The service failed.
    Server,
    /// There was no answer, or it does not say.
    #[default]
    Unknown,
}

impl AwsError {
    /// Returns an error that the service answered with. `status` decides the fault; `status` and
    /// `code` decide whether a later attempt may succeed.
    pub fn api(
        service: &'static str,
        operation: &'static str,
        status: u16,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let code = code.into();
        let is_retryable = status >= 500 || status == 429 || RETRYABLE_CODES.contains(&code.as_str());
        Self {
            service,
            operation,
            code: Some(code),
            message: message.into(),
            http_status: Some(status),
            request_id: None,
            attempts: 1,
            fault: if status >= 500 { Fault::Server } else { Fault::Client },
            is_retryable,
        }
    }

    /// Returns an error for a call that got no answer.
    pub fn no_answer(service: &'static str, operation: &'static str, message: impl Into<String>) -> Self {
        Self { service, operation, message: message.into(), attempts: 1, is_retryable: true, ..Self::default() }
    }

    /// Returns true if the service answered with this code.
    pub fn has_code(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// Returns the fields that spec 06 §1.2 adds to log lines, in the order of their keys.
    pub fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        let mut fields: Vec<(&str, serde_json::Value)> = Vec::new();
        if let Some(code) = &self.code {
            fields.push(("aws-error-code", code.as_str().into()));
        }
        fields.push(("aws-operation-name", self.operation.into()));
        if let Some(id) = &self.request_id {
            fields.push(("aws-request-id", id.as_str().into()));
        }
        fields.push(("aws-service-name", self.service.into()));
        if let Some(status) = self.http_status {
            fields.push(("aws-status-code", status.into()));
        }
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

/// The text of AWS's SDK for Go, which users of Karpenter know from events and search for.
impl fmt::Display for AwsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation error {}: {}, ", self.service, self.operation)?;
        if let Some(status) = self.http_status {
            let request_id = self.request_id.as_deref().unwrap_or_default();
            write!(f, "https response error StatusCode: {status}, RequestID: {request_id}, ")?;
        }
        match &self.code {
            Some(code) => write!(f, "api error {code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for AwsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_go_sdk() {
        let error = AwsError {
            request_id: Some("7f2a".into()),
            ..AwsError::api("EC2", "CreateFleet", 403, "UnauthorizedOperation", "You are not authorized.")
        };
        assert_eq!(
            error.to_string(),
            "operation error EC2: CreateFleet, https response error StatusCode: 403, RequestID: 7f2a, \
             api error UnauthorizedOperation: You are not authorized."
        );
        assert_eq!(error.fault, Fault::Client);
        let no_answer = AwsError::no_answer("SSM", "GetParameter", "connection refused");
        assert_eq!(no_answer.to_string(), "operation error SSM: GetParameter, connection refused");
        assert_eq!((no_answer.fault, no_answer.is_retryable), (Fault::Unknown, true));
    }

    // spec 05 §2: the errors that the SDK retries
    #[test]
    fn throttling_and_server_errors_are_retryable() {
        let is_retryable = |status, code: &str| AwsError::api("SSM", "GetParameter", status, code, "").is_retryable;
        assert!(is_retryable(400, "ThrottlingException") && is_retryable(503, "RequestLimitExceeded"));
        assert!(is_retryable(429, "Other") && is_retryable(500, "InternalError"));
        assert!(!is_retryable(400, "ParameterNotFound") && !is_retryable(403, "UnauthorizedOperation"));
        assert!(RETRYABLE_CODES.is_sorted());
    }

    // spec 06 §1.2
    #[test]
    fn log_fields_are_those_that_are_known() {
        let keys = |error: &AwsError| -> Vec<String> { error.log_fields().into_iter().map(|(key, _)| key).collect() };
        let mut error = AwsError::api("EC2", "CreateFleet", 503, "Unavailable", "try later");
        error.request_id = Some("1".into());
        let all = ["aws-error-code", "aws-operation-name", "aws-request-id", "aws-service-name", "aws-status-code"];
        assert_eq!(keys(&error), all);
        let no_answer = AwsError::no_answer("EC2", "CreateFleet", "timed out");
        assert_eq!(keys(&no_answer), ["aws-operation-name", "aws-service-name"]);
    }
}
