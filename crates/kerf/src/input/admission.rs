//! The kinds of Karpenter's API pass the same admission that an API server with Kerf's CRDs would put them through: unknown fields
//! are pruned with a warning, defaults filled in, schema and rules checked. An object is read as a cluster holds it, status included.

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

/// The group whose node classes are AWS's.
const AWS_GROUP: &str = "karpenter.k8s.aws";

/// The group whose node classes are the simulated provider's.
pub(super) const KWOK_GROUP: &str = "karpenter.kwok.sh";

/// The CRDs of each kind that was read in this process. Entries are whole when they are put in.
static COMPILED_CRDS: Mutex<BTreeMap<&'static str, Arc<KindAdmission>>> = Mutex::new(BTreeMap::new());

/// The CRDs of one kind by whose labels they guard, compiled when the first object needs them: that takes longer than a small plan.
pub(super) struct KindAdmission {
    kwok: LazyLock<CustomResource>,
    aws: LazyLock<CustomResource>,
}

impl KindAdmission {
    /// The CRDs of a kind.
    pub(super) fn of<K: CustomKind>() -> Arc<Self> {
        let mut known = COMPILED_CRDS.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Self {
            kwok: LazyLock::new(|| compile_crd::<K>(CrdVariant::Kwok)),
            aws: LazyLock::new(|| compile_crd::<K>(CrdVariant::Aws)),
        };
        known.entry(K::KIND).or_insert_with(|| Arc::new(make())).clone()
    }

    /// Admits an object, or says everything that is wrong with it. An object that names no node class is judged by the flavour.
    pub(super) fn admit<K: CustomKind + DeserializeOwned>(
        &self,
        body: &ObjectBody<'_>,
        unsaid: CrdVariant,
    ) -> ReadResult<K> {
        let tree = tree_with_kind::<K>(body)?;
        let crd = match (node_class_group(&tree), unsaid) {
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
                // The API server may say the same twice; once is enough for a person.
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

/// The object as a tree. An item of a typed list does not repeat what it is; that was known before.
fn tree_with_kind<K: CustomKind>(body: &ObjectBody<'_>) -> Result<Value, Vec<FieldProblem>> {
    let mut tree = body.tree().map_err(|problem| vec![problem])?;
    if let Some(fields) = tree.as_object_mut() {
        fields.insert("apiVersion".to_owned(), K::API_VERSION.into());
        fields.insert("kind".to_owned(), K::KIND.into());
    }
    Ok(tree)
}

/// The fields that a CRD does not know, of an object that it refuses for other reasons: asked to be strict, it names them.
fn unknown_fields(crd: &CustomResource, version: &str, tree: Value) -> Vec<String> {
    match crd.admit(version, Operation::Snapshot, tree, FieldValidation::Strict) {
        Err(AdmissionRejection::Malformed(MalformedObject::UnknownFields(fields))) => fields,
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn compile_crd<K: CustomKind>(flavour: CrdVariant) -> CustomResource {
    CustomResource::compile(crds::of::<K>(flavour).json()).expect("tests of kerf-api compile every CRD")
}

/// The group of the node class that an object names, or is.
pub(super) fn node_class_group(tree: &Value) -> Option<&str> {
    let spec = &tree["spec"];
    let named = [&spec["nodeClassRef"], &spec["template"]["spec"]["nodeClassRef"]].map(|class| class["group"].as_str());
    let own = tree["apiVersion"].as_str().and_then(|version| version.split('/').next());
    named.into_iter().flatten().next().or(own.filter(|group| [AWS_GROUP, KWOK_GROUP].contains(group)))
}
