//! MIME archives, the form in which cloud-init takes several parts of user data (spec 05 §14.2,
//! §14.3).

use std::fmt::Write as _;

/// Header that says how the content of a part is encoded, in lower case.
const TRANSFER_ENCODING: &str = "content-transfer-encoding";

/// Boundary of the archives that Kerf writes.
const BOUNDARY: &str = "//";

/// Content type of a shell script.
pub(super) const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";

/// Returns the parts of custom user data that is an archive, or one part of type `otherwise`. Empty
/// user data has no part.
pub(super) fn custom_parts(custom: &str, otherwise: impl FnOnce() -> &'static str) -> Result<Vec<Part>, ArchiveError> {
    if custom.is_empty() {
        return Ok(Vec::new());
    }
    if is_archive(custom) {
        return read(custom);
    }
    Ok(vec![Part::new(otherwise(), custom.to_owned())])
}

/// A part of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Names, as MIME writes them, and values. Sorted by name.
    headers: Vec<(String, String)>,
    content: String,
}

impl Part {
    /// Returns a part whose only header is its content type.
    pub(super) fn new(content_type: &str, content: String) -> Self {
        Self { headers: vec![("Content-Type".to_owned(), content_type.to_owned())], content }
    }

    /// Returns the content type, which is empty if the part has none, and the content.
    pub(super) fn into_type_and_content(self) -> (String, String) {
        let own = self.headers.into_iter().find(|(name, _)| name == "Content-Type");
        (own.map(|(_, value)| value).unwrap_or_default(), self.content)
    }

    /// Returns the part with its content type as the only header.
    pub(super) fn with_content_type_only(self) -> Self {
        let (content_type, content) = self.into_type_and_content();
        Self::new(&content_type, content)
    }
}

/// Reason why user data that begins like an archive is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The archive does not begin with a header, or has no content type.
    #[error("archive doesn't have Content-Type header")]
    NoContentType,
    /// The content type is not `multipart/*`.
    #[error("archive is not in multipart format: its Content-Type is {0:?}")]
    NotMultipart(String),
    /// The content type has no boundary.
    #[error("the Content-Type of the archive has no boundary")]
    NoBoundary,
    /// A header line has no colon.
    #[error("malformed header line {0:?}")]
    MalformedHeader(String),
    /// The last part is not followed by a delimiter line.
    #[error("unexpected end: the last part needs a line \"--{0}--\" after it")]
    Unterminated(String),
    /// A part that is declared quoted-printable is not.
    #[error("a part is not valid quoted-printable text near {0:?}")]
    QuotedPrintable(String),
}

/// Returns true if the text is meant as an archive. White space before it counts as meant: the
/// archive then cannot be read, and the user gets an error instead of a script that fails at boot.
fn is_archive(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// Returns the archive of these parts.
pub(super) fn write(parts: &[Part]) -> String {
    let mut archive = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for part in parts {
        // Writing to a String cannot fail.
        let _ = writeln!(archive, "--{BOUNDARY}");
        for (name, value) in &part.headers {
            let _ = writeln!(archive, "{name}: {value}");
        }
        let _ = write!(archive, "\n{}\n", part.content);
    }
    let _ = writeln!(archive, "--{BOUNDARY}--");
    archive.replace('\r', "")
}

/// Returns the parts of an archive. Parts in quoted-printable encoding are decoded.
pub(super) fn read(text: &str) -> Result<Vec<Part>, ArchiveError> {
    let text = text.replace('\r', "");
    let mut lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
    let header = read_header(&mut lines)?.unwrap_or_default();
    let content_type = header.get("content-type").ok_or(ArchiveError::NoContentType)?;
    if !content_type.to_ascii_lowercase().starts_with("multipart/") {
        return Err(ArchiveError::NotMultipart(content_type.to_owned()));
    }
    let boundary = boundary(content_type).ok_or(ArchiveError::NoBoundary)?;
    let (delimiter, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let is_line = |line: &str, expected: &str| line.trim_end_matches([' ', '\t']) == expected;
    let mut parts = Vec::new();
    // Text before the first delimiter belongs to no part.
    loop {
        match lines.next() {
            Some(line) if is_line(line, &delimiter) => break,
            Some(line) if is_line(line, &end) => return Ok(parts),
            Some(_) => {}
            None => return Ok(parts),
        }
    }
    while let Some(header) = read_header(&mut lines)? {
        let mut content: Vec<&str> = Vec::new();
        let is_end = loop {
            match lines.next() {
                Some(line) if is_line(line, &delimiter) => break false,
                Some(line) if is_line(line, &end) => break true,
                Some(line) => content.push(line),
                None => return Err(ArchiveError::Unterminated(boundary)),
            }
        };
        parts.push(header.part(content.join("\n"))?);
        if is_end {
            break;
        }
    }
    Ok(parts)
}

/// Headers by name in lower case.
#[derive(Debug, Default)]
struct Header(Vec<(String, String)>);

impl Header {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn part(mut self, content: String) -> Result<Part, ArchiveError> {
        let encoding = self.get(TRANSFER_ENCODING).unwrap_or_default();
        let content = if encoding.eq_ignore_ascii_case("quoted-printable") {
            self.0.retain(|(name, _)| name != TRANSFER_ENCODING);
            decode_quoted_printable(&content)?
        } else {
            content
        };
        let mut headers: Vec<(String, String)> =
            self.0.into_iter().map(|(name, value)| (canonical_name(&name), value)).collect();
        headers.sort_by(|(one, _), (two, _)| one.cmp(two));
        Ok(Part { headers, content })
    }
}

/// Returns the name of a header with a capital letter at the beginning of each word.
fn canonical_name(lower_case: &str) -> String {
    let words = lower_case.split('-').map(|word| match word.split_at_checked(1) {
        Some((first, rest)) => format!("{}{rest}", first.to_ascii_uppercase()),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join("-")
}

/// Reads header lines up to a blank line. Returns `None` at the end of the text.
fn read_header<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Result<Option<Header>, ArchiveError> {
    let mut header = Header::default();
    let mut line_count = 0;
    for line in lines {
        if line.is_empty() {
            return Ok(Some(header));
        }
        line_count += 1;
        match (line.starts_with([' ', '\t']), header.0.last_mut(), line.split_once(':')) {
            (true, Some((_, value)), _) => {
                value.push(' ');
                value.push_str(line.trim());
            }
            (true, None, _) | (false, _, None) => return Err(ArchiveError::MalformedHeader(line.to_owned())),
            (false, _, Some((name, value))) => {
                header.0.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }
    if line_count == 0 { Ok(None) } else { Ok(Some(header)) }
}

fn boundary(content_type: &str) -> Option<String> {
    let mut rest = content_type;
    while let Some((_, parameter)) = rest.split_once(';') {
        rest = parameter;
        let (name, value) = parameter.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("boundary") {
            let value = value.trim_start();
            let boundary = match value.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next()?,
                None => value.split(';').next()?.trim_end(),
            };
            return if boundary.is_empty() { None } else { Some(boundary.to_owned()) };
        }
    }
    None
}

fn decode_quoted_printable(text: &str) -> Result<String, ArchiveError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_end_matches([' ', '\t']);
        let (line, is_soft_break) = match line.strip_suffix('=') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let mut pieces = line.split('=');
        bytes.extend(pieces.next().unwrap_or_default().bytes());
        for piece in pieces {
            match piece.as_bytes() {
                [high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    // Two hexadecimal digits are always a number below 256.
                    bytes.extend(u8::from_str_radix(&piece[..2], 16));
                    bytes.extend(rest);
                }
                // A script such as `export X=foo`: the sign stands for itself, as in Karpenter.
                plain => {
                    bytes.push(b'=');
                    bytes.extend(plain);
                }
            }
        }
        if !is_soft_break && lines.peek().is_some() {
            bytes.push(b'\n');
        }
    }
    String::from_utf8(bytes).map_err(|_| ArchiveError::QuotedPrintable(text.to_owned()))
}
