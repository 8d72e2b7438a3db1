//! Durations in scenario files, in Kubernetes' notation, such as `90s` or `1h30m`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Schema of a duration.
pub(crate) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration, such as `90s`, `10m` or `1h30m`.",
            "type": "string",
            "pattern": "^(0|([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$",
        })
    }
}

/// Parses a duration. The error has an example.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let parsed: kerf_api::duration::Duration = text
        .parse()
        .map_err(|cause: kerf_api::duration::DurationError| format!("{cause}; write for example 10m or 1h30m"))?;
    parsed.to_std().ok_or_else(|| "must not be negative".to_owned())
}

pub(crate) fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

pub(crate) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    required(from).map(Some)
}
