//! Tests of the API server through its clients: kube-rs in this process, raw requests, and kubectl
//! and the Python client over a socket. Also tests of the cluster around it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod client;
mod cloud_invariants;
mod cloud_nodes;
mod cluster;
mod custom;
mod documented;
mod faults;
mod fidelity;
mod kubectl;
mod kubectl_create;
mod python;
mod raw;
mod requests;
mod scenario_schema;
mod script;
mod serve;
mod surface;
mod tiny_cloud;
mod watch;

// The allocator of the `kerf` binary, for the same reason as there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
