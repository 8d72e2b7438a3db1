//! Responses: bodies of bytes or streams, status codes, warnings, and the form that the client
//! requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{FutureExt as _, Stream, StreamExt as _};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use serde_json::Value;

use super::status::{ApiResult, StatusError};

mod warnings;

/// The body of a response: bytes, or a stream that ends with its watch. It never fails.
pub struct Body(BodyContent);

enum BodyContent {
    Bytes(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(BodyContent::Stream(Box::pin(stream)))
    }

    /// Returns the bytes of a body. A stream that waits, such as a watch, gives no bytes.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.0 {
            BodyContent::Bytes(bytes) => bytes.unwrap_or_default(),
            BodyContent::Stream(chunks) => {
                chunks.collect::<Vec<Bytes>>().now_or_never().unwrap_or_default().concat().into()
            }
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(BodyContent::Bytes(Some(bytes)))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            BodyContent::Bytes(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            BodyContent::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            BodyContent::Bytes(bytes) => {
                Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
            }
            BodyContent::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, BodyContent::Bytes(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.0 {
            BodyContent::Bytes(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyContent::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// The response of a handler, before it is converted to the requested form.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) content: Bytes,
    pub(crate) warnings: Vec<String>,
}

impl Reply {
    pub(crate) fn new(code: u16, content: impl Into<Bytes>) -> Self {
        Self { code, content: content.into(), warnings: Vec::new() }
    }

    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::new(code, value.to_string())
    }

    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }
}

/// Builds a response.
pub(crate) fn respond(code: u16, media_type: &'static str, body: Body, warnings: &[String]) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    for warning in warnings::limited(warnings) {
        // Code 299 without an agent: the form that client-go parses and prints.
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append(HeaderName::from_static("warning"), value);
        }
    }
    response
}

pub(crate) const JSON: &str = "application/json";

pub(crate) fn error_response(error: &StatusError) -> Response<Body> {
    if error.is_plain() {
        let text = format!("{}\n", error.message());
        return respond(error.code(), "text/plain; charset=utf-8", Bytes::from(text).into(), &[]);
    }
    let mut response = respond(error.code(), JSON, Bytes::from(error.to_bytes()).into(), error.warnings());
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The form in which a client requests objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    FullObject,
    /// Rows for `kubectl get`.
    Table,
    /// Only the metadata.
    Metadata,
}

/// Returns the first form of the `Accept` header that the server supports.
pub(crate) fn negotiate(accept: &str) -> ApiResult<ResponseForm> {
    if accept.trim().is_empty() {
        return Ok(ResponseForm::FullObject);
    }
    accept.split(',').find_map(form).ok_or_else(|| StatusError::not_acceptable(JSON))
}

fn form(range: &str) -> Option<ResponseForm> {
    let mut parts = range.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let meta = parameter("g") == Some("meta.k8s.io") && matches!(parameter("v"), Some("v1" | "v1beta1"));
    match parameter("as") {
        None => Some(ResponseForm::FullObject),
        Some("Table") if meta => Some(ResponseForm::Table),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta => Some(ResponseForm::Metadata),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_negotiated() {
        for (accept, expected) in [
            ("", Some(ResponseForm::FullObject)),
            ("*/*", Some(ResponseForm::FullObject)),
            ("application/json", Some(ResponseForm::FullObject)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/vnd.kubernetes.protobuf,application/json", Some(ResponseForm::FullObject)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(ResponseForm::Table),
            ),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(ResponseForm::Metadata)),
            ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", Some(ResponseForm::FullObject)),
            ("text/html", None),
        ] {
            assert_eq!(negotiate(accept).ok(), expected, "{accept}");
        }
    }
}
