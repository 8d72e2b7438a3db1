//! `format.*`: Kubernetes' named formats.

use super::super::super::{format::Format as SchemaFormat, names, text, url};
use super::super::value::{Arguments, EvalResult, Value, no_such_overload};

/// A format by its name, with the function that returns the messages for an invalid text.
pub(in super::super) struct NamedFormat {
    pub(in super::super) name: &'static str,
    problems: fn(&str) -> Vec<String>,
}

impl std::fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn error_unless(holds: bool, sentence: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![sentence.to_owned()] }
}

/// Prepares a name prefix for validation: a trailing dash is allowed, because characters are
/// appended to it.
fn replace_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(head) if !head.is_empty() => {
            let mut cut: String = head.chars().collect();
            cut.pop();
            cut.push('a');
            cut
        }
        _ => prefix.to_owned(),
    }
}

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", problems: names::dns1123_label },
    NamedFormat { name: "dns1123Subdomain", problems: names::dns1123_subdomain },
    NamedFormat { name: "dns1035Label", problems: names::dns1035_label },
    NamedFormat { name: "qualifiedName", problems: names::qualified_name },
    NamedFormat { name: "dns1123LabelPrefix", problems: |text| names::dns1123_label(&replace_trailing_dash(text)) },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        problems: |text| names::dns1123_subdomain(&replace_trailing_dash(text)),
    },
    NamedFormat { name: "dns1035LabelPrefix", problems: |text| names::dns1035_label(&replace_trailing_dash(text)) },
    NamedFormat { name: "labelValue", problems: names::label_value },
    NamedFormat {
        name: "uri",
        problems: |text| {
            error_unless(url::is_request_uri(text), &format!("parse {}: invalid URI for request", text::quote(text)))
        },
    },
    NamedFormat {
        name: "uuid",
        problems: |text| error_unless(SchemaFormat::Uuid.accepts(text), "does not match the UUID format"),
    },
    NamedFormat { name: "byte", problems: |text| error_unless(SchemaFormat::Byte.accepts(text), "invalid base64") },
    NamedFormat { name: "date", problems: |text| error_unless(SchemaFormat::Date.accepts(text), "invalid date") },
    NamedFormat {
        name: "datetime",
        problems: |text| error_unless(SchemaFormat::DateTime.accepts(text), "invalid datetime"),
    },
];

fn by_name<'a>(name: &str) -> Option<Value<'a>> {
    FORMATS.iter().find(|format| format.name == name).map(Value::Format)
}

pub(in super::super) fn named<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(name)] => Ok(by_name(name).map_or(Value::NONE, Value::some)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn validate<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Format(format), Value::String(text)] => {
            let problems = (format.problems)(text);
            if problems.is_empty() {
                return Ok(Value::NONE);
            }
            Ok(Value::some(Value::list(problems.into_iter().map(Value::text).collect())))
        }
        _ => no_such_overload(),
    }
}

macro_rules! constant_formats {
    ($($function:ident => $name:literal),* $(,)?) => {$(
        pub(in super::super) fn $function<'a>(_: Arguments<'a, '_>) -> EvalResult<'a> {
            by_name($name).map_or_else(no_such_overload, Ok)
        }
    )*};
}

constant_formats! {
    dns1123_label => "dns1123Label",
    dns1123_subdomain => "dns1123Subdomain",
    dns1035_label => "dns1035Label",
    qualified_name => "qualifiedName",
    dns1123_label_prefix => "dns1123LabelPrefix",
    dns1123_subdomain_prefix => "dns1123SubdomainPrefix",
    dns1035_label_prefix => "dns1035LabelPrefix",
    label_value => "labelValue",
    uri => "uri",
    uuid => "uuid",
    byte => "byte",
    date => "date",
    datetime => "datetime",
}
