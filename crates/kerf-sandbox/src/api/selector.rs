//! Label and field selectors: the syntax of `?labelSelector=` and `?fieldSelector=`, and the label
//! selectors in objects. They match against the [`SelectorAttributes`] of stored objects.

use serde_json::Value;
use smol_str::SmolStr;

use super::names;
use super::storage::{ObjectKey, SelectorAttributes};

/// A label selector. All requirements must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<LabelRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: SmolStr,
    operator: LabelOperator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelOperator {
    Exists,
    Absent,
    In(Vec<SmolStr>),
    NotIn(Vec<SmolStr>),
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Parses the form of a query.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: scan(text), at: 0 }.selector()
    }

    /// Parses the form of an object (`matchLabels` and `matchExpressions`). Returns `None` if the
    /// selector is missing, which selects nothing, or if it has an unknown operator.
    pub(crate) fn from_object(selector: Option<&Value>) -> Option<Self> {
        let selector = selector?.as_object()?;
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            requirements.push(LabelRequirement {
                key: key.into(),
                operator: LabelOperator::In(vec![value.as_str().unwrap_or_default().into()]),
            });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| expression.get(field).and_then(Value::as_str).unwrap_or_default();
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values: Vec<SmolStr> = values.filter_map(Value::as_str).map(SmolStr::from).collect();
            let operator = match text("operator") {
                "In" => LabelOperator::In(values),
                "NotIn" => LabelOperator::NotIn(values),
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::Absent,
                _ => return None,
            };
            requirements.push(LabelRequirement { key: text("key").into(), operator });
        }
        Some(Self(requirements))
    }

    pub(crate) fn matches(&self, labels: &[(SmolStr, SmolStr)]) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.iter().find(|(key, _)| *key == requirement.key).map(|(_, value)| value);
            match (&requirement.operator, value) {
                (LabelOperator::Exists, value) => value.is_some(),
                (LabelOperator::Absent, value) => value.is_none(),
                (LabelOperator::In(values), value) => value.is_some_and(|value| values.contains(value)),
                (LabelOperator::NotIn(values), value) => value.is_none_or(|value| !values.contains(value)),
                (LabelOperator::Above(bound), value) => number(value).is_some_and(|value| value > *bound),
                (LabelOperator::Below(bound), value) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

fn number(value: Option<&SmolStr>) -> Option<i64> {
    value?.parse().ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(SmolStr),
    Sign(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Sign(sign) => sign,
            Self::End => "",
        }
    }
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn scan(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t', '\r', '\n', '\0']);
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest.find(['=', '!', '(', ')', ',', '>', '<', ' ', '\t', '\r', '\n', '\0']).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].into()));
            rest = &rest[end..];
        }
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', '\0']);
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn selector(mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(LabelSelector(requirements)),
                Token::Word(_) | Token::Sign("!") => {}
                Token::Sign(sign) => {
                    return Err(format!("found '{sign}', expected: !, identifier, or 'end of string'"));
                }
            }
            requirements.push(self.requirement().map_err(|problem| format!("unable to parse requirement: {problem}"))?);
            match self.take() {
                Token::End => return Ok(LabelSelector(requirements)),
                Token::Sign(",") => match self.peek() {
                    Token::Word(_) | Token::Sign("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let absent = *self.peek() == Token::Sign("!");
        if absent {
            self.at += 1;
        }
        let key = match self.take() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if let Some(problem) = names::qualified_name_problems(&key).into_iter().next() {
            return Err(format!("<nil>: Invalid value: \"{key}\": {problem}"));
        }
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(LabelRequirement {
                key,
                operator: if absent { LabelOperator::Absent } else { LabelOperator::Exists },
            });
        }
        let operator = match self.take() {
            Token::Sign("=" | "==") => LabelOperator::In(vec![self.one_value()?]),
            Token::Sign("!=") => LabelOperator::NotIn(vec![self.one_value()?]),
            Token::Sign(">") => LabelOperator::Above(self.bound()?),
            Token::Sign("<") => LabelOperator::Below(self.bound()?),
            Token::Word(word) if word == "in" => LabelOperator::In(self.values()?),
            Token::Word(word) if word == "notin" => LabelOperator::NotIn(self.values()?),
            other => return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        };
        if let LabelOperator::In(values) | LabelOperator::NotIn(values) = &operator {
            for value in values {
                if let Some(problem) = names::label_value_problems(value).into_iter().next() {
                    return Err(format!("values[0][{key}]: Invalid value: \"{value}\": {problem}"));
                }
            }
        }
        Ok(LabelRequirement { key, operator })
    }

    fn one_value(&mut self) -> Result<SmolStr, String> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(SmolStr::default());
        }
        match self.take() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let value = self.one_value()?;
        value.parse().map_err(|_| {
            format!("values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    /// Parses `(a,b,)`. Values may be empty, so a comma next to a parenthesis adds an empty value.
    fn values(&mut self) -> Result<Vec<SmolStr>, String> {
        match self.take() {
            Token::Sign("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        let mut wants_value = true;
        loop {
            match self.take() {
                Token::Word(value) if wants_value => {
                    values.push(value);
                    wants_value = false;
                }
                Token::Sign(",") => {
                    if wants_value {
                        values.push(SmolStr::default());
                    }
                    wants_value = true;
                }
                Token::Sign(")") => {
                    if wants_value {
                        values.push(SmolStr::default());
                    }
                    values.sort_unstable();
                    values.dedup();
                    return Ok(values);
                }
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

/// Returns the error for a field that is not selectable. Kinds without selectable fields have
/// another message.
fn unselectable(field: &str, has_none: bool) -> String {
    if has_none {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("field label not supported: {field}")
    }
}

/// A field selector. Only fields that the resource declares can be selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<(FieldRef, bool, SmolStr)>);

/// A field that every resource has, or the index of one of the resource's selectable fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldRef {
    Name,
    Namespace,
    Own(usize),
}

impl FieldSelector {
    /// Parses the form of a query, for a resource with the fields `selectable`.
    pub(crate) fn parse<'a>(text: &str, selectable: impl Iterator<Item = &'a str> + Clone) -> Result<Self, String> {
        let mut terms = Vec::new();
        for term in split_terms(text) {
            let (field, equal, value) =
                split_term(term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let value = unescape(value)?;
            let field = match field {
                "metadata.name" => FieldRef::Name,
                "metadata.namespace" => FieldRef::Namespace,
                _ => {
                    let index = selectable.clone().position(|name| name == field);
                    FieldRef::Own(index.ok_or_else(|| unselectable(field, selectable.clone().next().is_none()))?)
                }
            };
            terms.push((field, equal, value));
        }
        Ok(Self(terms))
    }

    /// Selects the object with this name.
    pub(crate) fn named(name: &str) -> Self {
        Self(vec![(FieldRef::Name, true, name.into())])
    }

    fn matches(&self, key: &ObjectKey, fields: &[SmolStr]) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let (namespace, name) = key.as_str().rsplit_once('/').unwrap_or(("", key.as_str()));
            let actual = match field {
                FieldRef::Name => name,
                FieldRef::Namespace => namespace,
                FieldRef::Own(index) => fields.get(*index).map_or("", SmolStr::as_str),
            };
            (actual == value.as_str()) == *equal
        })
    }
}

fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |ch| {
        let ends = ch == ',' && !escaped;
        escaped = ch == '\\' && !escaped;
        ends
    })
    .filter(|term| !term.is_empty())
}

fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, false, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, true, value))
}

fn unescape(value: &str) -> Result<SmolStr, String> {
    let mut unescaped = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(ch) = chars.next() {
        match ch {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => unescaped.push(next),
                Some(next) => return Err(format!("invalid field selector: invalid escape sequence: \\{next}")),
                None => return Err("invalid field selector: unterminated escape sequence: \\".into()),
            },
            '=' | ',' => return Err(format!("invalid field selector: unescaped character in value: {ch}")),
            _ => unescaped.push(ch),
        }
    }
    Ok(unescaped.into())
}

/// Both selectors of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn selects_everything(&self) -> bool {
        self.labels.0.is_empty() && self.fields.0.is_empty()
    }

    pub(crate) fn matches(&self, key: &ObjectKey, attributes: &SelectorAttributes) -> bool {
        self.labels.matches(&attributes.labels) && self.fields.matches(key, &attributes.fields)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(SmolStr, SmolStr)> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn label_selectors_select() {
        let labels = labels(&[("app", "web"), ("tier", ""), ("n", "5")]);
        for (selector, selects) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web", true),
            ("app==web", true),
            ("app!=web", false),
            ("none!=x", true),
            ("app in (web,db)", true),
            ("app notin (web)", false),
            ("none notin (web)", true),
            ("none in (web)", false),
            ("tier=", true),
            ("tier in ()", true),
            ("tier in (,a)", true),
            ("app=web,tier", true),
            ("app=web,!tier", false),
            (" app = web , n>4 ", true),
            ("n<5", false),
            ("in=in", false),
            ("!in", true),
            ("app in (in,web)", true),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap_or_else(|problem| panic!("{selector}: {problem}"));
            assert_eq!(parsed.matches(&labels), selects, "{selector}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for selector in [
            ",",
            "a,",
            "=b",
            "a===b",
            "a in",
            "a in b",
            "a in (",
            "a in (b",
            "a in (b c)",
            "a b",
            "!",
            "a!b",
            "a>x",
            "a=-",
            "A B=c",
            "/=x",
            "(",
            ")",
        ] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
            assert!(FieldSelector::parse(selector, ["x"].into_iter()).is_err() || selector == ",", "{selector}");
        }
        assert_eq!(
            LabelSelector::parse("a===b").unwrap_err(),
            "unable to parse requirement: found '=', expected: identifier"
        );
    }

    #[test]
    fn field_selectors_select() {
        let attributes = SelectorAttributes { labels: Box::default(), fields: ["n1".into(), "Running".into()].into() };
        let key = ObjectKey::new(Some("ns"), "pod");
        let selectable = ["spec.nodeName", "status.phase"].into_iter();
        for (selector, selects) in [
            ("", true),
            ("spec.nodeName=n1", true),
            ("spec.nodeName==n1,status.phase!=Failed", true),
            ("spec.nodeName!=n1", false),
            ("metadata.name=pod", true),
            ("metadata.namespace=other", false),
            ("metadata.name=a\\,b", false),
            ("spec.nodeName=", false),
        ] {
            let selection = Selection {
                fields: FieldSelector::parse(selector, selectable.clone()).unwrap(),
                ..Selection::default()
            };
            assert_eq!(selection.matches(&key, &attributes), selects, "{selector}");
        }
        assert_eq!(FieldSelector::parse("spec.foo=b", selectable).unwrap_err(), "field label not supported: spec.foo");
    }
}
