//! Tests of the real binary: its output and its exit codes.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod aws;
mod aws_ask;
mod aws_plan;
mod aws_scenarios;
mod aws_types;
mod conventions;
mod crds;
mod disruption;
mod documentation;
mod input;
mod live;
mod malformed_scenarios;
mod plan;
mod program;
mod proofs;
mod sandbox;
mod scenarios;
mod simulation;

// The same allocator as in the program, for the same reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
