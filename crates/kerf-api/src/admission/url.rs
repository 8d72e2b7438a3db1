//! URLs as Go's `net/url` parses them, for the `uri` format and CEL's `url()`. Both accept an
//! absolute URL or an absolute path. Also provides the URL parts that CEL functions return.

use std::fmt::Write as _;

/// The parts of a URL that a rule can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) text: String,
    pub(crate) scheme: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
}

pub(crate) fn is_request_uri(text: &str) -> bool {
    Url::parse(text).is_some()
}

impl Url {
    /// Parses an absolute URL, or a path that starts with a slash. Returns `None` for anything
    /// else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return None;
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            // `mailto:x` has an opaque part and needs a scheme.
            return (!scheme.is_empty()).then(|| Self {
                text: text.to_owned(),
                scheme,
                host: String::new(),
                path: String::new(),
                query: query.to_owned(),
            });
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(authority) if !scheme.is_empty() || !rest.starts_with("///") => {
                let end = authority.find('/').unwrap_or(authority.len());
                let (authority, path) = authority.split_at(end);
                let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
                (checked_host(host)?, path)
            }
            _ => (String::new(), rest),
        };
        if !valid_escapes(path) {
            return None;
        }
        Some(Self { text: text.to_owned(), scheme, host, path: path.to_owned(), query: query.to_owned() })
    }

    /// Returns the host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        if let Some(rest) = self.host.strip_prefix('[') {
            return rest.split_once(']').map_or(rest, |(inner, _)| inner);
        }
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.host,
        }
    }

    /// Returns the port as text; empty if there is none.
    pub(crate) fn port(&self) -> &str {
        let after = if self.host.starts_with('[') { self.host.rsplit_once("]:") } else { self.host.rsplit_once(':') };
        after.map_or("", |(_, port)| port)
    }

    /// Returns the path with the escapes that a server would receive.
    pub(crate) fn escaped_path(&self) -> String {
        let mut out = String::with_capacity(self.path.len());
        for byte in self.path.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/[]%".contains(&byte) {
                out.push(char::from(byte));
            } else {
                // Writing into a String cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    }

    /// Returns the query's parameters sorted by name, each with its values in order of appearance.
    pub(crate) fn query_parameters(&self) -> std::collections::BTreeMap<String, Vec<String>> {
        let mut parameters = std::collections::BTreeMap::<String, Vec<String>>::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape_query(key), unescape_query(value)) {
                parameters.entry(key).or_default().push(value);
            }
        }
        parameters
    }
}

/// Splits the text into the scheme in lower case (empty if there is none) and the rest. Returns
/// `None` if the text begins with a colon.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' => return Some((String::new(), text)),
            b':' if at == 0 => return None,
            b':' => return Some((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => return Some((String::new(), text)),
        }
    }
    Some((String::new(), text))
}

fn checked_host(host: &str) -> Option<String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']')?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |at| &host[at..])
    };
    let port_ok = port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    let characters_ok =
        host.bytes().all(|b| !b.is_ascii() || b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&b));
    (port_ok && characters_ok).then(|| host.to_owned())
}

fn valid_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'%')
        .all(|(at, _)| bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)))
}

fn unescape_query(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => {
                let hex = text.get(at + 1..at + 3)?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}
