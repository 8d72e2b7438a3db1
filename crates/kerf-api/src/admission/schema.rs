//! The schema of a version in the form that admission uses: types parsed, regular expressions
//! compiled, properties sorted. It is built only from a definition that passed the checks in
//! `definition`, so it contains no contradictions. `rules` holds the source of the CEL rules; `cel`
//! compiles them.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::Value;

use super::format::Format;
use super::regexp::Regexp;

/// The JSON type that a schema declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaType {
    /// An object with declared properties, or a map (`object`).
    Object,
    /// A list (`array`).
    Array,
    /// Text (`string`).
    String,
    /// A whole number (`integer`).
    Integer,
    /// A number that may have a fraction (`number`).
    Number,
    /// True or false (`boolean`).
    Boolean,
}

impl SchemaType {
    /// Returns the type's name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean]
            .into_iter()
            .find(|candidate| candidate.name() == name)
    }
}

/// How a list is merged and compared (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is replaced as a whole; the default.
    Atomic,
    /// Each element appears at most once; comparison ignores the order.
    Set,
    /// Elements are objects that are identified by the values of these keys.
    Map(Vec<String>),
}

/// The value of `additionalProperties`.
#[derive(Debug)]
pub(crate) enum AdditionalProperties {
    /// `true` or `false`, without a schema.
    Bool(bool),
    /// The schema of every entry.
    Schema(Box<Schema>),
}

/// One node of a schema.
#[derive(Debug, Default)]
pub struct Schema {
    pub(crate) type_: Option<SchemaType>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) int_or_string: bool,
    pub(crate) preserves_unknown_fields: bool,
    pub(crate) is_embedded_resource: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) is_atomic_map: bool,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional_properties: Option<AdditionalProperties>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) format: Option<Format>,
    /// The format as written, also if it is unknown, because CEL reads it too.
    pub(crate) format_name: String,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Regexp>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) rules: Vec<ValidationRule>,
}

impl Schema {
    /// Builds the node from a schema that passed the checks in `definition`.
    pub(crate) fn build(props: &JSONSchemaProps) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let list = |schemas: &Option<Vec<JSONSchemaProps>>| schemas.iter().flatten().map(Self::build).collect();
        let type_ = props.type_.as_deref().and_then(SchemaType::parse);
        let int_or_string = props.x_kubernetes_int_or_string.unwrap_or_default();
        let format_name = text(&props.format);
        Self {
            type_,
            nullable: props.nullable.unwrap_or_default(),
            default: props.default.as_ref().map(|default| default.0.clone()),
            int_or_string,
            preserves_unknown_fields: props.x_kubernetes_preserve_unknown_fields.unwrap_or_default(),
            is_embedded_resource: props.x_kubernetes_embedded_resource.unwrap_or_default(),
            list_type: props.x_kubernetes_list_type.as_deref().map(|list_type| match list_type {
                "set" => ListType::Set,
                "map" => ListType::Map(props.x_kubernetes_list_map_keys.clone().unwrap_or_default()),
                _ => ListType::Atomic,
            }),
            is_atomic_map: props.x_kubernetes_map_type.as_deref() == Some("atomic"),
            properties: properties(props).map(|(name, schema)| (name.clone(), Self::build(schema))).collect(),
            additional_properties: props.additional_properties.as_ref().map(|additional| match additional {
                JSONSchemaPropsOrBool::Bool(allowed) => AdditionalProperties::Bool(*allowed),
                JSONSchemaPropsOrBool::Schema(schema) => AdditionalProperties::Schema(Box::new(Self::build(schema))),
            }),
            items: items(props).map(|schema| Box::new(Self::build(schema))),
            format: Format::for_type(&format_name, type_, int_or_string),
            format_name,
            maximum: props.maximum,
            exclusive_maximum: props.exclusive_maximum.unwrap_or_default(),
            minimum: props.minimum,
            exclusive_minimum: props.exclusive_minimum.unwrap_or_default(),
            multiple_of: props.multiple_of,
            max_length: props.max_length,
            min_length: props.min_length,
            pattern: props.pattern.as_deref().filter(|p| !p.is_empty()).and_then(|p| Regexp::new(p).ok()),
            max_items: props.max_items,
            min_items: props.min_items,
            max_properties: props.max_properties,
            min_properties: props.min_properties,
            required: props.required.clone().unwrap_or_default(),
            enumeration: props.enum_.iter().flatten().map(|value| value.0.clone()).collect(),
            all_of: list(&props.all_of),
            any_of: list(&props.any_of),
            one_of: list(&props.one_of),
            not: props.not.as_deref().map(|schema| Box::new(Self::build(schema))),
            rules: props.x_kubernetes_validations.clone().unwrap_or_default(),
        }
    }

    /// Returns the schema of a map's values; `None` if this is not a map.
    pub(crate) fn map_values(&self) -> Option<&Schema> {
        match &self.additional_properties {
            Some(AdditionalProperties::Schema(schema)) => Some(schema),
            Some(AdditionalProperties::Bool(_)) | None => None,
        }
    }

    /// Returns the schema of the field `name`: a declared property, otherwise the schema of the
    /// map's values.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.map_values())
    }

    /// Returns the declared type; `None` if the schema declares none.
    pub fn schema_type(&self) -> Option<SchemaType> {
        self.type_
    }

    /// Returns the declared properties, sorted by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Schema)> {
        self.properties.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    /// Returns the schema of the elements; `None` if this is not a list.
    pub fn items(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// Returns the schema of the entries; `None` if this is not a map.
    pub fn entries(&self) -> Option<&Schema> {
        self.map_values()
    }

    /// Returns how the list is merged and compared; `None` if the schema does not declare it.
    pub fn list_type(&self) -> Option<&ListType> {
        self.list_type.as_ref()
    }

    /// Returns true if an object or map is replaced as a whole (`x-kubernetes-map-type: atomic`).
    pub fn is_atomic_map(&self) -> bool {
        self.is_atomic_map
    }

    /// Returns true if unknown fields inside the value are kept.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserves_unknown_fields
    }
}

/// Returns the declared properties of a schema in a definition.
pub(crate) fn properties(props: &JSONSchemaProps) -> impl Iterator<Item = (&String, &JSONSchemaProps)> {
    props.properties.iter().flatten()
}

/// Returns the schema of list elements; `None` if there is none or if there is one per position.
pub(crate) fn items(props: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match &props.items {
        Some(JSONSchemaPropsOrArray::Schema(schema)) => Some(schema),
        Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
    }
}

/// Returns the schema in `additionalProperties`; `None` if that is absent or a boolean.
pub(crate) fn additional_schema(props: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match &props.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(schema)) => Some(schema),
        Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
    }
}
