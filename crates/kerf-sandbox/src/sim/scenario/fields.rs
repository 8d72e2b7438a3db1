//! Checks the fields of a scenario file against the JSON schema of the format: which fields there
//! are, of which type, and between which bounds. So the published schema and the reader agree, and
//! messages name fields and values as they are in the file.

use serde_json::{Map, Value};

use super::super::faults::FaultSetting;
use super::{Scenario, ScenarioError};
use crate::durations;
use crate::rates::parse_rate;

/// Number of characters of a value that a message shows.
const SHOWN_VALUE_CHARS: usize = 40;
/// Path of an error of the whole file.
const WHOLE_SCENARIO: &str = "scenario";

/// Returns the errors of all fields, in the order of the file's tree.
pub(super) fn field_errors(tree: &Value) -> Vec<ScenarioError> {
    let root = Scenario::json_schema();
    let mut checker = FieldChecker { root: &root, errors: Vec::new() };
    checker.check(&root, tree, "");
    checker.errors
}

/// Returns the errors of all fields of a change of an AWS account by hand.
pub(super) fn aws_step_errors(tree: &Value) -> Vec<ScenarioError> {
    let root = Scenario::json_schema();
    let mut checker = FieldChecker { root: &root, errors: Vec::new() };
    checker.check(&root["$defs"]["AwsStep"], tree, "");
    // The schema of the whole scenario names an error without a path.
    for error in checker.errors.iter_mut().filter(|error| error.path == WHOLE_SCENARIO) {
        error.path = String::new();
    }
    checker.errors
}

struct FieldChecker<'s> {
    root: &'s Value,
    errors: Vec<ScenarioError>,
}

impl<'s> FieldChecker<'s> {
    fn check(&mut self, schema: &'s Value, value: &Value, path: &str) {
        if let Some(reference) = schema["$ref"].as_str() {
            match reference.strip_prefix("#/$defs/") {
                Some("Duration") => self.check_duration(value, path),
                Some("Share") => self.check_share(value, path),
                Some("Fault") => self.check_fault(&self.root["$defs"]["Fault"], value, path),
                Some(name) => self.check(&self.root["$defs"][name], value, path),
                None => {}
            }
            return;
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.check(part, value, path);
        }
        if let Some(alternatives) = schema["anyOf"].as_array() {
            self.check_alternatives(alternatives, value, path);
            return;
        }
        if let Some(alternatives) = schema["oneOf"].as_array() {
            self.check_choice(&alternatives.iter().map(|choice| &choice["const"]).collect::<Vec<_>>(), value, path);
            return;
        }
        if let Some(choices) = schema["enum"].as_array() {
            self.check_choice(&choices.iter().collect::<Vec<_>>(), value, path);
            return;
        }
        let types = type_names(schema);
        if !types.is_empty() && !types.iter().any(|name| has_type(value, name)) {
            self.add_type_error(&expected_type(schema, self.root), value, path);
            return;
        }
        match value {
            Value::Object(fields) => self.check_object(schema, fields, path),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check(&schema["items"], item, &format!("{path}[{index}]"));
                }
            }
            Value::Number(number) => self.check_bounds(schema, number.as_f64().unwrap_or(f64::NAN), value, path),
            Value::String(text) => {
                if schema["minLength"].as_u64().is_some_and(|min| (text.chars().count() as u64) < min) {
                    self.add_error(path, "must not be empty".to_owned());
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_object(&mut self, schema: &'s Value, fields: &Map<String, Value>, path: &str) {
        let no_fields = Map::new();
        let known = schema["properties"].as_object().unwrap_or(&no_fields);
        let field_path = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                self.add_error(&field_path(name), "is missing".to_owned());
            }
        }
        for (name, value) in fields {
            if let Some(property) = schema["properties"].get(name) {
                self.check(property, value, &field_path(name));
                continue;
            }
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => {
                    let names: Vec<&str> = known.keys().map(String::as_str).collect();
                    let message = format!("there is no such field; the fields are {}", names.join(", "));
                    self.add_error(&field_path(name), message);
                }
                // The keys of a map are free, its values are not.
                Some(of_values @ Value::Object(_)) => self.check(of_values, value, &field_path(name)),
                _ => {}
            }
        }
    }

    /// Checks a value that may have several types, by the alternative of its type.
    fn check_alternatives(&mut self, alternatives: &'s [Value], value: &Value, path: &str) {
        let resolve = |alternative: &'s Value| match alternative["$ref"].as_str() {
            Some(reference) => self.root.pointer(&reference[1..]).unwrap_or(alternative),
            None => alternative,
        };
        let fitting = alternatives.iter().find(|alternative| {
            let types = type_names(resolve(alternative));
            types.iter().any(|name| has_type(value, name))
        });
        if let Some(alternative) = fitting {
            self.check(alternative, value, path);
            return;
        }
        let not_null: Vec<&Value> =
            alternatives.iter().filter(|alternative| type_names(alternative) != ["null"]).collect();
        if let [only] = not_null[..] {
            self.check(only, value, path);
            return;
        }
        let expected: Vec<String> =
            not_null.iter().map(|alternative| expected_type(resolve(alternative), self.root)).collect();
        self.add_type_error(&expected.join(" or "), value, path);
    }

    fn check_choice(&mut self, choices: &[&Value], value: &Value, path: &str) {
        if !choices.contains(&value) {
            let names: Vec<&str> = choices.iter().filter_map(|choice| choice.as_str()).collect();
            self.add_type_error(&format!("one of {}", names.join(", ")), value, path);
        }
    }

    fn check_bounds(&mut self, schema: &Value, number: f64, value: &Value, path: &str) {
        let (min, max) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) {
            return;
        }
        let expected = match (&schema["minimum"], &schema["maximum"]) {
            (Value::Null, max) => format!("at most {max}"),
            (min, Value::Null) => format!("at least {min}"),
            (min, max) => format!("between {min} and {max}"),
        };
        self.add_error(path, format!("must be {expected}, is {value}"));
    }

    fn check_duration(&mut self, value: &Value, path: &str) {
        match value {
            Value::String(text) => {
                if let Err(why) = durations::parse(text) {
                    self.add_error(path, why);
                }
            }
            other => self.add_type_error("a duration, such as 10m or 1h30m", other, path),
        }
    }

    fn check_share(&mut self, value: &Value, path: &str) {
        self.check(&self.root["$defs"]["Share"], value, path);
        if let Some(Err(why)) = value.as_str().map(parse_rate) {
            self.add_error(path, why.trim_start_matches("rate: ").to_owned());
        }
    }

    fn check_fault(&mut self, schema: &'s Value, value: &Value, path: &str) {
        let errors_before = self.errors.len();
        if value.is_object() {
            self.check_alternatives(schema["anyOf"].as_array().map_or(&[], Vec::as_slice), value, path);
        }
        if self.errors.len() == errors_before
            && let Err(why) = FaultSetting::from_tree(value)
        {
            self.add_error(path, why);
        }
    }

    fn add_type_error(&mut self, expected: &str, value: &Value, path: &str) {
        self.add_error(path, format!("must be {expected}, is {}", described(value)));
    }

    fn add_error(&mut self, path: &str, why: String) {
        let path = if path.is_empty() { WHOLE_SCENARIO } else { path };
        self.errors.push(ScenarioError { line: None, path: path.to_owned(), why });
    }
}

/// Returns the names of the types that a schema allows. An empty list allows every type.
fn type_names(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}

/// Returns what a schema expects, in the words of YAML.
fn expected_type(schema: &Value, root: &Value) -> String {
    let name = type_names(schema).into_iter().find(|name| *name != "null");
    let text = match name {
        Some("object") => "an object with fields",
        Some("array") => {
            let items = &schema["items"];
            let item = items["$ref"].as_str().and_then(|reference| root.pointer(&reference[1..])).unwrap_or(items);
            match type_names(item).first() {
                Some(&"object") => "a list of objects",
                Some(&"string") => "a list of texts",
                _ => "a list",
            }
        }
        Some("string") => "a text",
        Some("boolean") => "true or false",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        Some(_) | None => "another value",
    };
    text.to_owned()
}

/// Returns the type of a value, with the value itself if it is short.
fn described(value: &Value) -> String {
    match value {
        Value::Null => "empty".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {}", shortened(&Value::from(text.as_str()).to_string())),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN_VALUE_CHARS {
        return text.to_owned();
    }
    text.chars().take(SHOWN_VALUE_CHARS).chain("...".chars()).collect()
}
