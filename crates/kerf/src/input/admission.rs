//! Admission of the kinds of Kerf's CRDs, as an API server with these CRDs does it: unknown fields
//! are pruned with a warning, defaults are set, schema and rules are checked. Objects are read as a
//! cluster stores them, status included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kerf_api::admission::{
    AdmissionRejection, CustomResource, FieldValidation, MalformedObject, Operation, RULES_UNCHECKED,
};
use kerf_api::crds::{self, CrdVariant};
use kerf_api::kind::CustomKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decode::{FieldProblem, decode_tree};
use super::documents::ObjectBody;
use super::objects::{ReadObject, ReadResult, RejectedObject};
use crate::program::{AWS_GROUP, KWOK_GROUP};

/// Compiled CRDs of each kind that this process has read, by name of the kind. Entries are never
/// changed after insertion.
static COMPILED_CRDS: Mutex<BTreeMap<&'static str, Arc<KindAdmission>>> = Mutex::new(BTreeMap::new());

/// The two CRD variants of one kind. Each is compiled when the first object needs it, because
/// compiling takes longer than a small plan.
pub(super) struct KindAdmission {
    kwok: LazyLock<CustomResource>,
    aws: LazyLock<CustomResource>,
}

impl KindAdmission {
    /// Returns the CRDs of kind `K`, shared by the whole process.
    pub(super) fn of<K: CustomKind>() -> Arc<Self> {
        let mut compiled = COMPILED_CRDS.lock().unwrap_or_else(PoisonError::into_inner);
        let compile_lazily = || Self {
            kwok: LazyLock::new(|| compile_crd::<K>(CrdVariant::Kwok)),
            aws: LazyLock::new(|| compile_crd::<K>(CrdVariant::Aws)),
        };
        compiled.entry(K::KIND).or_insert_with(|| Arc::new(compile_lazily())).clone()
    }

    /// Admits an object. The error lists every problem. The CRD variant follows from the group of
    /// the object's node class; for an object without one it is `default_variant`.
    pub(super) fn admit<K: CustomKind + DeserializeOwned>(
        &self,
        body: &ObjectBody<'_>,
        default_variant: CrdVariant,
    ) -> ReadResult<K> {
        let tree = tree_with_kind::<K>(body)?;
        let crd = match (node_class_group(&tree), default_variant) {
            (Some(AWS_GROUP), _) | (None, CrdVariant::Aws) => &self.aws,
            (Some(_), _) | (None, CrdVariant::Kwok) => &self.kwok,
        };
        match crd.admit(K::VERSION, Operation::Snapshot, tree, FieldValidation::Warn) {
            Ok(admitted) => {
                let object = decode_tree(admitted.object)?;
                Ok(ReadObject { object, warnings: admitted.warnings })
            }
            Err(AdmissionRejection::Invalid(errors)) => {
                let mut warnings = unknown_fields(crd, K::VERSION, tree_with_kind::<K>(body)?);
                // The API server may report an error twice; list it once.
                let mut seen = BTreeSet::new();
                let mut problems = Vec::new();
                for error in &errors {
                    if error.detail == RULES_UNCHECKED {
                        warnings.push(error.detail.clone());
                    } else if seen.insert(error.to_string()) {
                        problems.push(FieldProblem { path: String::new(), message: error.to_string() });
                    }
                }
                Err(RejectedObject { problems, warnings })
            }
            Err(AdmissionRejection::Malformed(malformed)) => {
                Err(vec![FieldProblem { path: String::new(), message: malformed.to_string() }].into())
            }
        }
    }
}

/// Returns the object as a tree with `apiVersion` and `kind`, which items of a typed list do not
/// repeat.
fn tree_with_kind<K: CustomKind>(body: &ObjectBody<'_>) -> Result<Value, Vec<FieldProblem>> {
    let mut tree = body.tree().map_err(|problem| vec![problem])?;
    if let Some(fields) = tree.as_object_mut() {
        fields.insert("apiVersion".to_owned(), K::API_VERSION.into());
        fields.insert("kind".to_owned(), K::KIND.into());
    }
    Ok(tree)
}

/// Returns the fields that the CRD does not declare, for an object that it rejects for other
/// reasons: strict field validation lists them.
fn unknown_fields(crd: &CustomResource, version: &str, tree: Value) -> Vec<String> {
    match crd.admit(version, Operation::Snapshot, tree, FieldValidation::Strict) {
        Err(AdmissionRejection::Malformed(MalformedObject::UnknownFields(fields))) => fields,
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn compile_crd<K: CustomKind>(variant: CrdVariant) -> CustomResource {
    CustomResource::compile(crds::of::<K>(variant).json()).expect("tests of kerf-api compile every CRD")
}

/// Returns the group of the node class to which an object refers, or its own group if it is a node
/// class.
pub(super) fn node_class_group(tree: &Value) -> Option<&str> {
    let spec = &tree["spec"];
    let referenced =
        [&spec["nodeClassRef"], &spec["template"]["spec"]["nodeClassRef"]].map(|class| class["group"].as_str());
    let own_group = tree["apiVersion"].as_str().and_then(|version| version.split('/').next());
    referenced.into_iter().flatten().next().or(own_group.filter(|group| [AWS_GROUP, KWOK_GROUP].contains(group)))
}
