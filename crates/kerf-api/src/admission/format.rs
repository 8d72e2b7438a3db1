//! The `format` keyword: which formats the API server checks on which type, and which values each
//! accepts. As in the API server, unknown formats are ignored.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::LazyLock;

use regex::Regex;

use super::schema::SchemaType;
use super::{names, time, url};

/// A format that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
    Int32,
    Int64,
    Float,
    Double,
}

impl Format {
    /// Returns the format `name` for a schema of this type; `None` if the API server ignores it.
    pub(crate) fn for_type(name: &str, type_: Option<SchemaType>, int_or_string: bool) -> Option<Self> {
        // An int-or-string has two types; upstream ignores a format on more than one type.
        if int_or_string {
            return None;
        }
        match type_ {
            None | Some(SchemaType::String) => Self::of_string(&name.replace('-', "")),
            Some(SchemaType::Integer) => match name {
                "int32" => Some(Self::Int32),
                "int64" => Some(Self::Int64),
                _ => None,
            },
            Some(SchemaType::Number) => match name {
                "float" => Some(Self::Float),
                "double" => Some(Self::Double),
                _ => None,
            },
            Some(SchemaType::Object | SchemaType::Array | SchemaType::Boolean) => None,
        }
    }

    fn of_string(name: &str) -> Option<Self> {
        Some(match name {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    /// Returns true if a string has this format. The formats of numbers accept any string.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => url::is_request_uri(text),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && (parse_ipv4(text).is_some() || Ipv6Addr::from_str(text).is_ok()),
            Self::Ipv6 => text.contains(':') && Ipv6Addr::from_str(text).is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid => is_uuid(text, None),
            Self::Uuid3 => is_uuid(text, Some(b'3')),
            Self::Uuid4 => is_uuid(text, Some(b'4')),
            Self::Uuid5 => is_uuid(text, Some(b'5')),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => is_ssn(text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
            }
            Self::RgbColor => is_rgb_color(text),
            Self::Byte => is_base64(text),
            Self::Date => time::parse_date(text).is_some(),
            Self::Duration => time::parse_lenient_duration(text).is_some(),
            Self::DateTime => time::is_date_time(text),
            Self::ShortName => names::dns1123_label(text).is_empty(),
            Self::LongName => names::dns1123_subdomain(text).is_empty(),
            Self::Password | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
        }
    }
}

fn is_email(text: &str) -> bool {
    // An address, alone or as `Name <address>`: the part of RFC 5322 that is in common use.
    let address = match text.rsplit_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |text: &str| {
        !text.is_empty()
            && text.split('.').all(|part| {
                !part.is_empty()
                    && part
                        .chars()
                        .all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c))
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || atom(local)) && (atom(domain) || (domain.starts_with('[') && domain.ends_with(']')))
}

fn is_hostname(text: &str) -> bool {
    static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
        const WORD: &str = r"a-zA-Z0-9\p{S}\p{L}";
        let label = format!("[{WORD}](-?[{WORD}]{{0,62}})?");
        let dotted = format!(r"([{WORD}]([{WORD}-]{{0,61}}[{WORD}])?\.)+[a-zA-Z\p{{L}}]{{2,63}}");
        Regex::new(&format!("^({label}|{dotted})$")).expect("the expression is a constant and compiles in the tests")
    });
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// Parses an IPv4 address; numbers may have leading zeros.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let Ok(bits) = bits.parse::<u32>() else { return false };
    (parse_ipv4(address).is_some() && bits <= 32) || (Ipv6Addr::from_str(address).is_ok() && bits <= 128)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    for (separator, width) in [(':', 2), ('-', 2), ('.', 4)] {
        if text.contains(separator) {
            let groups: Vec<&str> = text.split(separator).collect();
            return groups.iter().all(|group| hex(group, width)) && matches!(groups.len() * width / 2, 6 | 8 | 20);
        }
    }
    false
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut hex = Vec::with_capacity(32);
    let mut dashes_allowed = [8, 12, 16, 20].into_iter().peekable();
    for byte in text.bytes() {
        while dashes_allowed.peek().is_some_and(|at| *at < hex.len()) {
            dashes_allowed.next();
        }
        if byte == b'-' && dashes_allowed.next_if_eq(&hex.len()).is_some() {
            continue;
        }
        if !byte.is_ascii_hexdigit() || hex.len() == 32 {
            return false;
        }
        hex.push(byte.to_ascii_lowercase());
    }
    hex.len() == 32
        && version.is_none_or(|version| {
            hex[12] == version && (version == b'3' || matches!(hex[16], b'8' | b'9' | b'a' | b'b'))
        })
}

fn without_spaces_and_dashes(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    let bytes = digits.as_bytes();
    if bytes.len() != 10
        || !bytes[..9].iter().all(u8::is_ascii_digit)
        || !(bytes[9] == b'X' || bytes[9].is_ascii_digit())
    {
        return false;
    }
    let value = |b: u8| if b == b'X' { 10 } else { u32::from(b - b'0') };
    (1..=10).zip(bytes).map(|(weight, b)| weight * value(*b)).sum::<u32>() % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_spaces_and_dashes(text);
    let bytes = digits.as_bytes();
    bytes.len() == 13
        && bytes.iter().all(u8::is_ascii_digit)
        && [1, 3].into_iter().cycle().zip(bytes).map(|(factor, b)| factor * u32::from(b - b'0')).sum::<u32>() % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    static CARD: LazyLock<Regex> = LazyLock::new(|| {
        let issuers = [
            "4[0-9]{12}([0-9]{3})?",
            "5[1-5][0-9]{14}",
            "6(011|5[0-9][0-9])[0-9]{12}",
            "3[47][0-9]{13}",
            "3(0[0-5]|[68][0-9])[0-9]{11}",
            "(2131|1800|35[0-9]{3})[0-9]{11}",
        ];
        Regex::new(&format!("^({})$", issuers.join("|")))
            .expect("the expression is a constant and compiles in the tests")
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CARD.is_match(&digits) {
        return false;
    }
    let doubled = |n: u32| if n * 2 >= 10 { (n * 2) % 10 + 1 } else { n * 2 };
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| (i, u32::from(b - b'0')))
        .map(|(i, n)| if i % 2 == 1 { doubled(n) } else { n })
        .sum();
    sum.is_multiple_of(10)
}

fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes
            .iter()
            .enumerate()
            .all(|(i, b)| if matches!(i, 3 | 6) { matches!(b, b'-' | b' ') } else { b.is_ascii_digit() })
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let channels: Vec<&str> = inner.split(',').map(|c| c.trim_matches(|c: char| c.is_ascii_whitespace())).collect();
    channels.len() == 3
        && channels.iter().all(|c| {
            c.bytes().all(|b| b.is_ascii_digit()) && (*c == "0" || !c.starts_with('0')) && c.parse::<u8>().is_ok()
        })
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && !text.is_empty()
        && text.len() - body.len() <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_valid_and_rejects_invalid_text() {
        for (format, good, bad) in [
            (Format::Uri, &["https://a.b/c", "/path"][..], &["a b", "foo", ""][..]),
            (Format::Email, &["a@b.c", "Bob <bob@x.io>"], &["a", "@b", "a@"]),
            (Format::Hostname, &["a", "a-b.example.com", "localhost"], &["-a", "a_b", ""]),
            (Format::Ipv4, &["1.2.3.4", "01.2.3.4"], &["1.2.3", "256.1.1.1", "::1"]),
            (Format::Ipv6, &["::1", "fe80::1"], &["1.2.3.4", ":::"]),
            (Format::Cidr, &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "a/8"]),
            (Format::Mac, &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23", "zz:23:45:67:89:ab"]),
            (
                Format::Uuid,
                &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
                &["123e4567", ""],
            ),
            (Format::Uuid4, &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
            (Format::Isbn, &["0321751043", "978-0321751041"], &["0321751044"]),
            (Format::CreditCard, &["4111-1111-1111-1111"], &["4111-1111-1111-1112", "1"]),
            (Format::Ssn, &["111-22-3333"], &["111223333", "aaa-22-3333"]),
            (Format::HexColor, &["#fff", "FFFFFF"], &["#ff", "#ggg"]),
            (Format::RgbColor, &["rgb(255, 0,1)"], &["rgb(256,0,1)", "rgb(1,2)"]),
            (Format::Byte, &["aGk=", "aGkh"], &["a", "", "a==="]),
            (Format::Date, &["2024-02-29"], &["2023-02-29", "2024-2-29"]),
            (Format::Duration, &["1h", "1.5s", "22 ns", "3 days"], &["x", "", "1"]),
            (
                Format::DateTime,
                &["2024-01-01T00:00:00Z", "2024-01-01t00:00:00.5+02:00"],
                &["2024-01-01", "2024-01-01T24:00:00Z"],
            ),
            (Format::ShortName, &["a-b"], &["A", "a.b"]),
            (Format::LongName, &["a.b"], &["A", "a..b"]),
            (Format::BsonObjectId, &["507f1f77bcf86cd799439011"], &["507f"]),
            (Format::Password, &["anything", ""], &[]),
        ] {
            for text in good {
                assert!(format.accepts(text), "{format:?} must accept {text:?}");
            }
            for text in bad {
                assert!(!format.accepts(text), "{format:?} must reject {text:?}");
            }
        }
    }
}
