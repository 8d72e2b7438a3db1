//! The command line as a person meets it: the real binary, what it prints and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod conventions;
mod crds;
mod disruption;
mod input;
mod live;
mod plan;
mod program;
mod proofs;
mod sandbox;
mod scenarios;
mod simulation;

// What the program itself uses, and for the same reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
