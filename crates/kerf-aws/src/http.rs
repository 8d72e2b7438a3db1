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
//! Paths outside of AWS's names help tests: `GET /kerf/instances` returns the running instances
//! with their user data, `GET /kerf/calls` the recorded calls as JSON lines, and `POST /kerf/aws`
//! changes the account if the program has set an [`AccountChange`].

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

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};

pub use server::AwsServer;

use crate::memory::{AwsFailure, AwsOperation, MemoryAws, with_record};
use crate::ports::AwsError;
use credential::CredentialScope;
use query::Parameters;
use service::AwsService;

/// Changes the account as the body of a `POST /kerf/aws` says, and returns a line for each change.
/// Fails with a message for each part of the body that cannot be read or changes nothing.
pub type AccountChange = Arc<dyn Fn(&Bytes) -> Result<Vec<String>, Vec<String>> + Send + Sync>;

/// Answers HTTP requests from an EC2 in memory, without a socket. Clones share one EC2.
#[derive(Clone)]
pub struct AwsHttp {
    aws: MemoryAws,
    /// Carries out `POST /kerf/aws`; `None` if the server has no such path.
    change: Option<AccountChange>,
}

impl fmt::Debug for AwsHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsHttp").field("aws", &self.aws).finish_non_exhaustive()
    }
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
        Self { aws, change: None }
    }

    /// Lets `POST /kerf/aws` change the account, for tests that run in another process.
    #[must_use]
    pub fn with_account_change(self, change: AccountChange) -> Self {
        Self { change: Some(change), ..self }
    }

    /// Answers a request. Returns `None` if the answer is lost: the caller closes the connection.
    pub async fn respond(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        if path.starts_with(control::PREFIX) {
            return Some(control::respond(self, &parts.method, &path, &body));
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
