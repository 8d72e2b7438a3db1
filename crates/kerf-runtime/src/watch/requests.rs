//! The list request and the watch request, and the decoding of their responses.
//!
//! Objects are first read as raw JSON, for two reasons: the resource version is needed for every
//! type that a caller decodes into, and one object that cannot be decoded must not fail its list.
//! The lines of a watch are parsed here because kube's `WatchEvent` accepts raw JSON only if `type`
//! precedes `object` in the line, which no server guarantees.

use std::borrow::Cow;
use std::time::Duration;

use futures::{AsyncBufReadExt as _, TryStream, TryStreamExt as _};
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use kube::Client;
use kube::core::Status;
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tracing::error;

use super::{LIST_PAGE_TIMEOUT, WatchSettings, WatchedKind};
use crate::causes::Causes;

/// Reason why a list failed.
pub(super) enum ListFailure {
    /// The server does not serve the kind.
    NotInstalled,
    /// Any other failure.
    Failed {
        cause: String,
        /// True if the server forbids the request. It answers, and another attempt would not help.
        is_forbidden: bool,
    },
}

impl ListFailure {
    fn failed(cause: impl ToString) -> Self {
        Self::Failed { cause: cause.to_string(), is_forbidden: false }
    }
}

/// Reason why a watch failed.
pub(super) enum WatchFailure {
    /// The watch history is lost; the caller must list again.
    Gone,
    /// Any other failure. The watch can be resumed.
    Failed(String),
}

impl WatchFailure {
    pub(super) fn from_kube_error(cause: &kube::Error) -> Self {
        match cause {
            // A server that was restored from a backup never reaches a version that it gave out
            // before. If only the watch is forbidden, listing again with back-off still shows the
            // objects.
            kube::Error::Api(status) if matches!(status.code, 403 | 404 | 410) || is_version_too_large(status) => {
                Self::Gone
            }
            other => Self::Failed(Causes(other).to_string()),
        }
    }
}

fn is_version_too_large(status: &Status) -> bool {
    status.code == 504 && status.message.contains("Too large resource version")
}

/// Lists all objects, page by page. Returns them with the resource version of the list.
pub(super) async fn list<T: DeserializeOwned>(
    client: &Client,
    settings: &WatchSettings,
) -> Result<(Vec<T>, String), ListFailure> {
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let query = if token.is_empty() {
            format!("limit={}", settings.page_size)
        } else {
            format!("limit={}&continue={}", settings.page_size, percent_encoded(&token))
        };
        let response = client.request_text(request(settings.kind, &query)?);
        let Ok(response) = tokio::time::timeout(LIST_PAGE_TIMEOUT, response).await else {
            let seconds = LIST_PAGE_TIMEOUT.as_secs();
            return Err(ListFailure::failed(format_args!("the API server did not respond within {seconds} s")));
        };
        let text = match response {
            Ok(text) => text,
            // The continue token has expired: start again with the first page.
            Err(kube::Error::Api(status)) if status.code == 410 && !token.is_empty() => {
                objects.clear();
                token.clear();
                continue;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(ListFailure::NotInstalled),
            Err(cause) => {
                let is_forbidden = matches!(&cause, kube::Error::Api(status) if status.code == 403);
                return Err(ListFailure::Failed { cause: Causes(&cause).to_string(), is_forbidden });
            }
        };
        let page: ListPage<'_> = serde_json::from_str(&text).map_err(ListFailure::failed)?;
        objects.reserve(page.items.len());
        for item in &page.items {
            objects.extend(decode_or_log(settings.kind, item));
        }
        token = page.metadata.r#continue;
        if token.is_empty() {
            objects.shrink_to_fit();
            return Ok((objects, page.metadata.resource_version));
        }
    }
}

/// Decoded line of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodedWatchEvent<T> {
    /// An object was created or changed. `object` is `None` if it cannot be decoded.
    Applied { object: Option<T>, version: String },
    /// An object was deleted. `object` is `None` if it cannot be decoded.
    Deleted { object: Option<T>, version: String },
    /// All changes up to this version have been sent.
    Bookmark { version: String },
}

/// Opens a watch of the changes since `version`.
pub(super) async fn open_watch<T: DeserializeOwned + Send>(
    client: &Client,
    settings: &WatchSettings,
    version: &str,
    lifetime: Duration,
) -> Result<impl TryStream<Ok = DecodedWatchEvent<T>, Error = WatchFailure> + Unpin + use<T>, WatchFailure> {
    let query = format!(
        "watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
        percent_encoded(version),
        lifetime.as_secs()
    );
    let kind = settings.kind;
    let mut request = request(kind, &query).map_err(|failure| match failure {
        ListFailure::NotInstalled => WatchFailure::Gone,
        ListFailure::Failed { cause, .. } => WatchFailure::Failed(cause),
    })?;
    // A server that compresses a watch starts a new compressed stream for each event, and decoders
    // stop after the first.
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let body = client.request_stream(request).await.map_err(|cause| WatchFailure::from_kube_error(&cause))?;
    let lines = body.lines().map_err(|cause| WatchFailure::Failed(cause.to_string()));
    Ok(Box::pin(lines.try_filter_map(move |line| std::future::ready(parse_line(kind, &line)))))
}

/// Parses a line. Returns `None` for a line that was cut off by the end of the connection.
fn parse_line<T: DeserializeOwned>(
    kind: WatchedKind,
    line: &str,
) -> Result<Option<DecodedWatchEvent<T>>, WatchFailure> {
    let failure_from_status = |status: Status| WatchFailure::from_kube_error(&kube::Error::Api(Box::new(status)));
    let line: WatchLine<'_> = match serde_json::from_str(line) {
        Ok(line) => line,
        Err(cause) if cause.is_eof() => return Ok(None),
        Err(cause) => {
            let status = serde_json::from_str::<Status>(line);
            return Err(status.map_or_else(|_| WatchFailure::Failed(cause.to_string()), failure_from_status));
        }
    };
    let parse_failure = |cause: serde_json::Error| WatchFailure::Failed(cause.to_string());
    if line.event_type == "ERROR" {
        return Err(serde_json::from_str::<Status>(line.object.get()).map_or_else(parse_failure, failure_from_status));
    }
    let version = resource_version_of(line.object).map_err(parse_failure)?;
    match &*line.event_type {
        "ADDED" | "MODIFIED" => {
            Ok(Some(DecodedWatchEvent::Applied { object: decode_or_log(kind, line.object), version }))
        }
        "DELETED" => Ok(Some(DecodedWatchEvent::Deleted { object: decode_or_log(kind, line.object), version })),
        "BOOKMARK" => Ok(Some(DecodedWatchEvent::Bookmark { version })),
        other => Err(WatchFailure::Failed(format!("unknown watch event {other:?}"))),
    }
}

/// Returns the resource version of an object. Stops reading after the metadata, which servers write
/// first, because the text is parsed three times and this is the second.
fn resource_version_of(object: &RawValue) -> Result<String, serde_json::Error> {
    let mut version = None;
    let result =
        ResourceVersionVisitor(&mut version).deserialize(&mut serde_json::Deserializer::from_str(object.get()));
    match (version, result) {
        (Some(version), _) => Ok(version),
        (None, Err(cause)) => Err(cause),
        (None, Ok(())) => Err(serde::de::Error::missing_field("metadata")),
    }
}

/// Reads an object up to its metadata, stores the resource version, and stops.
struct ResourceVersionVisitor<'f>(&'f mut Option<String>);

impl<'de> DeserializeSeed<'de> for ResourceVersionVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ResourceVersionVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            if name == "metadata" {
                let identity: Identity<'de> = fields.next_value()?;
                *self.0 = Some(identity.resource_version.into_owned());
                // An error is the only way to stop here.
                return Err(serde::de::Error::custom("enough"));
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

fn request(kind: WatchedKind, query: &str) -> Result<http::Request<Vec<u8>>, ListFailure> {
    let root = if kind.group.is_empty() { String::from("/api") } else { format!("/apis/{}", kind.group) };
    http::Request::get(format!("{root}/{}/{}?{query}", kind.version, kind.plural))
        .body(Vec::new())
        .map_err(ListFailure::failed)
}

/// Percent-encodes all bytes except letters, digits and `-_.`. Continue tokens and resource
/// versions are opaque, so they may contain any byte.
fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// One page of a list response.
#[derive(Deserialize)]
struct ListPage<'a> {
    metadata: ListPageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListPageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

/// One line of a watch response.
#[derive(Deserialize)]
struct WatchLine<'a> {
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
}

fn decode_or_log<T: DeserializeOwned>(kind: WatchedKind, raw: &RawValue) -> Option<T> {
    match serde_json::from_str(raw.get()) {
        Ok(object) => Some(object),
        Err(cause) => {
            let identity = serde_json::from_str::<Identified<'_>>(raw.get());
            let (namespace, name) = identity
                .map(|identity| (identity.metadata.namespace.into_owned(), identity.metadata.name.into_owned()))
                .unwrap_or_default();
            error!(kind = kind.name, namespace, name, error = %cause, "cannot decode object, ignoring it");
            None
        }
    }
}
