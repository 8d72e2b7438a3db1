//! A request as data: the request itself, the values that later steps use, and the extent of the
//! comparison. A script is a list of steps, in order, and is independent of the server.

use serde_json::Value;

pub(super) const JSON: &str = "application/json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// One request of the script.
#[derive(Clone, Debug)]
pub(super) struct RequestStep {
    /// Unique name: `section: title`.
    pub(super) id: String,
    pub(super) method: &'static str,
    /// Path of the request, with `{name}` for a value that an earlier step captured.
    pub(super) path: String,
    pub(super) content: String,
    pub(super) accept: String,
    pub(super) body: String,
    /// Values of the response that later steps use, each as a name and a JSON pointer.
    pub(super) captures: Vec<(&'static str, &'static str)>,
    pub(super) until: Option<Until>,
    /// True if the managed fields are compared, too.
    pub(super) compares_managed_fields: bool,
    /// JSON pointers to values that are not compared.
    pub(super) ignored_pointers: Vec<&'static str>,
    /// The response that a specification demands of any server; `None` if it demands nothing.
    pub(super) spec_expectation: Option<SpecExpectation>,
}

/// Condition on a response that takes a while. The request is repeated until it holds.
#[derive(Clone, Debug)]
pub(super) enum Until {
    Code(u16),
    Field(&'static str, Value),
}

/// The result that the specification of the API demands.
#[derive(Clone, Debug)]
pub(super) enum SpecExpectation {
    Accepted,
    /// Rejected as invalid, with a message that contains this text.
    Rejected(String),
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

/// The steps of one section, with short methods to add steps.
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

    /// Adds a server-side apply. The path names the field manager.
    pub(super) fn apply(&mut self, title: &str, path: &str, body: Value) -> &mut RequestStep {
        self.step(title, "PATCH", path, APPLY, &body).compare_managed_fields()
    }

    pub(super) fn delete(&mut self, title: &str, path: &str, options: Value) -> &mut RequestStep {
        self.step(title, "DELETE", path, JSON, &options)
    }

    /// Creates a namespace for the section and waits until pods can be created there.
    pub(super) fn namespace(&mut self, name: &str) {
        self.post("its namespace", "/api/v1/namespaces", serde_json::json!({"metadata": {"name": name}}));
        self.get("its service account", &format!("/api/v1/namespaces/{name}/serviceaccounts/default")).until_code(200);
    }
}
