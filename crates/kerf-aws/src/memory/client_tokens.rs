//! Client tokens: a repeated request gets the first answer and has no second effect.

use std::collections::{BTreeMap, VecDeque};

use super::AwsFailure;

/// Number of remembered tokens; the oldest is forgotten first.
const TOKENS_MAX: usize = 20_000;

/// Requests with a client token, and their answers.
#[derive(Debug, Clone)]
pub(crate) struct ClientTokens<Request, Answer> {
    answers: BTreeMap<String, (Request, Answer)>,
    order: VecDeque<String>,
}

impl<Request, Answer> Default for ClientTokens<Request, Answer> {
    fn default() -> Self {
        Self { answers: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<Request: PartialEq, Answer: Clone> ClientTokens<Request, Answer> {
    /// Returns the answer of an earlier request with this token. Returns `None` if there was none
    /// or the token is empty, and fails if the earlier request was another.
    pub(crate) fn earlier_answer(&self, token: &str, request: &Request) -> Result<Option<Answer>, AwsFailure> {
        match self.answers.get(token) {
            None => Ok(None),
            Some((earlier, answer)) if earlier == request => Ok(Some(answer.clone())),
            Some(_) => Err(AwsFailure::bad_request(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )),
        }
    }

    /// Remembers an answer. An empty token is not remembered.
    pub(crate) fn remember(&mut self, token: &str, request: Request, answer: Answer) {
        if token.is_empty() || self.answers.insert(token.to_owned(), (request, answer)).is_some() {
            return;
        }
        self.order.push_back(token.to_owned());
        if self.order.len() > TOKENS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}
