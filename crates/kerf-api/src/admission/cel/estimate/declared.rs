//! Maximum sizes of the values of a schema, and their minimum size as JSON. Where the schema sets
//! no bound, the maximum size of a request does.

use super::super::super::schema::{Schema, SchemaType};
use super::super::types::{ObjectType, Type};

/// The largest request that the API server accepts.
pub(super) const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// A node of the declared types, as far as sizes are concerned.
#[derive(Clone, Copy)]
pub(super) enum DeclaredNode<'s> {
    Value(&'s Schema, bool),
    MapKey,
}

impl DeclaredNode<'_> {
    pub(super) fn child(self, name: &str) -> Option<Self> {
        let Self::Value(schema, is_resource) = self else { return None };
        match name {
            "@items" | "@values" => {
                let element = match schema.type_ {
                    Some(SchemaType::Array) => schema.items.as_deref(),
                    _ => schema.map_values(),
                };
                element.map(|element| Self::Value(element, element.is_embedded_resource))
            }
            "@keys" => schema.map_values().map(|_| Self::MapKey),
            field => {
                if schema.map_values().is_some() {
                    return None;
                }
                let object = ObjectType { schema, is_resource };
                object.field(field)?;
                let property = object.property(&super::super::escape::unescape(field)?)?;
                Some(Self::Value(property, property.is_embedded_resource))
            }
        }
    }

    /// Returns the maximum number of elements, entries, characters or bytes of a valid value.
    pub(super) fn max_elements(self) -> u64 {
        let Self::Value(schema, _) = self else { return 0 };
        let bound = |bound: Option<i64>| bound.map(|bound| u64::try_from(bound).unwrap_or(0));
        let text = |schema: &Schema| bound(schema.max_length).map(|length| length.saturating_mul(4));
        if schema.int_or_string {
            return text(schema).unwrap_or(MAX_REQUEST_BYTES - 2);
        }
        match schema.type_ {
            Some(SchemaType::Array) => bound(schema.max_items).unwrap_or_else(|| {
                let each = schema.items.as_deref().map_or(0, |items| min_bytes(items, items.is_embedded_resource));
                (MAX_REQUEST_BYTES - 2) / (each + 1)
            }),
            Some(SchemaType::Object) => match schema.map_values() {
                Some(values) => bound(schema.max_properties)
                    .unwrap_or_else(|| (MAX_REQUEST_BYTES - 2) / (min_bytes(values, values.is_embedded_resource) + 6)),
                None => 0,
            },
            Some(SchemaType::String) => match schema.format_name.as_str() {
                "byte" => bound(schema.max_length).unwrap_or(MAX_REQUEST_BYTES - 2),
                "duration" | "date-time" => 32,
                "date" => 12,
                _ => text(schema).unwrap_or_else(|| {
                    let longest = schema.enumeration.iter().filter_map(|value| value.as_str()).map(str::len).max();
                    match longest {
                        Some(longest) => longest as u64,
                        None if !schema.enumeration.is_empty() => 0,
                        None => MAX_REQUEST_BYTES - 2,
                    }
                }),
            },
            _ => 0,
        }
    }
}

/// Returns the minimum number of bytes of a valid value as JSON.
pub(super) fn min_bytes(schema: &Schema, is_resource: bool) -> u64 {
    if schema.int_or_string {
        return 1;
    }
    match schema.type_ {
        Some(SchemaType::Object) if schema.map_values().is_none() => {
            let object = ObjectType { schema, is_resource };
            let required = schema.required.iter().filter_map(|name| Some((name, object.property(name)?)));
            required
                .filter(|(_, property)| {
                    property.default.is_none() && Type::from_schema(property, property.is_embedded_resource).is_some()
                })
                .map(|(name, property)| name.len() as u64 + min_bytes(property, property.is_embedded_resource) + 4)
                .fold(2, u64::saturating_add)
        }
        Some(SchemaType::Object | SchemaType::Array) => 2,
        Some(SchemaType::String) => match schema.format_name.as_str() {
            "duration" => 3,
            "date" => 12,
            "date-time" => 21,
            _ => 2,
        },
        Some(SchemaType::Boolean) => 4,
        Some(SchemaType::Number | SchemaType::Integer) => 1,
        None => 0,
    }
}
