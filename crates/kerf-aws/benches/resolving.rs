//! Measures how long the instance types of node classes take, over all types of the shipped
//! catalogue, and how much memory they keep.
//!
//! `cargo bench -p kerf-aws --bench resolving`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use std::alloc::System;
use std::sync::Arc;
use std::time::Instant;

use kerf_api::ec2nodeclass::EC2NodeClass;
use kerf_aws::instance_types::{InstanceTypeCatalogue, InstanceTypeSettings};
use kerf_aws::ports::ec2::PlacementGroup;
use kerf_aws::pricing::Pricing;
use kerf_aws::unavailable_offerings::{InstancePool, PoolScope, UnavailableOfferings};
use kerf_aws::{AwsSettings, KnownPlacementGroups, data};
use kerf_runtime::Clock;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of node classes.
const CLASSES: usize = 20;
const REPEATS: usize = 3;
const FAMILIES: [&str; 4] = ["al2023@latest", "bottlerocket@latest", "al2@latest", "windows2022@latest"];

/// CPU time of the thread, or wall-clock time if the system does not report CPU time.
struct CpuStopwatch {
    wall: Instant,
    start_cpu_seconds: Option<f64>,
}

impl CpuStopwatch {
    fn start() -> Self {
        Self { wall: Instant::now(), start_cpu_seconds: thread_cpu_seconds() }
    }

    fn milliseconds(&self) -> f64 {
        let seconds = self.start_cpu_seconds.zip(thread_cpu_seconds());
        1e3 * seconds.map_or_else(|| self.wall.elapsed().as_secs_f64(), |(start, now)| now - start)
    }
}

fn thread_cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanos| nanos / 1e9)
}

/// Returns a class. Classes differ in family, maximum number of pods, zones and reservations.
fn class(number: usize) -> EC2NodeClass {
    let zones =
        ["a", "b", "c", "d"].into_iter().cycle().skip(number).take(1 + number % 4 + usize::from(number == 0) * 3);
    let subnets: Vec<Value> = zones
        .map(|zone| {
            json!({"id": format!("subnet-{number}-{zone}"), "zone": format!("us-west-2{zone}"), "zoneID": format!("az-{zone}")})
        })
        .collect();
    let reservation = json!({
        "id": format!("cr-{number}"), "availabilityZone": "us-west-2a", "instanceType": "m5.large",
        "instanceMatchCriteria": "open", "ownerID": "111122223333",
    });
    let kubelet = if number == 0 { json!({}) } else { json!({"maxPods": 20 + number}) };
    let class = json!({
        "metadata": {"name": format!("class-{number}")},
        "spec": {
            "amiSelectorTerms": [{"alias": FAMILIES[number % FAMILIES.len()]}],
            "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "kubelet": kubelet,
            "placementGroupSelector": {"name": format!("group-{number}")},
        },
        "status": {"subnets": subnets, "capacityReservations": [reservation]},
    });
    serde_json::from_value(class).expect("the class is valid")
}

struct BenchCatalogue {
    types: InstanceTypeCatalogue,
    unavailable: Arc<UnavailableOfferings>,
    groups: Arc<KnownPlacementGroups>,
}

fn catalogue() -> BenchCatalogue {
    let clock = Clock::system();
    let unavailable = Arc::new(UnavailableOfferings::new(clock));
    let groups = Arc::new(KnownPlacementGroups::new(clock));
    let settings = InstanceTypeSettings::new("us-west-2", &AwsSettings::new("bench"));
    let pricing = Arc::new(Pricing::new("us-west-2"));
    let types =
        InstanceTypeCatalogue::new(settings, pricing, unavailable.clone(), clock).with_placement_groups(groups.clone());
    let shipped = data::catalogue();
    types.set_catalogue(shipped.instance_types.clone(), shipped.offerings.clone());
    BenchCatalogue { types, unavailable, groups }
}

fn main() {
    let start = CpuStopwatch::start();
    let shipped = data::catalogue();
    println!("loading the shipped catalogue: {:.1} ms, {} types", start.milliseconds(), shipped.instance_types.len());
    let classes: Vec<EC2NodeClass> = (0..CLASSES).map(class).collect();
    let mut best = [f64::INFINITY; CLASSES];
    let mut bytes = [0_usize; CLASSES];
    for _ in 0..REPEATS {
        let catalogue = catalogue();
        let region = Region::new(HEAP);
        for (ix, class) in classes.iter().enumerate() {
            let start = CpuStopwatch::start();
            let list = catalogue.types.list(class).expect("the class has types");
            best[ix] = best[ix].min(start.milliseconds());
            drop(list);
            let change = region.change();
            bytes[ix] = change.bytes_allocated - change.bytes_deallocated;
        }
    }
    let further = &best[1..];
    let mean = further.iter().sum::<f64>() / further.len() as f64;
    let slowest = further.iter().copied().fold(0.0, f64::max);
    println!("first class: {:.1} ms; further classes: {mean:.1} ms, the slowest {slowest:.1} ms", best[0]);
    for count in [1, 5, CLASSES] {
        println!("{count:>2} classes: {:.1} MB", bytes[count - 1] as f64 / 1e6);
    }
    report_changes(&catalogue(), &classes[0]);
}

/// Measures what changes later: a mark of missing capacity, and a placement group with partitions.
fn report_changes(catalogue: &BenchCatalogue, class: &EC2NodeClass) {
    let list = || catalogue.types.list(class).expect("the class has types");
    list();
    catalogue.unavailable.mark_pool(InstancePool {
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        capacity_type: "spot".to_owned(),
        scope: PoolScope::Unscoped,
    });
    let start = CpuStopwatch::start();
    list();
    println!("after a mark: {:.1} ms", start.milliseconds());
    let start = CpuStopwatch::start();
    list();
    println!("unchanged: {:.3} ms", start.milliseconds());
    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        strategy: "partition".to_owned(),
        partition_count: Some(7),
        ..PlacementGroup::default()
    };
    catalogue.groups.set(class, Some(Arc::new(group)));
    let region = Region::new(HEAP);
    let start = CpuStopwatch::start();
    list();
    let (time, change) = (start.milliseconds(), region.change());
    let bytes = change.bytes_allocated - change.bytes_deallocated;
    println!("in a group with 7 partitions: {time:.1} ms, {:.1} MB more", bytes as f64 / 1e6);
}
