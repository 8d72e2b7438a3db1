//! Kerf's CRDs, and every admission case of spec 01 section 14. Both servers must satisfy the
//! specification, and their messages are compared.

mod cases;
mod classes;

use serde_json::{Value, json};

use super::Section;
use crate::fidelity::step::{MERGE, SpecExpectation};
use kerf_api::crds::{self, CrdVariant};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the path of a kind's collection.
pub(super) fn collection(kind: &str) -> &'static str {
    match kind {
        "NodePool" => "/apis/karpenter.sh/v1/nodepools",
        "NodeClaim" => "/apis/karpenter.sh/v1/nodeclaims",
        "NodeOverlay" => "/apis/karpenter.sh/v1alpha1/nodeoverlays",
        "CapacityBuffer" => "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers",
        "EC2NodeClass" => "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
        "KWOKNodeClass" => "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
        other => panic!("{other}: no such kind"),
    }
}

/// The section with a serial number for its cases.
pub(super) struct AdmissionCases {
    section: Section,
    serial: usize,
}

impl AdmissionCases {
    fn request(&mut self, case: &str, path: &str, object: &Value, expectation: SpecExpectation) {
        self.serial += 1;
        let title = format!("{:03} {case}", self.serial);
        self.section.post(&title, path, object.clone()).spec_expectation = Some(expectation);
    }

    /// Adds a dry run that must be accepted.
    pub(super) fn accepts(&mut self, case: &str, object: &Value) {
        let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object["kind"].as_str().unwrap()));
        self.request(case, &path, object, SpecExpectation::Accepted);
    }

    /// Adds a dry run that must be rejected with this text in the message.
    pub(super) fn rejects(&mut self, case: &str, text: &str, object: &Value) {
        let path = format!("{}?dryRun=All", collection(object["kind"].as_str().unwrap()));
        self.request(case, &path, object, SpecExpectation::Rejected(text.to_owned()));
    }

    /// Adds the creation of an object that later cases use.
    pub(super) fn creates(&mut self, case: &str, object: &Value) {
        self.request(case, collection(object["kind"].as_str().unwrap()), object, SpecExpectation::Accepted);
    }

    /// Adds a dry-run patch of an existing object.
    pub(super) fn changes(&mut self, case: &str, kind: &str, name: &str, change: Value, expectation: SpecExpectation) {
        self.serial += 1;
        let path = format!("{}/{name}?dryRun=All", collection(kind));
        self.section.patch(&format!("{:03} {case}", self.serial), &path, MERGE, change).spec_expectation =
            Some(expectation);
    }

    /// Adds a patch of an object's status.
    pub(super) fn status(&mut self, case: &str, kind: &str, name: &str, status: Value, expectation: SpecExpectation) {
        self.serial += 1;
        let path = format!("{}/{name}/status", collection(kind));
        let title = format!("{:03} {case}", self.serial);
        self.section.patch(&title, &path, MERGE, json!({"status": status})).spec_expectation = Some(expectation);
    }
}

/// Returns a copy of an object with the value at a JSON pointer replaced. Missing parents are
/// created.
pub(super) fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = object.clone();
    let mut target = &mut changed;
    for name in pointer.trim_start_matches('/').split('/') {
        target = match target {
            Value::Array(elements) => &mut elements[name.parse::<usize>().unwrap()],
            object => &mut object[name.replace("~1", "/")],
        };
    }
    *target = value;
    changed
}

pub(super) fn section() -> Section {
    let mut section = Section::new("admission");
    for crd in crds::all(CrdVariant::Aws) {
        // The stored CRD is long and shows little, so only its acceptance is compared.
        section
            .post(&format!("the definition of {}", crd.kind()), DEFINITIONS, crd.json().clone())
            .ignore(&["/spec", "/status", "/metadata/annotations"])
            .spec_expectation = Some(SpecExpectation::Accepted);
    }
    for crd in crds::all(CrdVariant::Aws) {
        let path = format!("{}?limit=1", collection(crd.kind()));
        section.get(&format!("{} are served", crd.kind()), &path).until_code(200);
    }
    let mut cases = AdmissionCases { section, serial: 0 };
    cases::nodepools(&mut cases);
    cases::nodeclaims(&mut cases);
    cases::overlays_and_buffers(&mut cases);
    classes::ec2(&mut cases);
    cases.section
}
