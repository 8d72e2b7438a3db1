//! Integration tests of the controllers on an in-process API server, in virtual time. Each test
//! names the edge case of the spec that it proves.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![allow(clippy::float_cmp, reason = "counters hold whole numbers, which floats hold exactly")]

mod acceptance_scenarios;
mod bad_input;
mod balanced;
mod cloud;
mod crash_recovery;
mod decision_notes;
mod default_spread;
mod deleting_nodes;
mod deletion;
mod disruption;
mod disruption_backoff;
mod disruption_bad_input;
mod disruption_conditions;
mod disruption_queue;
mod disruption_scale;
mod expiration;
mod fresh_view;
mod launch;
mod launch_backoff;
mod leader;
mod liveness;
mod metrics;
mod never_ready;
mod nodepool;
mod process;
mod provisioning;
mod registration;
mod repair;
mod small_controllers;
mod static_drift;
mod static_pools;
mod termination;
mod test_cluster;
mod test_env;
mod unlaunched_claims;
mod workload_simulation;

// The allocator of the program, so that tests run with the same one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
