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
        if let Some(message) = api_error_message(self.0) {
            return f.write_str(&message);
        }
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            if let Some(message) = api_error_message(error) {
                text = format!("{text}: {message}");
                break;
            }
            let cause_text = error.to_string();
            // Many errors already contain the text of their source.
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}

/// Returns the message and code of the API server's error response. Returns `None` if the error is
/// of another kind.
fn api_error_message(error: &(dyn Error + 'static)) -> Option<String> {
    let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() else { return None };
    let text = if status.message.is_empty() { &status.reason } else { &status.message };
    Some(format!("{text} ({})", status.code))
}

#[cfg(test)]
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
    fn causes_are_joined_and_no_text_is_repeated() {
        let io_error = io::Error::new(io::ErrorKind::ConnectionRefused, "no process listens on 127.0.0.1:6443");
        let error = Layer::Client(Box::new(Layer::Connector(io_error)));
        let expected = "client error (Connect): tcp connect error: no process listens on 127.0.0.1:6443";
        assert_eq!(Causes(&error).to_string(), expected);
    }

    #[test]
    fn an_error_response_is_shown_as_message_and_code() {
        let status = serde_json::json!({"status": "Failure", "code": 422, "reason": "Invalid",
            "message": "NodeClaim.karpenter.sh \"a\" is invalid: spec: Required value", "metadata": {}});
        let error = kube::Error::Api(serde_json::from_value(status).unwrap());
        let expected = "NodeClaim.karpenter.sh \"a\" is invalid: spec: Required value (422)";
        assert_eq!(Causes(&error).to_string(), expected);
        let without_message =
            serde_json::json!({"status": "Failure", "code": 401, "reason": "Unauthorized", "message": ""});
        let error = kube::Error::Api(serde_json::from_value(without_message).unwrap());
        assert_eq!(Causes(&error).to_string(), "Unauthorized (401)");
    }
}
