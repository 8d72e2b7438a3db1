//! Tests of the engine against its specification: an example for every edge case of spec 02 §20 and
//! spec 03 §17 that needs no running controller, the texts that users read, and properties that
//! hold for any input.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its own fixture must fail")]

mod check_solution;
mod fixture;
mod launch;

mod bounds;
mod claims;
mod disruption;
mod odd_inputs;
mod other_providers;
mod packing;
mod passes;
mod pools;
mod preferences;
mod properties;
mod reasons;
mod remarks;
mod requirements;
mod resources;
mod selection;
mod topology;
mod volumes;
mod zones;
