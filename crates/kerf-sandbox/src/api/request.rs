//! Parsing of a request's path and query.

use http::Method;

use super::status::{ApiResult, StatusError};

/// The object or collection that a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestPath {
    /// An object, a collection or a subresource.
    Resource(RequestTarget),
    /// Any other path, split into segments.
    Other(Vec<String>),
}

/// The verb of a request, as in Kubernetes' RBAC rules and audit logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Reads a collection and streams its changes.
    Watch,
    /// Creates an object, or posts to a subresource.
    Create,
    /// Replaces an object.
    Update,
    /// Changes a part of an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes the objects of a collection.
    DeleteCollection,
}

impl Verb {
    /// Returns the name in discovery and audits, such as `deletecollection`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Returns true if the verb changes objects.
    pub fn is_write(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => true,
        }
    }

    /// Returns the verb of a method on a target.
    pub(crate) fn from_request(method: &Method, target: &RequestTarget, query: &Query) -> ApiResult<Self> {
        let has_name = target.name.is_some();
        match (method.as_str(), has_name) {
            ("GET" | "HEAD", false) if query.flag("watch") => Ok(Self::Watch),
            ("GET" | "HEAD", true) => Ok(Self::Get),
            ("GET" | "HEAD", false) => Ok(Self::List),
            ("POST", false) => Ok(Self::Create),
            ("POST", true) if target.subresource.is_some() => Ok(Self::Create),
            ("PUT", true) => Ok(Self::Update),
            ("PATCH", true) => Ok(Self::Patch),
            ("DELETE", true) => Ok(Self::Delete),
            ("DELETE", false) => Ok(Self::DeleteCollection),
            _ => Err(StatusError::method_not_allowed()),
        }
    }
}

impl RequestPath {
    /// Parses the path of a request.
    pub(crate) fn parse(path: &str) -> Self {
        let segments: Vec<String> = path.split('/').filter(|segment| !segment.is_empty()).map(decode).collect();
        let rest = match segments.first().map(String::as_str) {
            Some("api") if segments.len() > 2 => 1,
            Some("apis") if segments.len() > 3 => 2,
            _ => return Self::Other(segments),
        };
        let group = if rest == 2 { segments[1].clone() } else { String::new() };
        let target = RequestTarget { group, version: segments[rest].clone(), ..RequestTarget::default() };
        Self::Resource(parse_resource_segments(target, &segments[rest + 1..]))
    }
}

/// Subresources of a namespace. Any other segment after its name is a resource in the namespace.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

fn parse_resource_segments(target: RequestTarget, segments: &[String]) -> RequestTarget {
    let (namespace, segments) = match segments {
        [first, namespace, third, ..] if first == "namespaces" && !NAMESPACE_SUBRESOURCES.contains(&third.as_str()) => {
            (Some(namespace.clone()), &segments[2..])
        }
        other => (None, other),
    };
    let segment = |index: usize| segments.get(index).cloned();
    let subresource = if segments.len() > 2 { Some(segments[2..].join("/")) } else { None };
    RequestTarget { resource: segment(0).unwrap_or_default(), namespace, name: segment(1), subresource, ..target }
}

/// The query string. The first value of a repeated name is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (decode_form(key), decode_form(value)))
                .collect(),
        )
    }

    /// Returns the value of `key`, or an empty text.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// Returns true if the key is present and its value is not a form of false.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.has(key) && !matches!(self.text(key), "0" | "false" | "f" | "F" | "False" | "FALSE")
    }

    /// Returns the integer at `key`, or `None` if it is absent or empty.
    pub(crate) fn number(&self, key: &str) -> ApiResult<Option<i64>> {
        match self.text(key) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| StatusError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))),
        }
    }
}

fn decode_form(text: &str) -> String {
    decode(&text.replace('+', " "))
}

/// Decodes percent encoding. Invalid sequences stay unchanged; bytes that are not UTF-8 are
/// replaced.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        let pair = (bytes[position] == b'%').then(|| bytes.get(position + 1..position + 3)).flatten();
        let pair =
            pair.and_then(|pair| std::str::from_utf8(pair).ok()).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match pair {
            Some(byte) => {
                decoded.push(byte);
                position += 3;
            }
            None => {
                decoded.push(bytes[position]);
                position += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats a path as `group/version/resource namespace name subresource`, with dashes for
    /// missing parts.
    fn describe(path: &str) -> String {
        match RequestPath::parse(path) {
            RequestPath::Other(segments) => format!("other {}", segments.join(",")),
            RequestPath::Resource(target) => {
                let part = |part: Option<String>| part.unwrap_or_else(|| "-".into());
                let (namespace, name, subresource) =
                    (part(target.namespace), part(target.name), part(target.subresource));
                format!("{}/{}/{} {namespace} {name} {subresource}", target.group, target.version, target.resource)
            }
        }
    }

    #[test]
    fn paths() {
        for (path, meaning) in [
            ("/api/v1/pods", "/v1/pods - - -"),
            ("/api/v1/namespaces/ns/pods", "/v1/pods ns - -"),
            ("/api/v1/namespaces/ns/pods/p", "/v1/pods ns p -"),
            ("/api/v1/namespaces/ns/pods/p/status", "/v1/pods ns p status"),
            ("/api/v1/namespaces/ns/pods/p/proxy/a/b", "/v1/pods ns p proxy/a/b"),
            ("/api/v1/namespaces", "/v1/namespaces - - -"),
            ("/api/v1/namespaces/ns", "/v1/namespaces - ns -"),
            ("/api/v1/namespaces/ns/finalize", "/v1/namespaces - ns finalize"),
            ("/apis/apps/v1/deployments", "apps/v1/deployments - - -"),
            ("/apis/apps/v1/namespaces/ns/deployments/d/scale", "apps/v1/deployments ns d scale"),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
                "rbac.authorization.k8s.io/v1/clusterroles - a:b -",
            ),
            ("/api/v1", "other api,v1"),
            ("/apis/apps/v1", "other apis,apps,v1"),
            ("/", "other "),
            ("/version", "other version"),
            ("//api//v1//pods/", "/v1/pods - - -"),
        ] {
            assert_eq!(describe(path), meaning, "{path}");
        }
    }

    #[test]
    fn queries() {
        let query = Query::parse(Some("a=1&b=x%20y+z&watch=true&c&d=%zz&e=%e2%82%ac&limit=q"));
        assert_eq!(query.number("a"), Ok(Some(1)));
        assert_eq!(query.text("b"), "x y z");
        assert_eq!(query.text("d"), "%zz");
        assert_eq!(query.text("e"), "€");
        assert!(query.flag("watch") && query.flag("c") && !query.flag("z"));
        assert!(query.number("limit").is_err());
        assert!(!Query::parse(Some("watch=0")).flag("watch"));
    }
}
