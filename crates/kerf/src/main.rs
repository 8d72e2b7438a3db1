//! The program `kerf`. Everything is in the library, so that other binaries can be the same program with other providers.

use std::process::ExitCode;

fn main() -> ExitCode {
    kerf::run(std::env::args_os())
}
