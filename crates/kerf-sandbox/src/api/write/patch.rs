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
    let change = read_patch(call)?;
    if let PatchType::Apply = change.kind {
        return server_side_apply(call, change.patch);
    }
    if call.query.flag("force") {
        return Err(StatusError::invalid_option("PatchOptions", "force", "may not be specified for non-apply patch"));
    }
    if change.ignores_managed_fields() {
        let unfit = Cell::new(false);
        let outcome = apply_to_stored(call, &change, ManagedFieldsView::Excluded, &unfit);
        if !unfit.get() {
            return outcome;
        }
        // The error message contains the patched object, so it is patched again with its managed
        // fields.
    }
    apply_to_stored(call, &change, ManagedFieldsView::Included, &Cell::new(false))
}

/// Applies a patch to the stored object. Sets `unfit` if the result is rejected before it is
/// prepared.
fn apply_to_stored(
    call: &Call<'_>,
    change: &ReceivedPatch,
    sight: ManagedFieldsView,
    unfit: &Cell<bool>,
) -> ApiResult<Reply> {
    modify(call, sight, |old| {
        let shown = call.to_served_form(old);
        let mut object = change.apply_to(call, &shown)?;
        let refuse = |refusal: StatusError| {
            unfit.set(true);
            match change.apply_to(call, &shown) {
                Ok(patched) => refusal.into_patch_error(&patched),
                Err(refusal) => refusal,
            }
        };
        check_and_set_type(call, &mut object).map_err(refuse)?;
        // Objects that are served in another form than the stored one are decoded completely.
        let read = matches!(shown, Cow::Borrowed(_)).then_some(old);
        let warnings = decode_and_default(call, &mut object, read, &change.duplicates).map_err(refuse)?;
        check_metadata(call, &object, read).map_err(refuse)?;
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
fn server_side_apply(call: &Call<'_>, mut wanted: Value) -> ApiResult<Reply> {
    if call.query.text("fieldManager").is_empty() {
        return Err(StatusError::required_option("PatchOptions", "fieldManager", "is required for apply patch"));
    }
    if !wanted.is_object() {
        return Err(StatusError::bad_request("error decoding YAML: the patch must be an object"));
    }
    let (version, kind) = (object::text(&wanted, &["apiVersion"]), object::text(&wanted, &["kind"]));
    if version != call.resource.api_version() || kind != call.resource.kind {
        return Err(StatusError::bad_request(format!("invalid object type: {}, Kind={kind}", slashed(version))));
    }
    let told = format!("({}/{}; {}, Kind={kind})", object::namespace(&wanted), object::name(&wanted), slashed(version));
    if object::name(&wanted).is_empty() {
        object::set_meta(&mut wanted, "name", call.name());
    }
    if let Some(namespace) = call.namespace().filter(|_| object::namespace(&wanted).is_empty()) {
        object::set_meta(&mut wanted, "namespace", namespace);
    }
    check_identity(call, &wanted)?;
    let version = call.resource.api_version();
    let writer = call.field_manager(&version);
    let force = call.query.flag("force");
    decode_strictly(call, &told, &mut wanted)?;
    let warnings = Vec::new();

    if call.server.storage.get(call.resource.table, &call.key()).is_none() {
        if !call.subresource().is_empty() {
            return Err(call.not_found());
        }
        if !object::uid(&wanted).is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object::uid(&wanted)
            );
            return Err(StatusError::conflict(call.resource.group_resource(), call.name(), &why));
        }
        let mut object = apply(&call.resource.schema, None, &wanted, &writer, force)?;
        let tracked = object::remove(&mut object, &["metadata", "managedFields"]);
        decode_and_default(call, &mut object, None, &[])?;
        initialize_metadata(call, &mut object)?;
        if let Some(tracked) = tracked {
            object::set_meta(&mut object, "managedFields", tracked);
        }
        return create_object(call, object, warnings, true);
    }
    modify(call, ManagedFieldsView::Included, |old| {
        let shown = call.to_served_form(old);
        let mut object = apply(&call.resource.schema, Some(&shown), &wanted, &writer, force)?;
        // Only a version that the applier itself states is a precondition.
        if object::text(&wanted, &["metadata", "resourceVersion"]).is_empty() {
            object::remove(&mut object, &["metadata", "resourceVersion"]);
        }
        decode_and_default(call, &mut object, None, &[])?;
        Ok(ProposedObject { object, warnings: warnings.clone(), has_final_ownership: true })
    })
}

/// Decodes an applied configuration without setting defaults: an applier owns only the fields that
/// it states. Unknown fields are always rejected, because no manager could own them.
fn decode_strictly(call: &Call<'_>, told: &str, wanted: &mut Value) -> ApiResult<()> {
    let problem = match schema_mismatches(&call.resource.schema, wanted).as_slice() {
        [] if call.resource.is_custom() => return Ok(()),
        [] => match schema::decode(&call.resource.schema, wanted) {
            Ok(_) => return Ok(()),
            Err(problem) => problem,
        },
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(StatusError::server_error(&format!("failed to create typed patch object {told}: {problem}")))
}

/// Formats a version as Go prints it. The core group is empty, so its version begins with a slash.
fn slashed(version: &str) -> String {
    if version.contains('/') { version.to_owned() } else { format!("/{version}") }
}
