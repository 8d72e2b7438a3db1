//! `PATCH`: the media type says which of the four kinds it is.

use serde_json::Value;

use super::create::{create_object, place};
use super::prepare::{check_type, decode};
use super::update::{Candidate, check_identity, modify};
use crate::api::apply::apply;
use crate::api::call::Call;
use crate::api::json::{Parsed, parse_json, parse_yaml};
use crate::api::object;
use crate::api::patch::{apply_json_patch, apply_merge_patch, apply_strategic_patch};
use crate::api::respond::Reply;
use crate::api::schema::{self, undeclared};
use crate::api::status::{Answer, Refusal};

/// `PATCH` of an object or of a subresource that has its form.
pub(crate) fn patch(call: &Call<'_>) -> Answer<Reply> {
    let change = read(call)?;
    if let Kind::Apply = change.kind {
        return apply_patch(call, change.patch);
    }
    if call.query.flag("force") {
        return Err(Refusal::invalid_option("PatchOptions", "force", "may not be specified for non-apply patch"));
    }
    modify(call, |old| {
        let shown = call.faced(old);
        let mut object = change.onto(call, &shown)?;
        check_type(call, &mut object)?;
        let warnings = decode(call, &mut object, &change.duplicates)?;
        check_identity(call, &object)?;
        Ok(Candidate { object, warnings, tracked: false })
    })
}

/// A patch as it was sent, to be laid on anything of the resource's form.
pub(crate) struct Sent {
    kind: Kind,
    patch: Value,
    duplicates: Vec<String>,
}

enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Reads the patch in the body of a request.
pub(crate) fn read(call: &Call<'_>) -> Answer<Sent> {
    let kind = match call.media.as_str() {
        "application/json-patch+json" => Kind::Json,
        "application/merge-patch+json" => Kind::Merge,
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => Kind::Strategic,
        "application/apply-patch+yaml" => Kind::Apply,
        _ => {
            let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
            if !call.resource.is_custom() {
                accepted.push("application/strategic-merge-patch+json");
            }
            accepted.push("application/apply-patch+yaml");
            return Err(Refusal::unsupported_media_type(&accepted.join(", ")));
        }
    };
    let parsed = match kind {
        Kind::Apply => parse_yaml(&call.body),
        Kind::Json | Kind::Merge | Kind::Strategic => parse_json(&call.body),
    };
    let Parsed { value: patch, duplicates } =
        parsed.map_err(|problem| Refusal::bad_request(format!("error decoding patch: {problem}")))?;
    Ok(Sent { kind, patch, duplicates })
}

impl Sent {
    /// Lays the patch on `object`. An apply is no such thing.
    pub(crate) fn onto(&self, call: &Call<'_>, object: &Value) -> Answer<Value> {
        let patched = match self.kind {
            Kind::Json => apply_json_patch(object, &self.patch)?,
            Kind::Merge => {
                let mut patched = object.clone();
                apply_merge_patch(&mut patched, self.patch.clone());
                patched
            }
            Kind::Strategic => apply_strategic_patch(&call.resource.schema, object, &self.patch)?,
            Kind::Apply => {
                return Err(Refusal::unsupported_media_type(
                    "application/json-patch+json, application/merge-patch+json",
                ));
            }
        };
        if patched.is_object() { Ok(patched) } else { Err(Refusal::unprocessable()) }
    }
}

/// Server-side apply, which creates what does not exist.
fn apply_patch(call: &Call<'_>, mut wanted: Value) -> Answer<Reply> {
    if call.query.text("fieldManager").is_empty() {
        return Err(Refusal::required_option("PatchOptions", "fieldManager", "is required for apply patch"));
    }
    if !wanted.is_object() {
        return Err(Refusal::bad_request("error decoding YAML: the patch must be an object"));
    }
    check_type(call, &mut wanted)?;
    if object::name(&wanted).is_empty() {
        object::set_meta(&mut wanted, "name", call.name());
    }
    if let Some(namespace) = call.namespace().filter(|_| object::namespace(&wanted).is_empty()) {
        object::set_meta(&mut wanted, "namespace", namespace);
    }
    check_identity(call, &wanted)?;
    let version = call.resource.api_version();
    let writer = call.writer(&version);
    let force = call.query.flag("force");
    read_strictly(call, &mut wanted)?;
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
            return Err(Refusal::conflict(call.resource.subject(), call.name(), &why));
        }
        let mut object = apply(&call.resource.schema, None, &wanted, &writer, force)?;
        let tracked = object::remove(&mut object, &["metadata", "managedFields"]);
        decode(call, &mut object, &[])?;
        place(call, &mut object)?;
        if let Some(tracked) = tracked {
            object::set_meta(&mut object, "managedFields", tracked);
        }
        return create_object(call, object, warnings, true);
    }
    modify(call, |old| {
        let shown = call.faced(old);
        let mut object = apply(&call.resource.schema, Some(&shown), &wanted, &writer, force)?;
        // An applier that names a version insists on it; else the live one's is none of its business.
        if object::text(&wanted, &["metadata", "resourceVersion"]).is_empty() {
            object::remove(&mut object, &["metadata", "resourceVersion"]);
        }
        decode(call, &mut object, &[])?;
        Ok(Candidate { object, warnings: warnings.clone(), tracked: true })
    })
}

/// Brings what is applied into the form of its kind, without defaults: an applier owns what it says and nothing else. Fields that
/// do not exist are always refused, since nobody could own them.
fn read_strictly(call: &Call<'_>, wanted: &mut Value) -> Answer<()> {
    let undeclared: Vec<String> = undeclared(&call.resource.schema, wanted)
        .iter()
        .map(|path| format!(".{path}: field not declared in schema"))
        .collect();
    let problem = match undeclared.as_slice() {
        [] if call.resource.is_custom() => return Ok(()),
        [] => match schema::decode(&call.resource.schema, wanted) {
            Ok(_) => return Ok(()),
            Err(problem) => problem,
        },
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    let (namespace, version) = (call.namespace().unwrap_or_default(), call.resource.api_version());
    let object = format!("{namespace}/{}; {version}, Kind={}", call.name(), call.resource.kind);
    Err(Refusal::server_error(&format!("failed to create typed patch object ({object}): {problem}")))
}
