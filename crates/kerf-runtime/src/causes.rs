//! Errors as people read them. A client's error names only its outermost layer ("client error (Connect)"); why, an expired certificate or a
//! port where nobody listens, is further down. Always: one line, from the outside in, and nothing twice.

use std::error::Error;
use std::fmt;

/// An error with all that led to it.
#[derive(Debug, Clone, Copy)]
pub struct Causes<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let more = error.to_string();
            // Many errors say themselves what caused them.
            if !said.contains(&more) {
                said = format!("{said}: {more}");
            }
            cause = error.source();
        }
        f.write_str(&said)
    }
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
    fn the_innermost_cause_is_said_and_nothing_twice() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens on 127.0.0.1:6443");
        let error = Layer::Client(Box::new(Layer::Connector(refused)));
        let wanted = "client error (Connect): tcp connect error: nobody listens on 127.0.0.1:6443";
        assert_eq!(Causes(&error).to_string(), wanted);
    }
}
