//! Validates values against their schema: types, formats, bounds, enumerations, required fields and
//! the logical keywords `anyOf`, `oneOf`, `allOf` and `not`. Reports all errors at once. The order
//! of the checks and the choice among failed alternatives follow kube-openapi, because the error
//! texts depend on both.

use std::collections::HashSet;

use serde_json::Value;

use super::correlate::CorrelatedValue;
use super::error::{FieldError, FieldErrorKind, supported_values_detail, too_long_detail, too_many_detail};
use super::format::Format;
use super::number::{JsonNumber, is_whole};
use super::path::Path;
use super::schema::{AdditionalProperties, Schema, SchemaType};
use super::text;

/// Limit on the number of errors, so that an object with a million bad elements does not produce a
/// million messages.
const MAX_ERRORS: usize = 10_000;

/// Validates `value`; the paths of its errors begin with `base`. With `stored`, errors of unchanged
/// parts are dropped (ratcheting).
pub(crate) fn validate(
    base: &Path<'_>,
    schema: &Schema,
    value: &Value,
    stored: Option<CorrelatedValue<'_>>,
) -> Vec<FieldError> {
    let mut validator = Validator { base, errors: Vec::new() };
    validator.validate_node(schema, value, &Path::ROOT, stored);
    let mut seen = HashSet::new();
    validator.errors.retain(|error| seen.insert(error.to_string()));
    validator.errors
}

struct Validator<'a> {
    base: &'a Path<'a>,
    errors: Vec<FieldError>,
}

impl Validator<'_> {
    /// Checks one value. Returns the number of checks that matched, which ranks failed
    /// alternatives.
    fn validate_node(
        &mut self,
        schema: &Schema,
        value: &Value,
        at: &Path<'_>,
        stored: Option<CorrelatedValue<'_>>,
    ) -> usize {
        let error_count = self.errors.len();
        let matches = self.validate_value(schema, value, at, stored);
        if self.errors.len() > error_count && stored.is_some_and(CorrelatedValue::is_unchanged) {
            self.errors.truncate(error_count);
        }
        matches
    }

    fn validate_value(
        &mut self,
        schema: &Schema,
        value: &Value,
        at: &Path<'_>,
        stored: Option<CorrelatedValue<'_>>,
    ) -> usize {
        if self.errors.len() >= MAX_ERRORS {
            return 0;
        }
        let typed = schema.type_.is_some() || schema.int_or_string;
        if value.is_null() {
            let matches = self.validate_null_type(schema, typed, at);
            self.validate_enum(schema, value, at);
            return matches;
        }
        // As upstream, the enum check and the node itself always count as one match each.
        let mut matches = 2;
        if typed || schema.format.is_some() {
            matches += 1 + self.validate_type(schema, value, at);
        }
        matches += 1 + self.validate_logical_keywords(schema, value, at, stored);
        match value {
            Value::String(text) => {
                matches += 1;
                self.validate_string(schema, text, at);
                if let Some(format) = schema.format {
                    matches += 1;
                    self.validate_format(schema, format, text, at);
                }
            }
            Value::Number(number) => {
                matches += 2;
                self.validate_number(schema, JsonNumber::of(number), at);
            }
            Value::Array(items) => matches += 2 + self.validate_array(schema, items, at, stored),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        self.validate_enum(schema, value, at);
        if let Value::Object(fields) = value {
            matches += 1 + self.validate_object(schema, fields, at, stored);
        }
        matches
    }

    fn validate_null_type(&mut self, schema: &Schema, typed: bool, at: &Path<'_>) -> usize {
        if typed && !schema.nullable {
            self.wrong_type(at, type_names(schema), "null");
            return 0;
        }
        1
    }

    fn validate_type(&mut self, schema: &Schema, value: &Value, at: &Path<'_>) -> usize {
        let (actual, actual_format) = match value {
            Value::Null | Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Number(number) => match JsonNumber::of(number) {
                JsonNumber::Int(_) => ("integer", "int64"),
                JsonNumber::Float(_) => ("number", "float64"),
            },
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let expects_integer = schema.int_or_string || schema.type_ == Some(SchemaType::Integer);
        let expects_number = !schema.int_or_string && schema.type_ == Some(SchemaType::Number);
        let expected = type_names(schema);
        let whole_float = expects_integer && value.as_number().is_some_and(|n| is_whole(JsonNumber::of(n)));
        let fits = expected.split(',').any(|name| name == actual)
            || (actual == "number" && whole_float)
            || (actual == "integer" && expects_number);
        let text_or_list = matches!(actual, "string" | "array");
        if let Some(format) = schema.format.map(|_| schema.format_name.as_str()) {
            if !text_or_list && !fits && actual_format != format {
                self.wrong_type(at, format, actual_format);
                return 0;
            }
            if text_or_list && !expects_integer && !expects_number {
                return 1;
            }
        }
        if fits {
            return 1;
        }
        self.wrong_type(at, expected, actual);
        0
    }

    fn wrong_type(&mut self, at: &Path<'_>, expected: &str, actual: &str) {
        let detail = format!("{} in body must be of type {expected}: {}", at.name(), text::quote(actual));
        self.push(at, FieldErrorKind::TypeInvalid, Some(actual.into()), detail);
    }

    fn validate_string(&mut self, schema: &Schema, value: &str, at: &Path<'_>) {
        let length = || value.chars().count() as i64;
        if let Some(max) = schema.max_length.filter(|max| length() > *max) {
            self.push(at, FieldErrorKind::TooLong, None, too_long_detail(max));
        } else if let Some(min) = schema.min_length.filter(|min| length() < *min) {
            self.invalid(at, value.into(), &format!("should be at least {min} chars long"));
        } else if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(value)) {
            self.invalid(at, value.into(), &format!("should match '{}'", pattern.source));
        }
    }

    fn validate_format(&mut self, schema: &Schema, format: Format, value: &str, at: &Path<'_>) {
        if !format.accepts(value) {
            let detail =
                format!("{} in body must be of type {}: {}", at.name(), schema.format_name, text::quote(value));
            self.push(at, FieldErrorKind::TypeInvalid, Some(value.into()), detail);
        }
    }

    fn validate_number(&mut self, schema: &Schema, value: JsonNumber, at: &Path<'_>) {
        // An int-or-string has two types, and a range applies to one type only.
        let (type_, format) = if schema.int_or_string { (None, None) } else { (schema.type_, schema.format) };
        self.check_range(value, type_, format, "Checked", at);
        if let Some(factor) = schema.multiple_of {
            let constraint = JsonNumber::Float(factor);
            let fits = self.check_range(constraint, type_, format, "MultipleOf", at);
            self.validate_multiple_of(value, factor, fits, at);
        }
        if let Some(min) = schema.minimum {
            let fits = self.check_range(JsonNumber::Float(min), type_, format, "Minimum boundary", at);
            let (below, bound) = value
                .compare(min, fits, |value, min| if schema.exclusive_minimum { value <= min } else { value < min });
            if below {
                let words = if schema.exclusive_minimum { "greater than" } else { "greater than or equal to" };
                self.invalid(at, value.as_bound(fits), &format!("should be {words} {bound}"));
            }
        }
        if let Some(max) = schema.maximum {
            let fits = self.check_range(JsonNumber::Float(max), type_, format, "Maximum boundary", at);
            let (above, bound) = value
                .compare(max, fits, |value, max| if schema.exclusive_maximum { value >= max } else { value > max });
            if above {
                let words = if schema.exclusive_maximum { "less than" } else { "less than or equal to" };
                self.invalid(at, value.as_bound(fits), &format!("should be {words} {bound}"));
            }
        }
    }

    /// Returns true if a number fits the schema's type and format; otherwise records an error.
    fn check_range(
        &mut self,
        value: JsonNumber,
        type_: Option<SchemaType>,
        format: Option<Format>,
        subject: &str,
        at: &Path<'_>,
    ) -> bool {
        let fits = match (type_, format) {
            (Some(SchemaType::Integer), Some(Format::Int32)) => {
                value.as_i64_exact().is_some_and(|n| i32::try_from(n).is_ok())
            }
            (Some(SchemaType::Integer), _) => value.as_i64_exact().is_some(),
            (_, Some(Format::Float)) => value.as_f64().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let type_name = type_.map_or("", SchemaType::name);
            let form = match format {
                Some(Format::Int32) => "with format int32",
                Some(Format::Int64) => "with format int64",
                Some(Format::Float) => "with format float",
                Some(Format::Double) => "with format double",
                _ => "(default format)",
            };
            let detail = format!("{subject} value must be of type {type_name} {form} in {}", at.name());
            self.push_object_error(detail);
        }
        fits
    }

    fn validate_multiple_of(&mut self, value: JsonNumber, factor: f64, fits: bool, at: &Path<'_>) {
        let (factor_value, is_multiple) = match value {
            JsonNumber::Int(value) if fits => {
                let factor = factor as i64;
                (JsonNumber::Int(factor), factor > 0 && value % factor == 0)
            }
            value => {
                let quotient = if factor < 1.0 { 1.0 / factor * value.as_f64() } else { value.as_f64() / factor };
                (JsonNumber::Float(factor), is_whole(JsonNumber::Float(quotient)))
            }
        };
        if factor_value.as_f64() <= 0.0 {
            let detail = format!("factor MultipleOf declared for {} must be positive: {factor_value}", at.name());
            self.push(at, FieldErrorKind::Invalid, Some(factor_value.into()), detail);
        } else if !is_multiple {
            self.invalid(at, value.as_bound(fits), &format!("should be a multiple of {factor_value}"));
        }
    }

    fn validate_array(
        &mut self,
        schema: &Schema,
        items: &[Value],
        at: &Path<'_>,
        stored: Option<CorrelatedValue<'_>>,
    ) -> usize {
        let mut matches = 0;
        if let Some(item_schema) = schema.items.as_deref() {
            for (i, item) in items.iter().enumerate() {
                matches +=
                    self.validate_node(item_schema, item, &at.index(i), stored.and_then(|stored| stored.index(i)));
            }
        }
        if let Some(min) = schema.min_items.filter(|min| (items.len() as i64) < *min) {
            self.invalid(at, items.len().into(), &format!("should have at least {min} items"));
        }
        if let Some(max) = schema.max_items.filter(|max| items.len() as i64 > *max) {
            self.push(at, FieldErrorKind::TooMany, Some(items.len().into()), too_many_detail(max));
        }
        matches
    }

    fn validate_object(
        &mut self,
        schema: &Schema,
        fields: &serde_json::Map<String, Value>,
        at: &Path<'_>,
        stored: Option<CorrelatedValue<'_>>,
    ) -> usize {
        let mut matches = 0;
        if let Some(min) = schema.min_properties.filter(|min| (fields.len() as i64) < *min) {
            self.invalid(at, fields.len().into(), &format!("should have at least {min} properties"));
        }
        if let Some(max) = schema.max_properties.filter(|max| fields.len() as i64 > *max) {
            self.push(at, FieldErrorKind::TooMany, Some(fields.len().into()), too_many_detail(max));
        }
        for (name, value) in fields.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
            match &schema.additional_properties {
                Some(AdditionalProperties::Bool(false)) => {
                    let detail = format!("{}.{name} in body is a forbidden property", at.name());
                    self.push(at, FieldErrorKind::Invalid, Some(name.as_str().into()), detail);
                }
                Some(AdditionalProperties::Schema(values)) => {
                    matches += self.validate_node(values, value, &at.child(name), stored_field(at, stored, name));
                }
                Some(AdditionalProperties::Bool(true)) | None => {}
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = fields.get(name) {
                matches += self.validate_node(property, value, &at.child(name), stored_field(at, stored, name));
            }
        }
        for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.push(&at.child(name), FieldErrorKind::Required, None, String::new());
        }
        matches
    }

    fn validate_enum(&mut self, schema: &Schema, value: &Value, at: &Path<'_>) {
        if schema.enumeration.is_empty() || schema.enumeration.iter().any(|allowed| same_enum_value(value, allowed)) {
            return;
        }
        let supported: Vec<String> = schema
            .enumeration
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| text::json(allowed), str::to_owned))
            .collect();
        self.push(at, FieldErrorKind::NotSupported, Some(value.clone()), supported_values_detail(&supported));
    }

    /// Checks `anyOf`, `oneOf`, `allOf` and `not`, in the order in which their errors are reported.
    fn validate_logical_keywords(
        &mut self,
        schema: &Schema,
        value: &Value,
        at: &Path<'_>,
        stored: Option<CorrelatedValue<'_>>,
    ) -> usize {
        let mut matches = 1;
        let name = || text::quote(&at.name());
        if !schema.any_of.is_empty() {
            let result = self.try_alternatives(&schema.any_of, value, at, stored, true);
            if result.valid == 0 {
                self.push_object_error(format!("{} must validate at least one schema (anyOf)", name()));
            }
            matches += result.matches;
            self.errors.extend(result.errors);
        }
        if !schema.one_of.is_empty() {
            let result = self.try_alternatives(&schema.one_of, value, at, stored, false);
            if result.valid != 1 {
                let outcome = match result.valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                self.push_object_error(format!("{} must validate one and only one schema (oneOf). {outcome}", name()));
            }
            if result.valid <= 1 {
                matches += result.matches;
            }
            self.errors.extend(result.errors);
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for branch in &schema.all_of {
                let error_count = self.errors.len();
                matches += self.validate_value(branch, value, at, stored);
                valid += usize::from(self.errors.len() == error_count);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.push_object_error(format!("{} must validate all the schemas (allOf){none}", name()));
            }
        }
        if let Some(not) = &schema.not {
            let error_count = self.errors.len();
            self.validate_value(not, value, at, stored);
            let validates = self.errors.len() == error_count;
            self.errors.truncate(error_count);
            if validates {
                self.push_object_error(format!("{} must not validate the schema (not)", name()));
            }
        }
        matches
    }

    /// Tries each branch. If none is valid, keeps the errors of the branch with the most matches.
    fn try_alternatives(
        &mut self,
        branches: &[Schema],
        value: &Value,
        at: &Path<'_>,
        stored: Option<CorrelatedValue<'_>>,
        first_is_enough: bool,
    ) -> AlternativesResult {
        let mut result = AlternativesResult { valid: 0, matches: 0, errors: Vec::new() };
        let mut failed = false;
        for branch in branches {
            let error_count = self.errors.len();
            let matches = self.validate_value(branch, value, at, stored);
            let errors = self.errors.split_off(error_count);
            if errors.is_empty() {
                if result.valid == 0 {
                    result.matches = matches;
                }
                result.valid += 1;
                result.errors.clear();
                if first_is_enough {
                    break;
                }
            } else if result.valid == 0 && (!failed || matches > result.matches) {
                failed = true;
                result.matches = matches;
                result.errors = errors;
            }
        }
        result
    }

    fn invalid(&mut self, at: &Path<'_>, value: Value, sentence: &str) {
        let detail = format!("{} in body {sentence}", at.name());
        self.push(at, FieldErrorKind::Invalid, Some(value), detail);
    }

    fn push(&mut self, at: &Path<'_>, kind: FieldErrorKind, value: Option<Value>, detail: String) {
        let relative = at.name();
        let error = match (self.base.is_root(), relative.is_empty()) {
            (_, true) => FieldError::new(self.base, kind, value, detail),
            (true, false) => FieldError { path: relative, kind, value, detail, display_value: None },
            (false, false) => FieldError::new(&self.base.child(&relative), kind, value, detail),
        };
        self.errors.push(error);
    }

    /// Records an error that belongs to no field; the API server attaches it to the validated
    /// object.
    fn push_object_error(&mut self, detail: String) {
        self.errors.push(FieldError::invalid(self.base, "", detail));
    }
}

struct AlternativesResult {
    valid: usize,
    matches: usize,
    errors: Vec<FieldError>,
}

/// Returns the stored value of the field `name`. The object's own `kind` and `apiVersion` are
/// converted before they are compared, so they never count as unchanged.
fn stored_field<'a>(at: &Path<'_>, stored: Option<CorrelatedValue<'a>>, name: &str) -> Option<CorrelatedValue<'a>> {
    if at.is_root() && matches!(name, "kind" | "apiVersion") {
        return None;
    }
    stored?.key(name)
}

fn type_names(schema: &Schema) -> &'static str {
    if schema.int_or_string { "integer,string" } else { schema.type_.map_or("", SchemaType::name) }
}

/// Compares a value with an allowed value. Numbers are compared in the number type of the allowed
/// value.
fn same_enum_value(value: &Value, allowed: &Value) -> bool {
    match (value, allowed) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(allowed)) => match (JsonNumber::of(value), JsonNumber::of(allowed)) {
            (JsonNumber::Int(value), JsonNumber::Int(allowed)) => value == allowed,
            (JsonNumber::Float(value), JsonNumber::Int(allowed)) => value as i64 == allowed,
            (value, JsonNumber::Float(allowed)) => value.as_f64().total_cmp(&allowed).is_eq(),
        },
        (value, allowed) => value == allowed,
    }
}
