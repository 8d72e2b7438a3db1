//! The controllers at work on a cluster in this process, in virtual time. Each test names the edge case that it proves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
#![allow(clippy::float_cmp, reason = "counters hold whole numbers, which floats hold exactly")]

mod bad_input;
mod balanced;
mod cloud;
mod default_spread;
mod deletion;
mod disruption;
mod disruption_bad_input;
mod disruption_conditions;
mod disruption_memory;
mod disruption_queue;
mod disruption_scale;
mod disruption_story;
mod expiration;
mod kill;
mod launch;
mod leader;
mod leaving;
mod life;
mod liveness;
mod metrics;
mod nodepool;
mod process;
mod provisioning;
mod registration;
mod remarks;
mod repair;
mod rig;
mod small;
mod static_drift;
mod static_pools;
mod termination;
mod town;

// What the program itself uses, and for the same reason.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
