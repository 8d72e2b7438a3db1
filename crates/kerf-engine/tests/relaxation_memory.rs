//! Heap memory of pods with hundreds of preferences, measured with an allocator that counts bytes.
//! The only test of this process, because tests would count each other's allocations.

#![allow(dead_code, unused_imports, reason = "the fixture is that of the other tests")]
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "it"]
mod it {
    pub(crate) mod fixture;
}

use std::alloc::System;
use std::fmt::Write as _;

use kerf_engine::Effort;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::it::fixture;
use crate::it::fixture::Fixture;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PODS: usize = 30;
const SPREADS: usize = 100;
/// Limit for one constraint of one relaxation of one pod: each is stored once, and the lists grow
/// by doubling.
const BYTES_PER_CONSTRAINT_MAX: usize = 400;
/// Limit on the allocations for one relaxation of one pod.
const ALLOCATIONS_PER_RELAXATION_MAX: usize = 120;

// Every relaxation of a pod is a class with almost all constraints of the pod. No two pods here are
// of one class, because their sizes differ.
#[test]
fn preferences_of_pods_of_different_sizes_are_not_copied_for_each_relaxation() {
    let mut text = String::from("type s cpu=4 mem=16Gi zones=a,b,c\npool p\n");
    let spreads = (0..SPREADS).map(|key| format!(" spread=k{key:03}:1:app=web:any")).collect::<Vec<_>>().concat();
    for pod in 0..PODS {
        writeln!(text, "pod p{pod} cpu={}m labels=app:web{spreads}", 100 + pod).unwrap();
    }
    let fixture = Fixture::new(&text).with_settings(|settings| settings.effort = Effort::FirstFit);
    let region = Region::new(HEAP);
    let solution = fixture.solve();
    let change = region.change();
    assert!(solution.unplaced.is_empty());
    let relaxations = PODS * SPREADS;
    let constraints = relaxations * SPREADS / 2;
    let bytes = change.bytes_allocated / constraints;
    assert!(bytes <= BYTES_PER_CONSTRAINT_MAX, "{bytes} bytes per constraint");
    let allocations = change.allocations / relaxations;
    assert!(allocations <= ALLOCATIONS_PER_RELAXATION_MAX, "{allocations} allocations per relaxation");
}
