//! Formats an error together with its causes.
//!
//! The text of a client error names only the outermost layer ("client error (Connect)"). The
//! reason, such as an expired certificate or a closed port, is in its sources. For an error
//! response of the API server, the client prints every field of the response.
//!
//! Invariants: the text is one line, from the outermost error to the innermost cause, and repeats
//! nothing. For an error response it is the server's message and status code.

use std::error::Error;
use std::fmt;

/// Displays an error and the chain of its sources, separated by `: `.
#[derive(Debug, Clone, Copy)]
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(answer) = api_error_message(self.0) {
            return f.write_str(&answer);
        }
        let mut said = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            if let Some(answer) = api_error_message(error) {
                said = format!("{said}: {answer}");
                break;
            }
            let more = error.to_string();
            // Many errors already contain the text of their source.
            if !said.contains(&more) {
                said = format!("{said}: {more}");
            }
            cause = error.source();
        }
        f.write_str(&said)
    }
}

/// Returns the message and code of the API server's error response. Returns `None` if the error is
/// of another kind.
fn api_error_message(error: &(dyn Error + 'static)) -> Option<String> {
    let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() else { return None };
    let words = if status.message.is_empty() { &status.reason } else { &status.message };
    Some(format!("{words} ({})", status.code))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot build its own fixture must fail")]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layer {
        #[error("client error (Connect)")]
        Client(#[source] Box<Layer>),
        #[error("tcp connect error: {0}")]
        Connector(#[source] io::Error),
    }

    #[test]
    fn the_innermost_cause_is_said_and_nothing_twice() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens on 127.0.0.1:6443");
        let error = Layer::Client(Box::new(Layer::Connector(refused)));
        let wanted = "client error (Connect): tcp connect error: nobody listens on 127.0.0.1:6443";
        assert_eq!(Causes(&error).to_string(), wanted);
    }

    #[test]
    fn an_answer_is_told_in_the_servers_words() {
        let status = serde_json::json!({"status": "Failure", "code": 422, "reason": "Invalid",
            "message": "NodeClaim.karpenter.sh \"a\" is invalid: spec: Required value", "metadata": {}});
        let error = kube::Error::Api(serde_json::from_value(status).unwrap());
        let wanted = "NodeClaim.karpenter.sh \"a\" is invalid: spec: Required value (422)";
        assert_eq!(Causes(&error).to_string(), wanted);
        let wordless = serde_json::json!({"status": "Failure", "code": 401, "reason": "Unauthorized", "message": ""});
        let error = kube::Error::Api(serde_json::from_value(wordless).unwrap());
        assert_eq!(Causes(&error).to_string(), "Unauthorized (401)");
    }
}
