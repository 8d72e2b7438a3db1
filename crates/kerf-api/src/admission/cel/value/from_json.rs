//! Conversion of JSON into CEL values by the schema's type and format, with an error if the JSON
//! does not match the schema.

use serde_json::Value as Json;

use super::super::super::number::JsonNumber;
use super::super::super::scale::go_type;
use super::super::super::schema::{ListType, Schema, SchemaType};
use super::super::super::{text, time};
use super::super::functions::conversion::decode_base64;
use super::super::types::ObjectType;
use super::{EvalResult, Items, List, ListKind, Map, Text, Value, error};

impl<'a> Value<'a> {
    /// Converts a value of the object by its schema.
    pub(in super::super) fn from_json(json: &'a Json, schema: &'a Schema, is_resource: bool) -> EvalResult<'a> {
        if json.is_null() {
            return if schema.nullable {
                Ok(Self::Null)
            } else {
                error("invalid data, got null for schema with nullable=false")
            };
        }
        if schema.int_or_string {
            return match json {
                Json::String(text) => Ok(Self::String(Text::Borrowed(text))),
                Json::Number(number) if number.is_i64() => Ok(Self::Int(number.as_i64().unwrap_or_default())),
                _ => error("invalid data, expected XIntOrString value to be either a string or integer"),
            };
        }
        let unexpected = |wanted: &str| error(format!("invalid data, expected {wanted}, got {}", go_type(json)));
        match schema.type_ {
            Some(SchemaType::Object) => match json {
                Json::Object(fields) => Ok(Self::Map(Map::Json(
                    fields,
                    ObjectType { schema, is_resource: is_resource || schema.is_embedded_resource },
                ))),
                _ => error("invalid data, expected a map for the provided schema with type=object"),
            },
            Some(SchemaType::Array) => match (json, schema.items.as_deref()) {
                (Json::Array(items), Some(item_schema)) => {
                    let kind = match &schema.list_type {
                        Some(ListType::Set) => ListKind::Set,
                        Some(ListType::Map(keys)) => ListKind::Map(keys),
                        Some(ListType::Atomic) | None => ListKind::Atomic,
                    };
                    Ok(Self::List(List { items: Items::Json(items, item_schema), kind }))
                }
                (Json::Array(_), None) => error("invalid array type, expected Items with a non-empty Schema"),
                _ => error("invalid data, expected an array for the provided schema with type=array"),
            },
            Some(SchemaType::String) => match json {
                Json::String(text) => Self::read_text(text, &schema.format_name),
                _ => unexpected("string"),
            },
            Some(SchemaType::Number) => match json {
                Json::Number(number) => Ok(Self::Double(JsonNumber::of(number).as_f64())),
                _ => unexpected("float"),
            },
            Some(SchemaType::Integer) => match json.as_i64() {
                Some(n) => Ok(Self::Int(n)),
                None => unexpected("int"),
            },
            Some(SchemaType::Boolean) => match json {
                Json::Bool(b) => Ok(Self::Bool(*b)),
                _ => unexpected("bool"),
            },
            None if schema.preserves_unknown_fields => Ok(Self::Unknown(json)),
            None => error("invalid type, expected object, array, number, integer, boolean or string"),
        }
    }

    fn read_text(text: &'a str, format: &str) -> EvalResult<'a> {
        match format {
            "duration" => match time::parse_lenient_duration(text) {
                Some(nanoseconds) => Ok(Self::Duration(nanoseconds)),
                None => error(format!("Invalid duration {text}: unable to parse {text} as duration")),
            },
            "date" => match time::parse_date(text).and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok()) {
                Some(midnight) => Ok(Self::Timestamp(midnight.timestamp())),
                None => error(format!("Invalid date formatted string {text}: {}", text::quote(text))),
            },
            "date-time" => match time::parse_timestamp(text) {
                Some(instant) => Ok(Self::Timestamp(instant)),
                None => error(format!("Invalid date-time formatted string {text}: {}", text::quote(text))),
            },
            "byte" => match decode_base64(text) {
                Some(bytes) => Ok(Self::Bytes(bytes.into())),
                None => error(format!("Invalid byte formatted string {text}: illegal base64 data")),
            },
            _ => Ok(Self::String(Text::Borrowed(text))),
        }
    }
}
