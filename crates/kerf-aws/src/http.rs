//! The EC2 in memory over HTTP, in AWS's wire formats, so that the AWS SDKs, `boto3` and the `aws`
//! command line can call it.
//!
//! One listener serves all services. A request belongs to the service of its credential scope
//! (`…/us-west-2/ec2/aws4_request`). Signatures are not checked, but a request without credentials
//! gets AWS's error. Each operation is a translation: request → call of [`crate::ports`] → answer.
//! All rules are in [`crate::memory`], also the faults: throttling becomes the service's error, and
//! a lost answer closes the connection.
//!
//! A parameter that an operation does not read is an error (`UnknownParameter`), so that no part of
//! a request is ignored silently.
//!
//! Two paths outside of AWS's names help tests: `GET /kerf/instances` returns the running instances
//! with their user data, `GET /kerf/calls` the recorded calls as JSON lines.

mod control;
mod credential;
mod ec2;
mod eks;
mod iam;
mod names;
mod pricing;
mod query;
mod server;
mod service;
mod sqs;
mod ssm;
mod sts;
#[cfg(test)]
mod tests;
mod xml;
mod zonal_shift;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};

pub use server::AwsServer;

use crate::memory::{AwsFailure, AwsOperation, MemoryAws, with_record};
use crate::ports::AwsError;
use credential::CredentialScope;
use query::Parameters;
use service::AwsService;

/// Answers HTTP requests from an EC2 in memory, without a socket. Clones share one EC2.
#[derive(Debug, Clone)]
pub struct AwsHttp {
    aws: MemoryAws,
}

/// The reason why an operation has no content to answer with.
#[derive(Debug, Clone, PartialEq)]
enum OperationError {
    /// The request cannot be translated, so the EC2 in memory was not called.
    Rejected(AwsFailure),
    /// The EC2 in memory answered with an error, or its answer is lost.
    Call(AwsError),
}

impl From<AwsFailure> for OperationError {
    fn from(failure: AwsFailure) -> Self {
        Self::Rejected(failure)
    }
}

impl From<AwsError> for OperationError {
    fn from(error: AwsError) -> Self {
        Self::Call(error)
    }
}

/// Content of a successful answer: the elements inside the answer's root element, or JSON.
type Content = Result<String, OperationError>;

/// A request after its body is read.
struct WireRequest {
    method: Method,
    path: String,
    headers: HeaderMap,
    parameters: Result<Parameters, AwsFailure>,
    body: Bytes,
}

impl AwsHttp {
    /// Creates a front of `aws`.
    pub fn new(aws: MemoryAws) -> Self {
        Self { aws }
    }

    /// Answers a request. Returns `None` if the answer is lost: the caller closes the connection.
    pub async fn respond(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        if path.starts_with(control::PREFIX) {
            return Some(control::respond(&self.aws, &parts.method, &path));
        }
        let parameters = Parameters::parse(parts.uri.query().unwrap_or_default(), &parts.headers, &body);
        let request = WireRequest { method: parts.method, path, headers: parts.headers, parameters, body };
        let scope = CredentialScope::of(&request);
        let service = match &scope {
            Some(scope) => AwsService::of_scope(scope, &request),
            None => AwsService::of_unsigned(&request),
        };
        let operation = service.operation(&request);
        let (content, record) = with_record(self.answer(service, operation, scope, request)).await;
        let request_id = record.map(|record| record.request_id).unwrap_or_default();
        match content {
            Ok(content) => Some(service.success(operation.name, &request_id, &content)),
            Err(AwsError { http_status: None, .. }) => None,
            Err(error) => Some(service.error(&error, &request_id)),
        }
    }

    /// Carries out an operation. A request that is rejected before it reaches the EC2 in memory is
    /// recorded as a call that failed.
    async fn answer(
        &self,
        service: AwsService,
        operation: AwsOperation,
        scope: Option<CredentialScope>,
        request: WireRequest,
    ) -> Result<String, AwsError> {
        let content = match service.check_credentials(scope.as_ref(), &self.aws.region()) {
            Ok(()) => service.call(&self.aws, operation.name, request).await,
            Err(failure) => Err(failure.into()),
        };
        match content {
            Ok(content) => Ok(content),
            Err(OperationError::Call(error)) => Err(error),
            Err(OperationError::Rejected(failure)) => {
                let text = format!("rejected: {}", failure.message);
                self.aws.call(operation, text, |_, _| Err(failure)).await
            }
        }
    }
}
