//! The program `kerf`. All code is in the library, so that other binaries can provide the same
//! program with other cloud providers.

use std::process::ExitCode;

// A cluster consists of millions of small objects that are allocated and freed all the time. With
// the C library's allocator the sandbox spends most of its time in the allocator once it has some
// thousand nodes; with this one it needs a tenth of the CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kerf::run(&kerf::KERF, std::env::args_os())
}
