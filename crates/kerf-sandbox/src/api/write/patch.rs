//! `PATCH` requests. The media type states which of the four patch formats it is.

use std::borrow::Cow;
use std::cell::Cell;

use serde_json::Value;

use super::create::{create_object, initialize_metadata};
use super::prepare::{check_and_set_type, check_metadata, decode_and_default};
use super::update::{ManagedFieldsView, ProposedObject, check_identity, check_names_version, modify};
use crate::api::apply::apply;
use crate::api::call::Call;
use crate::api::field;
use crate::api::json::{Parsed, parse_json, parse_yaml};
use crate::api::object;
use crate::api::patch::{apply_json_patch, apply_merge_patch, apply_strategic_patch};
use crate::api::respond::Reply;
use crate::api::schema::{self, schema_mismatches};
use crate::api::status::{ApiResult, StatusError};

/// Handles `PATCH` of an object or of a subresource with the object's form.
pub(crate) fn patch(call: &Call<'_>) -> ApiResult<Reply> {
    let received = read_patch(call)?;
    if let PatchType::Apply = received.kind {
        return server_side_apply(call, received.patch);
    }
    if call.query.flag("force") {
        return Err(StatusError::invalid_option("PatchOptions", "force", "may not be specified for non-apply patch"));
    }
    if received.ignores_managed_fields() {
        let is_rejected_early = Cell::new(false);
        let outcome = apply_to_stored(call, &received, ManagedFieldsView::Excluded, &is_rejected_early);
        if !is_rejected_early.get() {
            return outcome;
        }
        // The error message contains the patched object, so it is patched again with its managed
        // fields.
    }
    apply_to_stored(call, &received, ManagedFieldsView::Included, &Cell::new(false))
}

/// Applies a patch to the stored object. Sets `is_rejected_early` if the result is rejected before
/// it is prepared.
fn apply_to_stored(
    call: &Call<'_>,
    received: &ReceivedPatch,
    view: ManagedFieldsView,
    is_rejected_early: &Cell<bool>,
) -> ApiResult<Reply> {
    modify(call, view, |old| {
        let served = call.to_served_form(old);
        let mut object = received.apply_to(call, &served)?;
        let to_patch_error = |error: StatusError| {
            is_rejected_early.set(true);
            match received.apply_to(call, &served) {
                Ok(patched) => error.into_patch_error(&patched),
                Err(error) => error,
            }
        };
        check_and_set_type(call, &mut object).map_err(to_patch_error)?;
        // Objects that are served in another form than the stored one are decoded completely.
        let decoded = matches!(served, Cow::Borrowed(_)).then_some(old);
        let warnings = decode_and_default(call, &mut object, decoded, &received.duplicates).map_err(to_patch_error)?;
        check_metadata(call, &object, decoded).map_err(to_patch_error)?;
        check_identity(call, &object)?;
        check_uid_unchanged(call, &object, old)?;
        check_names_version(call, &object)?;
        Ok(ProposedObject { object, warnings, has_final_ownership: false })
    })
}

/// Returns an error if the patch changes the uid.
fn check_uid_unchanged(call: &Call<'_>, object: &Value, old: &Value) -> ApiResult<()> {
    let uid = object::uid(object);
    if uid.is_empty() || uid == object::uid(old) {
        return Ok(());
    }
    // The real server finds this error twice and prints it once.
    let errors = [0, 1].map(|_| field::invalid("metadata.uid", uid, "field is immutable"));
    Err(StatusError::invalid(&call.resource.group, &call.resource.kind, call.name(), &errors))
}

/// A patch of any of the four formats, with the duplicate keys of its body.
pub(crate) struct ReceivedPatch {
    kind: PatchType,
    patch: Value,
    duplicates: Vec<String>,
}

enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Parses the patch in the body of a request.
pub(crate) fn read_patch(call: &Call<'_>) -> ApiResult<ReceivedPatch> {
    let kind = match call.content_type.as_str() {
        "application/json-patch+json" => PatchType::Json,
        "application/merge-patch+json" => PatchType::Merge,
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => PatchType::Strategic,
        "application/apply-patch+yaml" => PatchType::Apply,
        _ if call.resource.is_custom() => {
            return Err(StatusError::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        _ => return Err(StatusError::unsupported_patch()),
    };
    let parsed = match kind {
        PatchType::Apply => parse_yaml(&call.body),
        PatchType::Json | PatchType::Merge | PatchType::Strategic => parse_json(&call.body),
    };
    let Parsed { value: patch, duplicates } = parsed.map_err(|problem| match kind {
        PatchType::Strategic => StatusError::bad_request(problem),
        PatchType::Apply => StatusError::bad_request(format!("error decoding YAML: {problem}")),
        PatchType::Json | PatchType::Merge => StatusError::bad_request(format!("error decoding patch: {problem}")),
    })?;
    Ok(ReceivedPatch { kind, patch, duplicates })
}

impl ReceivedPatch {
    /// Returns true if the patch neither reads nor writes managed fields.
    fn ignores_managed_fields(&self) -> bool {
        match self.kind {
            PatchType::Json | PatchType::Apply => false,
            PatchType::Merge | PatchType::Strategic => match self.patch.get("metadata") {
                None => true,
                // Directives may concern any field.
                Some(Value::Object(metadata)) => {
                    !metadata.keys().any(|key| key == "managedFields" || key.starts_with('$'))
                }
                Some(_) => false,
            },
        }
    }

    /// Returns the keys that occur more than once in the patch.
    pub(crate) fn duplicates(&self) -> &[String] {
        &self.duplicates
    }

    /// Applies the patch to `object`. Server-side apply is not supported here.
    pub(crate) fn apply_to(&self, call: &Call<'_>, object: &Value) -> ApiResult<Value> {
        let patched = match self.kind {
            PatchType::Json => apply_json_patch(object, &self.patch)?,
            PatchType::Merge => {
                if !self.patch.is_object() {
                    let message = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
                    return Err(StatusError::bad_request(message));
                }
                let mut patched = object.clone();
                apply_merge_patch(&mut patched, self.patch.clone());
                patched
            }
            PatchType::Strategic => apply_strategic_patch(&call.resource.schema, object.clone(), &self.patch)?,
            PatchType::Apply => {
                return Err(StatusError::unsupported_patch());
            }
        };
        if patched.is_object() { Ok(patched) } else { Err(StatusError::unprocessable()) }
    }
}

/// Handles server-side apply, which creates objects that do not exist.
fn server_side_apply(call: &Call<'_>, mut applied: Value) -> ApiResult<Reply> {
    if call.query.text("fieldManager").is_empty() {
        return Err(StatusError::required_option("PatchOptions", "fieldManager", "is required for apply patch"));
    }
    if !applied.is_object() {
        return Err(StatusError::bad_request("error decoding YAML: the patch must be an object"));
    }
    let (version, kind) = (object::text(&applied, &["apiVersion"]), object::text(&applied, &["kind"]));
    if version != call.resource.api_version() || kind != call.resource.kind {
        return Err(StatusError::bad_request(format!("invalid object type: {}, Kind={kind}", slashed(version))));
    }
    let object_text =
        format!("({}/{}; {}, Kind={kind})", object::namespace(&applied), object::name(&applied), slashed(version));
    if object::name(&applied).is_empty() {
        object::set_meta(&mut applied, "name", call.name());
    }
    if let Some(namespace) = call.namespace().filter(|_| object::namespace(&applied).is_empty()) {
        object::set_meta(&mut applied, "namespace", namespace);
    }
    check_identity(call, &applied)?;
    let version = call.resource.api_version();
    let writer = call.field_manager(&version);
    let force = call.query.flag("force");
    decode_strictly(call, &object_text, &mut applied)?;
    let warnings = Vec::new();

    if call.server.storage.get(call.resource.table, &call.key()).is_none() {
        if !call.subresource().is_empty() {
            return Err(call.not_found());
        }
        if !object::uid(&applied).is_empty() {
            let reason = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object::uid(&applied)
            );
            return Err(StatusError::conflict(call.resource.group_resource(), call.name(), &reason));
        }
        let mut object = apply(&call.resource.schema, None, &applied, &writer, force)?;
        let managed_fields = object::remove(&mut object, &["metadata", "managedFields"]);
        decode_and_default(call, &mut object, None, &[])?;
        initialize_metadata(call, &mut object)?;
        if let Some(managed_fields) = managed_fields {
            object::set_meta(&mut object, "managedFields", managed_fields);
        }
        return create_object(call, object, warnings, true);
    }
    modify(call, ManagedFieldsView::Included, |old| {
        let served = call.to_served_form(old);
        let mut object = apply(&call.resource.schema, Some(&served), &applied, &writer, force)?;
        // Only a version that the applier itself states is a precondition.
        if object::text(&applied, &["metadata", "resourceVersion"]).is_empty() {
            object::remove(&mut object, &["metadata", "resourceVersion"]);
        }
        decode_and_default(call, &mut object, None, &[])?;
        Ok(ProposedObject { object, warnings: warnings.clone(), has_final_ownership: true })
    })
}

/// Decodes an applied configuration without setting defaults: an applier owns only the fields that
/// it states. Unknown fields are always rejected, because no manager could own them.
fn decode_strictly(call: &Call<'_>, object_text: &str, applied: &mut Value) -> ApiResult<()> {
    let problem = match schema_mismatches(&call.resource.schema, applied).as_slice() {
        [] if call.resource.is_custom() => return Ok(()),
        [] => match schema::decode(&call.resource.schema, applied) {
            Ok(_) => return Ok(()),
            Err(problem) => problem,
        },
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(StatusError::server_error(&format!("failed to create typed patch object {object_text}: {problem}")))
}

/// Formats a version as Go prints it. The core group is empty, so its version begins with a slash.
fn slashed(version: &str) -> String {
    if version.contains('/') { version.to_owned() } else { format!("/{version}") }
}
