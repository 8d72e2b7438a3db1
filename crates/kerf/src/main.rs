//! The program `kerf`; everything is in the library, so that other binaries can be the same program with other providers.
fn main() {}
