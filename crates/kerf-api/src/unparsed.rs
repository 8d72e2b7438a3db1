//! Quantities and durations with the exact text of the manifest.
//!
//! Decoding an object and writing it back must not change any byte of its spec. `50000` and `50k`,
//! `1h` and `60m` have equal values, but the API server rejects a NodeClaim whose spec changed, and
//! a GitOps tool reports a NodePool whose spec changed as drifted. Admission also accepts texts
//! without a value (`9999999999h`, a volume size of `Ti`). Such an object must be decodable, so
//! that Kerf can report the field. Therefore these types hold the text, which is parsed only where
//! its value is needed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema::QUANTITY;

/// Quantities by resource name.
pub type Resources = BTreeMap<String, QuantityText>;

/// Unparsed quantity: a JSON integer or a string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum QuantityText {
    /// Quantity given as a JSON number.
    Number(serde_json::Number),
    /// Quantity given as a JSON string.
    Text(String),
}

impl QuantityText {
    /// Returns the text of the quantity, for a number in decimal digits.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Number(number) => Cow::Owned(number.to_string()),
            Self::Text(text) => Cow::Borrowed(text),
        }
    }
}

impl From<&str> for QuantityText {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for QuantityText {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for QuantityText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl JsonSchema for QuantityText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// Unparsed duration: `720h`, `1h30m`, or `Never` where the field allows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct DurationText(pub String);

impl DurationText {
    /// Returns the exact text of the manifest.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for DurationText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 01 #57 (only the text; `nodeclaim` tests the whole object)
    #[test]
    fn texts_survive_a_round_trip() {
        for json in [r#""50000""#, "50000", r#""50k""#, r#""1e1.5""#, r#""+0.50""#] {
            let quantity: QuantityText = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), json);
        }
        let duration: DurationText = serde_json::from_str(r#""9999999999h""#).unwrap();
        assert_eq!(serde_json::to_string(&duration).unwrap(), r#""9999999999h""#);
    }
}
