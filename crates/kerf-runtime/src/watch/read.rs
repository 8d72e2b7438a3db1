//! The two requests behind a watch, and what can become of them. Objects are read as raw JSON first: the version is needed whatever
//! type the caller decodes into, and one that cannot be decoded must not spoil its list.

use std::time::Duration;

use futures::TryStream;
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::value::RawValue;
use tracing::error;

use super::{Kind, WatchSettings};

/// Why there is no list.
pub(super) enum ListFailure {
    /// The server does not know the kind.
    NotInstalled,
    /// Anything else.
    Failed(String),
}

/// Why a watch is over.
pub(super) enum WatchFailure {
    /// The history is lost; only a new list helps.
    Gone,
    /// Anything else.
    Failed(String),
}

impl WatchFailure {
    pub(super) fn of(cause: &kube::Error) -> Self {
        match cause {
            // A version that the server has not reached is one that it will not: it was restored from a copy.
            kube::Error::Api(status) if status.code == 410 || status.code == 404 || is_ahead(status) => Self::Gone,
            other => Self::Failed(other.to_string()),
        }
    }
}

fn is_ahead(status: &kube::core::Status) -> bool {
    status.code == 504 && status.message.contains("Too large resource version")
}

/// The whole list, page by page, and the version that it is of.
pub(super) async fn list<T: DeserializeOwned>(
    client: &Client,
    settings: &WatchSettings,
) -> Result<(Vec<T>, String), ListFailure> {
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let query = if token.is_empty() {
            format!("limit={}", settings.page)
        } else {
            format!("limit={}&continue={}", settings.page, escaped(&token))
        };
        let text = match client.request_text(request(settings.kind, &query)?).await {
            Ok(text) => text,
            // The rest of the list is too old to be read: from the start, then.
            Err(kube::Error::Api(status)) if status.code == 410 && !token.is_empty() => {
                objects.clear();
                token.clear();
                continue;
            }
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(ListFailure::NotInstalled),
            Err(cause) => return Err(ListFailure::Failed(cause.to_string())),
        };
        let page: Page<'_> = serde_json::from_str(&text).map_err(|cause| ListFailure::Failed(cause.to_string()))?;
        objects.reserve(page.items.len());
        for item in &page.items {
            objects.extend(decode(settings.kind, item));
        }
        token = page.metadata.r#continue;
        if token.is_empty() {
            objects.shrink_to_fit();
            return Ok((objects, page.metadata.resource_version));
        }
    }
}

/// The changes since a version.
pub(super) async fn open(
    client: &Client,
    settings: &WatchSettings,
    version: &str,
    lifetime: Duration,
) -> Result<impl TryStream<Ok = WatchEvent<Seen>, Error = kube::Error> + Unpin + use<>, WatchFailure> {
    let query = format!(
        "watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
        escaped(version),
        lifetime.as_secs()
    );
    let request = request(settings.kind, &query).map_err(|failure| match failure {
        ListFailure::NotInstalled => WatchFailure::Gone,
        ListFailure::Failed(cause) => WatchFailure::Failed(cause),
    })?;
    match client.request_events::<Seen>(request).await {
        Ok(stream) => Ok(Box::pin(stream)),
        Err(cause) => Err(WatchFailure::of(&cause)),
    }
}

fn request(kind: Kind, query: &str) -> Result<http::Request<Vec<u8>>, ListFailure> {
    let root = if kind.group.is_empty() { String::from("/api") } else { format!("/apis/{}", kind.group) };
    http::Request::get(format!("{root}/{}/{}?{query}", kind.version, kind.plural))
        .body(Vec::new())
        .map_err(|cause| ListFailure::Failed(cause.to_string()))
}

/// Tokens and versions are opaque; what is not a letter, a digit or one of `-_.` is escaped.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: String,
}

/// An object that a watch told of: its version, and the rest as it came.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) version: String,
    raw: Box<RawValue>,
}

impl Seen {
    /// The object; none, with a word in the log, if it cannot be read.
    pub(super) fn decoded<T: DeserializeOwned>(&self, kind: Kind) -> Option<T> {
        decode(kind, &self.raw)
    }
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let identity: Identified<'_> = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self { version: identity.metadata.resource_version.into_owned(), raw })
    }
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
    namespace: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: std::borrow::Cow<'a, str>,
}

fn decode<T: DeserializeOwned>(kind: Kind, raw: &RawValue) -> Option<T> {
    match serde_json::from_str(raw.get()) {
        Ok(object) => Some(object),
        Err(cause) => {
            let identity = serde_json::from_str::<Identified<'_>>(raw.get());
            let (namespace, name) = identity
                .map(|identity| (identity.metadata.namespace.into_owned(), identity.metadata.name.into_owned()))
                .unwrap_or_default();
            error!(kind = kind.name, namespace, name, error = %cause, "cannot read object, ignoring it");
            None
        }
    }
}
