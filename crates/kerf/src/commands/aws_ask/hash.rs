//! The question `hash` (spec 11 §2.4).

use kerf_api::hash::ec2nodeclass_hash_v5;
use serde_json::{Value, json};

use super::QuestionError;
use super::document::Document;

/// Returns the hash of version `v5`, the only version that Karpenter 1.14.1 knows.
pub(super) fn answer(document: &Document) -> Result<Value, QuestionError> {
    let spec = document.node_class()?.spec.unwrap_or_default();
    let hash = ec2nodeclass_hash_v5(&spec, document.options().ca_bundle()).map_err(QuestionError::other)?;
    Ok(json!({ "hash": hash.to_string(), "version": "v5" }))
}
