//! `kerf aws ask`: decisions of the AWS provider on a described world, without an account and
//! without a cluster (spec 11). `hack/oracle-aws` answers the same questions with Karpenter's code.
//!
//! Nothing is kept from one document to the next.

mod account;
mod ami;
mod calls;
mod controller_memory;
mod document;
mod drift;
mod filters;
mod hash;
mod instance_types;
mod interruption;
mod launch;
mod node_class;
mod resources;
mod stored_objects;
mod user_data;
mod world;

use std::io::{BufReader, Read, Write};
use std::path::Path;

use kerf_aws::data::ShippedCatalogue;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::{AskOptions, Question};
use crate::exit::{CommandFailure, Exit, Problem};
use document::Document;

/// Reason why a question, or a part of it, has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QuestionError {
    /// One of the classes of spec 11 §3.
    class: &'static str,
    /// Reason and message of a `CreateError`.
    reason: Option<(String, String)>,
    /// For the reader; never compared.
    text: String,
}

impl QuestionError {
    /// Returns an error of a class.
    fn of(class: &'static str, text: impl ToString) -> Self {
        Self { class, reason: None, text: text.to_string() }
    }

    /// Returns an error without a class of its own.
    fn other(text: impl ToString) -> Self {
        Self::of("Other", text)
    }

    fn to_json(&self) -> Value {
        let mut error = json!({ "class": self.class, "text": self.text });
        if let Some((reason, message)) = &self.reason {
            error["reason"] = json!(reason);
            error["message"] = json!(message);
        }
        json!({ "error": error })
    }
}

/// Answers the documents on standard input, one line each.
pub(super) fn run(options: &AskOptions) -> Result<Exit, CommandFailure> {
    let catalogue = read_catalogue(options.catalogue.as_deref())?;
    answer_all(options.question, &catalogue, std::io::stdin().lock(), std::io::stdout().lock())
}

fn answer_all(
    question: Question,
    catalogue: &ShippedCatalogue,
    input: impl Read,
    mut output: impl Write,
) -> Result<Exit, CommandFailure> {
    let documents = serde_json::Deserializer::from_reader(BufReader::new(input)).into_iter::<Box<RawValue>>();
    for (document, number) in documents.zip(1..) {
        let document = document.map_err(|error| {
            CommandFailure::bad_input(
                Problem::new(format!("standard input: document {number}: {error}"))
                    .with_hint("give JSON documents as docs/spec/11-aws-questions.md describes them"),
            )
        })?;
        let answer = serde_json::from_str::<Document>(document.get())
            .map_err(QuestionError::other)
            .and_then(|document| answer(question, &document, catalogue))
            .unwrap_or_else(|error| error.to_json());
        let written = writeln!(output, "{answer}").and_then(|()| output.flush());
        if let Err(cause) = written {
            return if cause.kind() == std::io::ErrorKind::BrokenPipe {
                Ok(Exit::Done)
            } else {
                Err(crate::output::stdout_write_failure(cause))
            };
        }
    }
    Ok(Exit::Done)
}

fn answer(question: Question, document: &Document, catalogue: &ShippedCatalogue) -> Result<Value, QuestionError> {
    match question {
        Question::InstanceTypes => instance_types::answer(document, catalogue),
        Question::UserData => user_data::answer(document),
        Question::Hash => hash::answer(document),
        Question::Ami => ami::answer(document),
        Question::Launch => launch::answer(document, catalogue),
        Question::Drift => drift::answer(document, catalogue),
        Question::Interruption => interruption::answer(document, catalogue),
        Question::NodeClass => node_class::answer(document, catalogue),
    }
}

/// Reads the file of `--catalogue`, or returns the shipped catalogue.
fn read_catalogue(path: Option<&Path>) -> Result<ShippedCatalogue, CommandFailure> {
    let Some(path) = path else { return Ok(kerf_aws::data::catalogue().clone()) };
    let problem = |cause: &dyn std::fmt::Display| {
        CommandFailure::bad_input(
            Problem::new(format!("--catalogue {}: {cause}", path.display()))
                .with_hint("give a JSON file with instanceTypes and offerings"),
        )
    };
    let bytes = std::fs::read(path).map_err(|cause| problem(&cause))?;
    kerf_aws::data::parse_catalogue(&bytes).map_err(|cause| problem(&cause))
}
