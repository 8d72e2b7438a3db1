//! The API server as its clients see it: kube-rs in this process, raw requests, and kubectl over a socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod client;
mod cluster;
mod custom;
mod faults;
mod fidelity;
mod kubectl;
mod python;
mod raw;
mod requests;
mod script;
mod serve;
mod surface;
mod watch;

// What the program itself uses, and for the same reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
