//! A request as data: what is sent, what is kept of the answer, and what is compared. A script is a list of these, in order, and knows
//! nothing of the server that it is put to.

use serde_json::Value;

pub(super) const JSON: &str = "application/json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// One request.
#[derive(Clone, Debug)]
pub(super) struct RequestStep {
    /// What tells it from all others: `section: title`.
    pub(super) id: String,
    pub(super) method: &'static str,
    /// With `{name}` for what an earlier step kept.
    pub(super) path: String,
    pub(super) content: String,
    pub(super) accept: String,
    pub(super) body: String,
    /// What to keep of the answer for later steps: a name, and a JSON pointer.
    pub(super) captures: Vec<(&'static str, &'static str)>,
    pub(super) until: Option<Until>,
    /// Whether who manages which field is compared too.
    pub(super) compares_managed_fields: bool,
    /// What is left out of the comparison, as JSON pointers.
    pub(super) ignored_pointers: Vec<&'static str>,
    /// What any server must say, where a specification fixes it.
    pub(super) spec_expectation: Option<SpecExpectation>,
}

/// When an answer that takes a while is there: it is asked for again until then.
#[derive(Clone, Debug)]
pub(super) enum Until {
    Code(u16),
    Field(&'static str, Value),
}

/// What the specification of the API says about an answer.
#[derive(Clone, Debug)]
pub(super) enum SpecExpectation {
    Accepted,
    /// Refused as invalid, with this text somewhere in the message.
    Refused(String),
}

impl RequestStep {
    pub(super) fn capture(&mut self, name: &'static str, pointer: &'static str) -> &mut Self {
        self.captures.push((name, pointer));
        self
    }

    pub(super) fn compare_managed_fields(&mut self) -> &mut Self {
        self.compares_managed_fields = true;
        self
    }

    pub(super) fn ignore(&mut self, pointers: &[&'static str]) -> &mut Self {
        self.ignored_pointers.extend(pointers);
        self
    }

    pub(super) fn accept(&mut self, media: &str) -> &mut Self {
        media.clone_into(&mut self.accept);
        self
    }

    pub(super) fn content(&mut self, media: &str) -> &mut Self {
        media.clone_into(&mut self.content);
        self
    }

    pub(super) fn text(&mut self, body: &str) -> &mut Self {
        body.clone_into(&mut self.body);
        self
    }

    pub(super) fn until_code(&mut self, code: u16) -> &mut Self {
        self.until = Some(Until::Code(code));
        self
    }

    pub(super) fn until(&mut self, pointer: &'static str, value: impl Into<Value>) -> &mut Self {
        self.until = Some(Until::Field(pointer, value.into()));
        self
    }
}

/// Steps under one name, with short ways to write them.
#[derive(Debug)]
pub(super) struct Section {
    name: &'static str,
    pub(super) steps: Vec<RequestStep>,
}

impl Section {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, steps: Vec::new() }
    }

    pub(super) fn step(
        &mut self,
        title: &str,
        method: &'static str,
        path: &str,
        media: &str,
        body: &Value,
    ) -> &mut RequestStep {
        self.steps.push(RequestStep {
            id: format!("{}: {title}", self.name),
            method,
            path: path.to_owned(),
            content: media.to_owned(),
            accept: JSON.to_owned(),
            body: if body.is_null() { String::new() } else { body.to_string() },
            captures: Vec::new(),
            until: None,
            compares_managed_fields: false,
            ignored_pointers: Vec::new(),
            spec_expectation: None,
        });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    pub(super) fn get(&mut self, title: &str, path: &str) -> &mut RequestStep {
        self.step(title, "GET", path, JSON, &Value::Null)
    }

    pub(super) fn post(&mut self, title: &str, path: &str, body: Value) -> &mut RequestStep {
        self.step(title, "POST", path, JSON, &body)
    }

    pub(super) fn put(&mut self, title: &str, path: &str, body: Value) -> &mut RequestStep {
        self.step(title, "PUT", path, JSON, &body)
    }

    pub(super) fn patch(&mut self, title: &str, path: &str, media: &str, body: Value) -> &mut RequestStep {
        self.step(title, "PATCH", path, media, &body)
    }

    /// Server-side apply; the path names the manager.
    pub(super) fn apply(&mut self, title: &str, path: &str, body: Value) -> &mut RequestStep {
        self.step(title, "PATCH", path, APPLY, &body).compare_managed_fields()
    }

    pub(super) fn delete(&mut self, title: &str, path: &str, options: Value) -> &mut RequestStep {
        self.step(title, "DELETE", path, JSON, &options)
    }

    /// A namespace of the section's own, ready for pods.
    pub(super) fn namespace(&mut self, name: &str) {
        self.post("its namespace", "/api/v1/namespaces", serde_json::json!({"metadata": {"name": name}}));
        self.get("its service account", &format!("/api/v1/namespaces/{name}/serviceaccounts/default")).until_code(200);
    }
}
