//! The services: which one a request is for, and the form of its answers.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::json;

use super::credential::CredentialScope;
use super::query::Parameters;
use super::xml::Xml;
use super::{Content, WireRequest, ec2, eks, iam, pricing, sqs, ssm, sts, zonal_shift};
use crate::memory::{AwsFailure, AwsOperation, MemoryAws};
use crate::ports::{AwsError, Fault};
use crate::pricing::price_list_region;

/// Header with the name of the operation in the JSON protocol.
const TARGET: &str = "x-amz-target";

/// Name of operations and services that this server does not have, in the call log.
const UNKNOWN: &str = "unknown";

/// Message of the answer to a request for a service that this server does not have.
const OTHER_SERVICE: &str = "This server has the services ec2, iam, sts, ssm, sqs, eks, pricing and arc-zonal-shift; the request is signed for another one.";

/// The service that a request is for, which decides about its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwsService {
    Ec2,
    Iam,
    Sts,
    Ssm,
    Sqs,
    Eks,
    Pricing,
    ZonalShift,
    /// A service with a query protocol that this server does not have.
    OtherQuery,
    /// A service with a JSON protocol that this server does not have.
    OtherJson,
}

impl AwsService {
    /// Returns the service of a credential scope.
    pub(super) fn of_scope(scope: &CredentialScope, request: &WireRequest) -> Self {
        match scope.service.as_str() {
            "ec2" => Self::Ec2,
            "iam" => Self::Iam,
            "sts" => Self::Sts,
            "ssm" => Self::Ssm,
            "sqs" => Self::Sqs,
            "eks" => Self::Eks,
            "pricing" => Self::Pricing,
            "arc-zonal-shift" => Self::ZonalShift,
            _ if request.parameters.as_ref().is_ok_and(|own| own.text("Action").is_some()) => Self::OtherQuery,
            _ => Self::OtherJson,
        }
    }

    /// Returns the service of a request without credentials: from its target, path or version.
    pub(super) fn of_unsigned(request: &WireRequest) -> Self {
        let version = request.parameters.as_ref().ok().and_then(|own| own.text("Version"));
        match (target(&request.headers), version) {
            (Some(target), _) if target.starts_with(ssm::TARGET_PREFIX) => Self::Ssm,
            (Some(target), _) if target.starts_with(pricing::TARGET_PREFIX) => Self::Pricing,
            (Some(target), _) if target.starts_with(sqs::TARGET_PREFIX) => Self::Sqs,
            (Some(_), _) => Self::OtherJson,
            (None, _) if request.path.starts_with(eks::CLUSTERS) => Self::Eks,
            (None, _) if request.path.starts_with(zonal_shift::MANAGED_RESOURCES) => Self::ZonalShift,
            (None, Some(iam::VERSION)) => Self::Iam,
            (None, Some(sts::VERSION)) => Self::Sts,
            (None, _) => Self::Ec2,
        }
    }

    /// Returns the operation of a request, with the names of the call log.
    pub(super) fn operation(self, request: &WireRequest) -> AwsOperation {
        let action = request.parameters.as_ref().ok().and_then(|own| own.text("Action")).unwrap_or_default();
        let target = target(&request.headers).unwrap_or_default();
        let (service, name) = match self {
            Self::Ec2 => ("EC2", ec2::operation(action)),
            Self::Iam => ("IAM", iam::operation(action)),
            Self::Sts => ("STS", sts::operation(action)),
            Self::Ssm => ("SSM", ssm::operation(target)),
            Self::Sqs => ("SQS", sqs::operation(target)),
            Self::Eks => ("EKS", eks::operation(&request.method, &request.path)),
            Self::Pricing => ("Pricing", pricing::operation(target)),
            Self::ZonalShift => ("ARC Zonal Shift", zonal_shift::operation(&request.method, &request.path)),
            Self::OtherQuery | Self::OtherJson => (UNKNOWN, None),
        };
        AwsOperation { service, name: name.unwrap_or(UNKNOWN) }
    }

    /// Fails if a request has no credentials or those of another region. IAM and STS have one
    /// endpoint for all regions, and the price list one for several.
    pub(super) fn check_credentials(self, scope: Option<&CredentialScope>, region: &str) -> Result<(), AwsFailure> {
        let Some(scope) = scope else {
            let message = "Request is missing Authentication Token";
            return Err(match self {
                Self::Ec2 => auth_failure(),
                Self::Iam | Self::Sts | Self::OtherQuery => AwsFailure::new(403, "MissingAuthenticationToken", message),
                Self::Ssm | Self::Sqs | Self::Pricing | Self::OtherJson => {
                    AwsFailure::bad_request("MissingAuthenticationTokenException", message)
                }
                Self::Eks | Self::ZonalShift => AwsFailure::new(403, "MissingAuthenticationTokenException", message),
            });
        };
        let own_region = match self {
            Self::Iam | Self::Sts | Self::OtherQuery | Self::OtherJson => return Ok(()),
            Self::Pricing => price_list_region(region),
            Self::Ec2 | Self::Ssm | Self::Sqs | Self::Eks | Self::ZonalShift => region,
        };
        if scope.region == own_region {
            return Ok(());
        }
        let message = format!("Credential should be scoped to a valid region: this server has {own_region}.");
        Err(match self {
            Self::Ec2 | Self::Iam | Self::Sts | Self::OtherQuery => AwsFailure::new(401, "AuthFailure", message),
            Self::Ssm | Self::Sqs | Self::Pricing | Self::OtherJson => {
                AwsFailure::bad_request("InvalidSignatureException", message)
            }
            Self::Eks | Self::ZonalShift => AwsFailure::new(403, "InvalidSignatureException", message),
        })
    }

    /// Carries out an operation and returns the content of its answer.
    pub(super) async fn call(self, aws: &MemoryAws, operation: &'static str, request: WireRequest) -> Content {
        match self {
            Self::Ec2 => ec2::call(aws, operation, self.query(request)?).await,
            Self::Iam => iam::call(aws, operation, self.query(request)?).await,
            Self::Sts => sts::call(aws, operation, self.query(request)?).await,
            Self::Ssm => ssm::call(aws, operation, &request.body).await,
            Self::Sqs => sqs::call(aws, operation, &request.body).await,
            Self::Eks => eks::call(aws, operation, &request.path).await,
            Self::Pricing => pricing::call(aws, operation, &request.body).await,
            Self::ZonalShift => zonal_shift::call(aws, operation, &request.path).await,
            Self::OtherQuery => Err(AwsFailure::bad_request("InvalidAction", OTHER_SERVICE).into()),
            Self::OtherJson => Err(AwsFailure::bad_request("UnknownOperationException", OTHER_SERVICE).into()),
        }
    }

    /// Returns the parameters of a request of a query protocol. Fails if the action or its version
    /// is unknown.
    fn query(self, request: WireRequest) -> Result<Parameters, AwsFailure> {
        let parameters = request.parameters?;
        let Some(action) = parameters.text("Action") else {
            return Err(AwsFailure::bad_request("MissingAction", "The request must contain the parameter Action"));
        };
        let (is_known, version) = match self {
            Self::Ec2 => (ec2::operation(action).is_some(), ec2::VERSION),
            Self::Iam => (iam::operation(action).is_some(), iam::VERSION),
            Self::Sts => (sts::operation(action).is_some(), sts::VERSION),
            Self::Ssm
            | Self::Sqs
            | Self::Eks
            | Self::Pricing
            | Self::ZonalShift
            | Self::OtherQuery
            | Self::OtherJson => (false, ""),
        };
        if !is_known {
            let action: String = action.chars().take(100).collect();
            let message = format!("The action {action} is not valid for this web service.");
            return Err(AwsFailure::bad_request("InvalidAction", message));
        }
        match parameters.text("Version") {
            Some(own) if own == version => Ok(parameters),
            own => {
                let own: String = own.unwrap_or_default().chars().take(100).collect();
                let message = format!("The requested version ({own}) does not exist. Expected {version}.");
                Err(AwsFailure::bad_request("NoSuchVersion", message))
            }
        }
    }

    /// Returns the answer of an operation that succeeded.
    pub(super) fn success(self, operation: &str, request_id: &str, content: &str) -> Response<Bytes> {
        let body = match self {
            Self::Ec2 => {
                let id = Xml::fragment(|xml| xml.text("requestId", request_id));
                Xml::document(&format!("{operation}Response"), ec2::NAMESPACE, &format!("{id}{content}"))
            }
            Self::Iam => query_answer(operation, iam::NAMESPACE, request_id, content),
            Self::Sts => query_answer(operation, sts::NAMESPACE, request_id, content),
            Self::Ssm
            | Self::Sqs
            | Self::Eks
            | Self::Pricing
            | Self::ZonalShift
            | Self::OtherQuery
            | Self::OtherJson => content.to_owned(),
        };
        self.response(200, request_id, body)
    }

    /// Returns the answer of an operation that failed.
    pub(super) fn error(self, error: &AwsError, request_id: &str) -> Response<Bytes> {
        let status = error.http_status.unwrap_or(500);
        let code = error.code.as_deref().unwrap_or("InternalError");
        let write_error = |xml: &mut Xml, kind: Option<&str>| {
            xml.element("Error", |xml| {
                xml.text_if_some("Type", kind);
                xml.text("Code", code);
                xml.text("Message", &error.message);
            });
        };
        match self {
            Self::Ec2 => {
                let content = Xml::fragment(|xml| {
                    xml.element("Errors", |xml| write_error(xml, None));
                    xml.text("RequestID", request_id);
                });
                self.response(status, request_id, Xml::document("Response", "", &content))
            }
            Self::Iam | Self::Sts | Self::OtherQuery => {
                let side = match error.fault {
                    Fault::Client | Fault::Unknown => "Sender",
                    Fault::Server => "Receiver",
                };
                let namespace = if self == Self::Iam { iam::NAMESPACE } else { sts::NAMESPACE };
                let content = Xml::fragment(|xml| {
                    write_error(xml, Some(side));
                    xml.text("RequestId", request_id);
                });
                self.response(status, request_id, Xml::document("ErrorResponse", namespace, &content))
            }
            Self::Ssm | Self::Sqs | Self::Pricing | Self::OtherJson => {
                let mut body = json!({ "__type": code });
                if !error.message.is_empty() {
                    body["message"] = json!(error.message);
                }
                self.response(status, request_id, body.to_string())
            }
            Self::Eks | Self::ZonalShift => {
                let body = json!({ "message": error.message }).to_string();
                let mut response = self.response(status, request_id, body);
                if let Ok(code) = HeaderValue::from_str(code) {
                    response.headers_mut().insert(HeaderName::from_static("x-amzn-errortype"), code);
                }
                response
            }
        }
    }

    fn response(self, status: u16, request_id: &str, body: String) -> Response<Bytes> {
        let content_type = match self {
            Self::Ec2 => "text/xml;charset=UTF-8",
            Self::Iam | Self::Sts | Self::OtherQuery => "text/xml",
            Self::Ssm | Self::Pricing | Self::OtherJson => "application/x-amz-json-1.1",
            Self::Sqs => "application/x-amz-json-1.0",
            Self::Eks | Self::ZonalShift => "application/json",
        };
        let mut response = response(status, content_type, body);
        if let Ok(id) = HeaderValue::from_str(request_id) {
            response.headers_mut().insert(HeaderName::from_static("x-amzn-requestid"), id);
        }
        response
    }
}

fn query_answer(operation: &str, namespace: &str, request_id: &str, content: &str) -> String {
    let content = Xml::fragment(|xml| {
        if !content.is_empty() {
            xml.element(&format!("{operation}Result"), |xml| xml.raw(content));
        }
        xml.element("ResponseMetadata", |xml| xml.text("RequestId", request_id));
    });
    Xml::document(&format!("{operation}Response"), namespace, &content)
}

fn auth_failure() -> AwsFailure {
    AwsFailure::new(401, "AuthFailure", "AWS was not able to validate the provided access credentials")
}

fn target(headers: &HeaderMap) -> Option<&str> {
    headers.get(TARGET)?.to_str().ok()
}

/// Returns a response with a body.
pub(super) fn response(status: u16, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
