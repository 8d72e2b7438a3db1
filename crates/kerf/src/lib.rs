//! What a person sees: the command line. The only crate that knows of terminals and of output formats.
