//! The program `kerf-aws`: `kerf` with the AWS SDK, and with EC2 as its default provider.

use std::process::ExitCode;

use kerf::{Program, ProviderName};

// As in `kerf`: a cluster consists of millions of small objects.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KERF_AWS: Program =
    Program { default_provider: ProviderName::Aws, connect_aws: Some(|| Box::pin(kerf_aws_sdk::connect())) };

fn main() -> ExitCode {
    kerf::run(&KERF_AWS, std::env::args_os())
}
