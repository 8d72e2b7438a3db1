//! Values of a running rule. Values of the object are borrowed, and converted by their schema only
//! when they are read, so unread data costs nothing. A failed evaluation carries cel-go's error
//! text.

mod from_json;
mod list;
mod map;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use serde_json::Value as Json;

pub(super) use self::list::{Items, List, ListKind};
pub(super) use self::map::{CelMapKey, Map};
use super::super::regexp::Regexp;
use super::super::text;
use super::super::url::Url;
use super::functions::format::NamedFormat;
use super::functions::network::Cidr;
use super::functions::semver::SemanticVersion;
use super::types::OpaqueType;
use crate::quantity::Quantity;

/// A value in a rule. It borrows from the object and from the rule.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    /// Duration in nanoseconds.
    Duration(i64),
    Timestamp(jiff::Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    /// A type, by its name.
    Type(Cow<'static, str>),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Rc<SemanticVersion>),
    Format(&'static NamedFormat),
    /// Data without a schema, which can only be compared.
    Unknown(&'a Json),
}

/// Text, borrowed from the object or the rule, or created by a function.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
    Owned(Rc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

/// The reason why an evaluation has no value.
#[derive(Clone, Debug)]
pub(super) enum EvalFailure {
    /// The expression failed. `&&` and `||` may ignore the error.
    Error(Rc<str>),
    /// The rule exceeded its cost limit. No operator may ignore this.
    OverBudget,
}

pub(super) type EvalResult<'a> = Result<Value<'a>, EvalFailure>;

/// The arguments of a call, with the receiver first, and the compiled pattern if it was a literal.
pub(super) struct Arguments<'a, 'p> {
    pub(super) values: Vec<Value<'a>>,
    pub(super) pattern: Option<&'p Regexp>,
}

/// Returns an error with this text.
pub(super) fn error<T>(message: impl Into<String>) -> Result<T, EvalFailure> {
    Err(EvalFailure::Error(message.into().into()))
}

/// Returns the error for arguments that match no overload.
pub(super) fn no_such_overload<T>() -> Result<T, EvalFailure> {
    error("no such overload")
}

impl<'a> Value<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::String(Text::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List { items: Items::Built(Rc::new(items)), kind: ListKind::Atomic })
    }

    pub(super) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(super) const NONE: Self = Self::Optional(None);

    /// Returns the name of the value's type.
    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => OpaqueType::Quantity.name(),
            Self::Url(_) => OpaqueType::Url.name(),
            Self::Ip(_) => OpaqueType::Ip.name(),
            Self::Cidr(_) => OpaqueType::Cidr.name(),
            Self::Semver(_) => OpaqueType::Semver.name(),
            Self::Format(_) => OpaqueType::Format.name(),
            Self::Unknown(_) => "unknown",
        }
    }

    /// Returns the number of characters, bytes, elements or entries; 1 for any other value. The
    /// cost of calls depends on it.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.size(),
            _ => 1,
        }
    }

    /// Returns true if two values are equal. Numbers of different types are compared by value;
    /// other values of different types are not equal.
    pub(super) fn equals(&self, other: &Self) -> Result<bool, EvalFailure> {
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Null, _) | (_, Self::Null) => false,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => **a == **b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::List(a), Self::List(b)) => return a.equals(b),
            (Self::Map(a), Self::Map(b)) => return a.equals(b),
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => return a.equals(b),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            },
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a.text == b.text,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a), Self::Cidr(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a.cmp(b).is_eq(),
            (Self::Format(a), Self::Format(b)) => a.name == b.name,
            (Self::Unknown(a), Self::Unknown(b)) => a == b,
            // Lists and maps of the object can be compared only with lists and maps.
            (Self::List(List { items: Items::Json(..), .. }) | Self::Map(Map::Json(..)), _) => {
                return no_such_overload();
            }
            (a, b) => a.compare_numbers(b) == Some(Ordering::Equal),
        })
    }

    fn compare_numbers(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), b @ (Self::Int(_) | Self::Uint(_))) => compare_double(*a, b.as_i128()?),
            (a @ (Self::Int(_) | Self::Uint(_)), Self::Double(b)) => {
                compare_double(*b, a.as_i128()?).map(Ordering::reverse)
            }
            _ => None,
        }
    }

    fn as_i128(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some((*n).into()),
            Self::Uint(n) => Some((*n).into()),
            _ => None,
        }
    }

    /// Returns the order of two values. Types without an order, and NaN, are errors.
    pub(super) fn compare(&self, other: &Self) -> Result<Option<Ordering>, EvalFailure> {
        Ok(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some((**a).cmp(&**b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                match (self, other) {
                    (Self::Double(a), _) if a.is_nan() => return error("NaN values cannot be ordered"),
                    (_, Self::Double(b)) if b.is_nan() => return error("NaN values cannot be ordered"),
                    (a, b) => a.compare_numbers(b),
                }
            }
            _ => return no_such_overload(),
        })
    }

    /// Returns the value as a key of a map.
    pub(super) fn as_key(&self) -> Result<CelMapKey, EvalFailure> {
        match self {
            Self::Bool(b) => Ok(CelMapKey::Bool(*b)),
            Self::Int(n) => Ok(CelMapKey::Number((*n).into())),
            Self::Uint(n) => Ok(CelMapKey::Number((*n).into())),
            Self::Double(d) if d.fract() == 0.0 && d.abs() < 1e18 => Ok(CelMapKey::Number(*d as i128)),
            Self::String(text) => Ok(CelMapKey::String(Rc::from(&**text))),
            _ => error(format!("unsupported key type: {}", self.type_name())),
        }
    }

    /// Returns the value as error texts print it.
    pub(super) fn display_text(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Uint(n) => n.to_string(),
            Self::Double(d) => text::float(*d),
            Self::String(text) => text.to_string(),
            other => other.type_name().to_owned(),
        }
    }
}

/// Compares a float with a whole number exactly. Returns `None` for NaN.
fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.is_infinite() {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    // Whole numbers in CEL fit into 65 bits, so a float with a larger magnitude is outside their
    // range.
    if double.abs() > 1e25 {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let truncated = double.trunc();
    Some(
        (truncated as i128).cmp(&whole).then_with(|| (double - truncated).partial_cmp(&0.0).unwrap_or(Ordering::Equal)),
    )
}
