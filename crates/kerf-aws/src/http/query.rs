//! Parameters of the query protocols of EC2, IAM and STS: a form with names such as
//! `Filter.1.Value.2`, read as a tree.
//!
//! Readers take what they read out of the tree and collect all problems. What is left at the end is
//! unknown, and an error.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::str::FromStr;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;

use crate::memory::AwsFailure;

/// Largest number of parts of a parameter's name. The longest of EC2 has eight.
const DEPTH_MAX: usize = 16;

/// Largest number of problems that an error names.
const PROBLEMS_MAX: usize = 10;

/// The parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    root: ParameterNode,
}

/// A part of the tree: a value, or parameters with longer names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ParameterNode {
    value: Option<String>,
    children: BTreeMap<String, ParameterNode>,
}

impl Parameters {
    /// Reads the parameters of a URL and of a form in the body. Fails if a name or a value cannot
    /// be decoded, or if a name occurs twice.
    pub(super) fn parse(url_query: &str, headers: &HeaderMap, body: &[u8]) -> Result<Self, AwsFailure> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_form = content_type.starts_with("application/x-www-form-urlencoded");
        let mut parameters = Self::default();
        parameters.add_form(url_query.as_bytes())?;
        if is_form {
            parameters.add_form(body)?;
        }
        Ok(parameters)
    }

    fn add_form(&mut self, form: &[u8]) -> Result<(), AwsFailure> {
        for pair in form.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let (Some(name), Some(value)) = (form_decoded(name), form_decoded(value)) else {
                let pair = String::from_utf8_lossy(pair);
                return Err(malformed(format!("The parameter {} is not a valid form.", shortened(&pair))));
            };
            self.add(&name, value)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, value: String) -> Result<(), AwsFailure> {
        if name.split('.').count() > DEPTH_MAX {
            return Err(malformed(format!("The name of the parameter {} is too deep.", shortened(name))));
        }
        let mut node = &mut self.root;
        for part in name.split('.') {
            node = node.children.entry(part.to_owned()).or_default();
        }
        match node.value.replace(value) {
            None => Ok(()),
            Some(_) => Err(malformed(format!("The parameter {} is given twice.", shortened(name)))),
        }
    }

    /// Returns the value of a parameter without taking it out.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.root.children.get(name)?.value.as_deref()
    }

    /// Reads all parameters. Fails with all problems if one is missing, wrong or not read.
    pub(super) fn read<T>(self, read: impl FnOnce(&mut QueryReader<'_>) -> T) -> Result<T, AwsFailure> {
        let problems = RefCell::default();
        let mut reader = QueryReader { node: self.root, path: String::new(), problems: &problems };
        reader.node.children.retain(|name, _| !is_of_every_request(name));
        let content = read(&mut reader);
        reader.report_unread();
        let mut problems: Vec<AwsFailure> = problems.into_inner();
        problems.truncate(PROBLEMS_MAX);
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        match problems.first() {
            None => Ok(content),
            Some(first) => Err(AwsFailure::new(first.status, &first.code, messages.join("; "))),
        }
    }
}

/// Returns true for parameters that select the operation or sign the request.
fn is_of_every_request(name: &str) -> bool {
    matches!(name, "Action" | "Version") || name.starts_with("X-Amz-")
}

/// Reads the parameters below one name.
pub(super) struct QueryReader<'a> {
    node: ParameterNode,
    /// Name of the parameter whose parts are read, with a dot at the end; empty for the request.
    path: String,
    problems: &'a RefCell<Vec<AwsFailure>>,
}

impl QueryReader<'_> {
    /// Reads a text. Returns `None` if it is missing.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let node = self.node.children.get_mut(name)?;
        let value = node.value.take();
        if node.children.is_empty() {
            self.node.children.remove(name);
        }
        value
    }

    /// Reads a text. A missing or empty one is a problem.
    pub(super) fn required_text(&mut self, name: &str) -> String {
        let value = self.text(name).filter(|value| !value.is_empty());
        value.unwrap_or_else(|| {
            self.add_problem(AwsFailure::missing(&format!("{}{name}", self.path)));
            String::new()
        })
    }

    /// Reads a number, for example an `i32` or `f64`. Another text is a problem.
    pub(super) fn number<T: FromStr>(&mut self, name: &str) -> Option<T> {
        let text = self.text(name)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.add_wrong_value(name, &text, "a number");
        }
        value
    }

    /// Reads a time in RFC 3339. Another text is a problem.
    pub(super) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.text(name)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.add_wrong_value(name, &text, "a time such as 2026-01-01T00:00:00Z");
        }
        value
    }

    /// Reads `true` or `false`. Another text is a problem.
    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        let text = self.text(name)?;
        match text.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                self.add_wrong_value(name, &text, "true or false");
                None
            }
        }
    }

    /// Reads the parameters below a name. Returns `None` if there are none.
    pub(super) fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut QueryReader<'_>) -> T) -> Option<T> {
        let node = self.node.children.remove(name)?;
        Some(self.read_node(node, name, read))
    }

    /// Reads a list of objects: `name.1.…`, `name.2.…`. Numbers may be left out.
    pub(super) fn objects<T>(&mut self, name: &str, mut read: impl FnMut(&mut QueryReader<'_>) -> T) -> Vec<T> {
        let items = self.take_items(name);
        items.into_iter().map(|(number, node)| self.read_node(node, &format!("{name}.{number}"), &mut read)).collect()
    }

    /// Reads a list of texts: `name.1`, `name.2`. Numbers may be left out.
    pub(super) fn texts(&mut self, name: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (number, mut node) in self.take_items(name) {
            texts.extend(node.value.take());
            self.read_node(node, &format!("{name}.{number}"), |_| ());
        }
        texts
    }

    /// Reads a list of objects of IAM: `name.member.1.…`. A client sends an empty list as an empty
    /// text.
    pub(super) fn members<T>(&mut self, name: &str, read: impl FnMut(&mut QueryReader<'_>) -> T) -> Vec<T> {
        let Some(mut node) = self.node.children.remove(name) else { return Vec::new() };
        node.value = node.value.filter(|value| !value.is_empty());
        self.read_node(node, name, |list| list.objects("member", read))
    }

    pub(super) fn add_problem(&self, problem: AwsFailure) {
        self.problems.borrow_mut().push(problem);
    }

    /// Adds a problem with the value of a parameter below this reader's name.
    pub(super) fn add_wrong_value(&self, name: &str, value: &str, expected: &str) {
        self.add_problem(AwsFailure::invalid_value(format!(
            "Value ({}) for parameter {}{name} is invalid. Expected {expected}.",
            shortened(value),
            self.path
        )));
    }

    fn read_node<T>(&self, node: ParameterNode, name: &str, read: impl FnOnce(&mut QueryReader<'_>) -> T) -> T {
        let mut reader = QueryReader { node, path: format!("{}{name}.", self.path), problems: self.problems };
        let content = read(&mut reader);
        reader.report_unread();
        content
    }

    /// Takes the numbered items of a list out of the tree, in the order of their numbers.
    fn take_items(&mut self, name: &str) -> Vec<(u32, ParameterNode)> {
        let Some(node) = self.node.children.get_mut(name) else { return Vec::new() };
        let mut items = Vec::new();
        let mut others = BTreeMap::new();
        for (key, child) in std::mem::take(&mut node.children) {
            match key.parse::<u32>() {
                Ok(number) if number > 0 && number.to_string() == key => items.push((number, child)),
                Ok(_) | Err(_) => {
                    others.insert(key, child);
                }
            }
        }
        node.children = others;
        if node.children.is_empty() && node.value.is_none() {
            self.node.children.remove(name);
        }
        items.sort_by_key(|(number, _)| *number);
        items
    }

    /// Adds a problem for each parameter that was not read.
    fn report_unread(&self) {
        let path = self.path.strip_suffix('.').unwrap_or_default();
        let mut nodes = vec![(path.to_owned(), &self.node)];
        while let Some((path, node)) = nodes.pop() {
            if node.value.is_some() {
                let message = format!(
                    "The parameter {} is not recognized. This server reads the parameters that Kerf sends",
                    shortened(&path)
                );
                self.add_problem(AwsFailure::bad_request("UnknownParameter", message));
            }
            for (name, child) in node.children.iter().rev() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                nodes.push((path, child));
            }
        }
    }
}

fn malformed(message: String) -> AwsFailure {
    AwsFailure::bad_request("MalformedQueryString", message)
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Decodes a part of a form: `+` is a space, `%` and two digits are a byte. Returns `None` if the
/// digits are wrong or the bytes are not UTF-8.
fn form_decoded(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let (high, low) = (rest.next().and_then(digit)?, rest.next().and_then(digit)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Decodes a part of a URL's path. Returns `None` as [`form_decoded`] does.
pub(super) fn path_decoded(text: &str) -> Option<String> {
    form_decoded(text.replace('+', "%2B").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(form: &str) -> Result<Parameters, AwsFailure> {
        Parameters::parse(form, &HeaderMap::new(), b"")
    }

    #[test]
    fn names_become_a_tree_of_typed_values() {
        let form = "Action=A&Version=1&Filter.2.Name=b&Filter.1.Name=tag%3Ateam+x&Filter.1.Value.1=%C3%A4%2B&Filter.1.\
                    Value.10=z&Filter.1.Value.2=&Size=12&Exact=1.5&IsSet=true&Data.Ebs.Encrypted=false&Id.7=i-1";
        let read = parsed(form).unwrap().read(|query| {
            let filters =
                query.objects("Filter", |filter| (filter.text("Name").unwrap_or_default(), filter.texts("Value")));
            let encrypted = query.object("Data", |data| data.object("Ebs", |ebs| ebs.boolean("Encrypted")));
            (
                filters,
                encrypted,
                query.number::<i32>("Size"),
                query.number::<f64>("Exact"),
                query.boolean("IsSet"),
                query.texts("Id"),
                query.text("Absent"),
            )
        });
        let filters = vec![
            ("tag:team x".to_owned(), vec!["ä+".to_owned(), String::new(), "z".to_owned()]),
            ("b".to_owned(), vec![]),
        ];
        let expected =
            (filters, Some(Some(Some(false))), Some(12), Some(1.5), Some(true), vec!["i-1".to_owned()], None);
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn everything_that_is_wrong_is_reported_at_once() {
        let form = "Size=many&IsSet=yes&Filter.1.Colour=red&Filter.0.Name=x&Id.1.x=1&Unread=1&Name=";
        let error = parsed(form).unwrap().read(|query| {
            query.number::<i32>("Size");
            query.boolean("IsSet");
            query.required_text("Name");
            query.objects("Filter", |filter| filter.text("Name"));
            query.texts("Id");
        });
        let error = error.unwrap_err();
        insta::assert_snapshot!(format!("{} {}\n{}", error.status, error.code, error.message.replace("; ", "\n")), @r"
        400 InvalidParameterValue
        Value (many) for parameter Size is invalid. Expected a number.
        Value (yes) for parameter IsSet is invalid. Expected true or false.
        The request must contain the parameter Name
        The parameter Filter.1.Colour is not recognized. This server reads the parameters that Kerf sends
        The parameter Id.1.x is not recognized. This server reads the parameters that Kerf sends
        The parameter Filter.0.Name is not recognized. This server reads the parameters that Kerf sends
        The parameter Unread is not recognized. This server reads the parameters that Kerf sends
        ");
    }

    #[test]
    fn forms_that_cannot_be_read_are_errors() {
        for form in ["a=%", "a=%4", "a=%zz", "a=%ff", "a=1&a=2", &["a"; 17].join(".")] {
            assert_eq!(parsed(form).unwrap_err().code, "MalformedQueryString", "{form}");
        }
        assert_eq!(parsed("&&").unwrap(), Parameters::default());
    }

    #[test]
    fn an_empty_list_of_iam_is_no_problem() {
        let read = |form: &str| parsed(form).unwrap().read(|query| query.members("Tags", |tag| tag.text("Key")));
        assert_eq!(read("Tags="), Ok(vec![]));
        assert_eq!(read("Tags.member.1.Key=a"), Ok(vec![Some("a".to_owned())]));
        for unknown in ["Tags=x", "Tags.member=x", "Tags.other.1.Key=a"] {
            assert_eq!(read(unknown).unwrap_err().code, "UnknownParameter", "{unknown}");
        }
    }
}
