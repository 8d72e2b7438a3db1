//! Fuzz target for cron schedules. The tests of kerf-api define the properties.
#![no_main]

#[path = "../../crates/kerf-api/tests/it/properties.rs"]
#[allow(dead_code, reason = "each target needs one of the properties")]
mod properties;

libfuzzer_sys::fuzz_target!(|input: &[u8]| properties::schedule(input));
