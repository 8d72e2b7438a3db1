//! Tests of the node class controllers against the EC2 in memory and the sandbox's API server.

mod conditions;
mod deletion;
mod dry_runs;
mod hashes;
mod process;
mod profiles;
mod reserved;
mod test_env;
