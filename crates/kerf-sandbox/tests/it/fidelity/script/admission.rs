//! Kerf's definitions, and every admission case of spec 01 section 14: what the specification demands is checked of both servers, and their
//! words are compared.

mod cases;
mod classes;

use serde_json::{Value, json};

use super::Section;
use crate::fidelity::step::{MERGE, SpecExpectation};
use kerf_api::crds::{self, CrdVariant};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Where the objects of a kind are.
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

/// A section under way, with the case that its requests belong to.
pub(super) struct AdmissionCases {
    section: Section,
    serial: usize,
}

impl AdmissionCases {
    fn request(&mut self, case: &str, path: &str, object: &Value, demand: SpecExpectation) {
        self.serial += 1;
        let title = format!("{:03} {case}", self.serial);
        self.section.post(&title, path, object.clone()).spec_expectation = Some(demand);
    }

    /// An object that is taken; nothing of it remains.
    pub(super) fn accepts(&mut self, case: &str, object: &Value) {
        let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object["kind"].as_str().unwrap()));
        self.request(case, &path, object, SpecExpectation::Accepted);
    }

    /// An object that is refused, with this in the message.
    pub(super) fn refuses(&mut self, case: &str, text: &str, object: &Value) {
        let path = format!("{}?dryRun=All", collection(object["kind"].as_str().unwrap()));
        self.request(case, &path, object, SpecExpectation::Refused(text.to_owned()));
    }

    /// An object that stays.
    pub(super) fn creates(&mut self, case: &str, object: &Value) {
        self.request(case, collection(object["kind"].as_str().unwrap()), object, SpecExpectation::Accepted);
    }

    /// A change of an object that is there, in a dry run.
    pub(super) fn changes(&mut self, case: &str, kind: &str, name: &str, change: Value, demand: SpecExpectation) {
        self.serial += 1;
        let path = format!("{}/{name}?dryRun=All", collection(kind));
        self.section.patch(&format!("{:03} {case}", self.serial), &path, MERGE, change).spec_expectation = Some(demand);
    }

    /// A change of an object's status.
    pub(super) fn status(&mut self, case: &str, kind: &str, name: &str, status: Value, demand: SpecExpectation) {
        self.serial += 1;
        let path = format!("{}/{name}/status", collection(kind));
        let title = format!("{:03} {case}", self.serial);
        self.section.patch(&title, &path, MERGE, json!({"status": status})).spec_expectation = Some(demand);
    }
}

/// An object with one field changed: a JSON pointer, whose missing parents are made.
pub(super) fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = object.clone();
    let mut place = &mut changed;
    for name in pointer.trim_start_matches('/').split('/') {
        place = match place {
            Value::Array(elements) => &mut elements[name.parse::<usize>().unwrap()],
            object => &mut object[name.replace("~1", "/")],
        };
    }
    *place = value;
    changed
}

pub(super) fn section() -> Section {
    let mut section = Section::new("admission");
    for definition in crds::all(CrdVariant::Aws) {
        // The server's own word for the whole definition is long and says little; that it takes it says much.
        section
            .post(&format!("the definition of {}", definition.kind()), DEFINITIONS, definition.json().clone())
            .ignore(&["/spec", "/status", "/metadata/annotations"])
            .spec_expectation = Some(SpecExpectation::Accepted);
    }
    for definition in crds::all(CrdVariant::Aws) {
        let path = format!("{}?limit=1", collection(definition.kind()));
        section.get(&format!("{} are served", definition.kind()), &path).until_code(200);
    }
    let mut cases = AdmissionCases { section, serial: 0 };
    cases::nodepools(&mut cases);
    cases::nodeclaims(&mut cases);
    cases::overlays_and_buffers(&mut cases);
    classes::ec2(&mut cases);
    cases.section
}
