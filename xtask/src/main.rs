//! Checks on the repository itself: `cargo xtask tidy` and `cargo xtask spec-coverage`.
fn main() {}
