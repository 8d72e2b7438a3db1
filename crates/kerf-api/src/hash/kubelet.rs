//! Serializes the kubelet configuration for hashing: JSON as Go writes it.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

/// Returns compact JSON with sorted keys and Go's escapes. Returns `null` if the configuration is
/// absent or empty.
pub(super) fn canonical_json(kubelet: Option<&Map<String, Value>>) -> String {
    let mut json = String::new();
    match kubelet {
        Some(kubelet) if !kubelet.is_empty() => write_object(kubelet, &mut json),
        _ => json.push_str("null"),
    }
    json
}

fn write_value(value: &Value, json: &mut String) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(flag) => json.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(number, json),
        Value::String(text) => write_text(text, json),
        Value::Array(items) => {
            json.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    json.push(',');
                }
                write_value(item, json);
            }
            json.push(']');
        }
        Value::Object(object) => write_object(object, json),
    }
}

fn write_object(object: &Map<String, Value>, json: &mut String) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    json.push('{');
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        write_text(key, json);
        json.push(':');
        write_value(value, json);
    }
    json.push('}');
}

fn write_text(text: &str, json: &mut String) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                push(json, format_args!("\\u{:04x}", u32::from(c)));
            }
            _ => json.push(c),
        }
    }
    json.push('"');
}

/// Writes integers without a decimal point, and other numbers in the shortest form, with an
/// exponent where Go uses one.
fn write_number(number: &Number, json: &mut String) {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => {
            let text = format!("{float:e}");
            json.push_str(&if float.abs() >= 1e21 { text.replace('e', "e+") } else { text });
        }
        Some(float) => push(json, format_args!("{float}")),
        None => push(json, format_args!("{number}")),
    }
}

fn push(json: &mut String, text: std::fmt::Arguments<'_>) {
    json.write_fmt(text).expect("writing to a String does not fail");
}
