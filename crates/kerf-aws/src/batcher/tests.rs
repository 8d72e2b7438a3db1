//! Windows and buckets on a paused clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::join_all;

use super::*;
use crate::memory::testing::{SUBNETS, aws, aws_with, fleet, on_demand, template};
use crate::memory::{AwsFault, AwsFaultRule, MemoryAws, MemorySettings};
use crate::memory::{CapacityPool, Stock};
use crate::ports::ec2::{CreateFleet, InstanceStateName};

const SETTINGS: BatcherSettings =
    BatcherSettings { name: "test", idle: Duration::from_millis(100), max: Duration::from_secs(1), requests_max: 5 };

fn metrics() -> BatcherMetrics {
    BatcherMetrics::new(&Registry::default())
}

/// Returns a batcher whose results are the size of their call and the number of the call.
fn counting() -> Arc<Batcher<u64, (usize, usize)>> {
    let calls = Arc::new(AtomicUsize::new(0));
    let run = move |requests: Vec<u64>| {
        let number = calls.fetch_add(1, Ordering::Relaxed);
        async move { vec![(requests.len(), number); requests.len()] }.boxed()
    };
    Arc::new(Batcher::new(SETTINGS, metrics(), |request| request % 10, Box::new(run)))
}

#[tokio::test(start_paused = true)]
async fn a_window_closes_after_a_time_without_requests() {
    let batcher = counting();
    let started = Instant::now();
    assert_eq!(join_all([batcher.call(1), batcher.call(11)]).await, [Some((2, 0)), Some((2, 0))]);
    assert_eq!(started.elapsed(), Duration::from_millis(100));
    assert_eq!(batcher.call(1).await, Some((1, 1)), "the next request opens another window");
    assert_eq!(batcher.0.metrics.size.count(&["test"]), 2);
    assert_eq!(batcher.0.metrics.window.count(&["test"]), 2);
}

#[tokio::test(start_paused = true)]
async fn a_window_stays_open_while_requests_come_but_not_longer_than_its_longest_time() {
    let settings = BatcherSettings { requests_max: 100, ..SETTINGS };
    let run = |requests: Vec<u64>| async move { vec![requests.len(); requests.len()] }.boxed();
    let batcher: Batcher<u64, usize> = Batcher::new(settings, metrics(), |_| 0, Box::new(run));
    let started = Instant::now();
    let results = join_all((0..20).map(|i| {
        let batcher = &batcher;
        async move {
            // Each request comes before the window would close for lack of requests.
            tokio::time::sleep(Duration::from_millis(90 * i)).await;
            let size = batcher.call(1).await;
            (size, started.elapsed().as_millis())
        }
    }));
    let results = results.await;
    // Twelve requests come within the first second. The rest waits for the next window.
    assert_eq!(results[..12], vec![(Some(12), 1_000); 12]);
    assert_eq!(results[12..], vec![(Some(8), 1_810); 8]);
}

#[tokio::test(start_paused = true)]
async fn a_window_closes_when_enough_requests_wait() {
    let batcher = counting();
    let started = Instant::now();
    let results = join_all((0..5).map(|_| batcher.call(1))).await;
    assert_eq!(results, vec![Some((5, 0)); 5]);
    assert_eq!(started.elapsed(), Duration::ZERO);
    let results = join_all((0..7).map(|_| batcher.call(1))).await;
    assert_eq!(results.iter().filter(|result| **result == Some((5, 1))).count(), 5);
    assert_eq!(results.iter().filter(|result| **result == Some((2, 2))).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn unequal_requests_of_a_window_are_different_calls() {
    let batcher = counting();
    let results = join_all([batcher.call(1), batcher.call(2), batcher.call(11)]).await;
    assert_eq!(results, [Some((2, 0)), Some((1, 1)), Some((2, 0))]);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_result_gets_none_and_the_others_get_theirs() {
    let run = |requests: Vec<u64>| async move { requests.into_iter().skip(1).collect::<Vec<_>>() }.boxed();
    let batcher: Batcher<u64, u64> = Batcher::new(SETTINGS, metrics(), |_| 0, Box::new(run));
    assert_eq!(join_all([batcher.call(1), batcher.call(2)]).await, [Some(2), None]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_carried_out_although_its_caller_gave_up() {
    let batcher = counting();
    assert!(tokio::time::timeout(Duration::from_millis(10), batcher.call(1)).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(batcher.call(1).await, Some((1, 1)), "the first call was made");
}

async fn aws_with_template() -> MemoryAws {
    let aws = aws();
    aws.ports().ec2.create_launch_template(template(&aws, "t")).await.unwrap();
    aws.clear_calls();
    aws
}

fn fleet_batcher(aws: &MemoryAws) -> FleetBatcher {
    FleetBatcher::new(aws.ports().ec2, metrics(), 7)
}

// spec 05 #115
#[tokio::test(start_paused = true)]
async fn equal_launches_share_one_fleet_and_all_get_its_errors() {
    let aws = aws_with_template().await;
    let pool = |zone: &str| CapacityPool::new("m5.large", zone, "on-demand");
    aws.change_market(|market| {
        market.set_stock(pool("us-west-2a"), Stock::Limited(2));
        market.set_stock(pool("us-west-2b"), Stock::Limited(1));
    });
    let batcher = fleet_batcher(&aws);
    let overrides = [("m5.large", SUBNETS[0]), ("m5.large", SUBNETS[1])];
    let request = |overrides: &[(&str, &str)]| fleet(1, on_demand(), "t", overrides);
    // The order of the overrides does not matter.
    let reversed = [overrides[1], overrides[0]];
    let requests = (0..5).map(|i| request(if i % 2 == 0 { &overrides } else { &reversed }));
    let results = join_all(requests.map(|request| batcher.launch_one(request))).await;
    let results: Vec<FleetLaunch> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(results.iter().filter(|result| result.instance.is_some()).count(), 3);
    assert!(results.iter().all(|result| result.errors.len() == 2), "{results:?}");
    let calls = aws.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(aws.instances().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn launches_with_other_tags_or_templates_are_other_fleets() {
    let aws = aws_with_template().await;
    aws.ports().ec2.create_launch_template(template(&aws, "u")).await.unwrap();
    let batcher = fleet_batcher(&aws);
    let base = || fleet(1, on_demand(), "t", &[("m5.large", SUBNETS[0])]);
    let mut tagged = base();
    tagged.tags[0].tags.insert("a".into(), "b".into());
    let mut template = base();
    template.configs[0].template_name = "u".into();
    let context = CreateFleet { context: Some("c".into()), ..base() };
    let launches = [base(), base(), tagged, template, context];
    let results = join_all(launches.map(|request| batcher.launch_one(request))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let fleets: std::collections::BTreeSet<String> = results.into_iter().map(|r| r.unwrap().fleet_id).collect();
    assert_eq!(fleets.len(), 4);
}

// spec 05 §17: a call error goes to all; #123: an answer without instances and errors
#[tokio::test(start_paused = true)]
async fn a_failed_fleet_fails_all_its_launches() {
    let aws = aws_with_template().await;
    aws.set_faults(vec![AwsFaultRule::once("CreateFleet", AwsFault::Throttled)]);
    let batcher = fleet_batcher(&aws);
    let request = || fleet(1, on_demand(), "t", &[("m5.large", SUBNETS[0])]);
    let results = join_all([batcher.launch_one(request()), batcher.launch_one(request())]).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap_err().is_rate_limited()), "{results:?}");
    assert_eq!(aws.calls().len(), 1);
    let wrong = CreateFleet { target_capacity: 2, ..request() };
    assert!(batcher.launch_one(wrong).await.is_err());
}

async fn launch_many(aws: &MemoryAws, count: i32) -> Vec<String> {
    let request = fleet(count, on_demand(), "t", &[("m5.large", SUBNETS[0])]);
    let answer = aws.ports().ec2.create_fleet(request).await.unwrap();
    aws.clear_calls();
    answer.instances.into_iter().flat_map(|group| group.ids).collect()
}

// spec 05 #116
#[tokio::test(start_paused = true)]
async fn instances_that_an_answer_lacks_are_described_one_by_one() {
    let aws = aws_with_template().await;
    let ids = launch_many(&aws, 5).await;
    let batcher = DescribeBatcher::new(aws.ports().ec2, metrics());
    // Terminated instances are not in the answer.
    aws.ports().ec2.terminate_instances(ids[..2].to_vec()).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    aws.clear_calls();
    let results = join_all(ids.iter().map(|id| batcher.describe(id))).await;
    let found: Vec<bool> = results.into_iter().map(|result| result.unwrap().is_some()).collect();
    assert_eq!(found, [false, false, true, true, true]);
    assert_eq!(aws.calls().len(), 3, "one call for all and one for each that is missing");

    aws.clear_calls();
    aws.set_faults(vec![AwsFaultRule::once("DescribeInstances", AwsFault::Throttled)]);
    let results = join_all(ids.iter().map(|id| batcher.describe(id))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(aws.calls().len(), 6);
    aws.clear_calls();
    let results = join_all([batcher.describe(&ids[4]), batcher.describe(&ids[4])]).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap().is_some()), "duplicates both get the result");
    assert_eq!(aws.calls().len(), 1);
}

// spec 05 #131
#[tokio::test(start_paused = true)]
async fn instances_on_pages_before_a_failed_page_are_not_described_again() {
    let aws = aws_with(MemorySettings { page_size_max: Some(2), ..MemorySettings::default() });
    aws.ports().ec2.create_launch_template(template(&aws, "t")).await.unwrap();
    let ids = launch_many(&aws, 6).await;
    let batcher = DescribeBatcher::new(aws.ports().ec2, metrics());
    let second = AwsFaultRule { skip: 1, ..AwsFaultRule::once("DescribeInstances", AwsFault::Throttled) };
    aws.set_faults(vec![second]);
    let results = join_all(ids.iter().map(|id| batcher.describe(id))).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap().is_some()));
    assert_eq!(aws.calls().len(), 2 + 4, "two pages, then the four instances of the other pages");
}

// spec 05 §17: TerminateInstances
#[tokio::test(start_paused = true)]
async fn instances_are_terminated_together_and_after_a_failure_one_by_one() {
    let aws = aws_with_template().await;
    let ids = launch_many(&aws, 4).await;
    let batcher = TerminateBatcher::new(aws.ports().ec2, metrics());
    let results = join_all(ids[..2].iter().map(|id| batcher.terminate(id))).await;
    assert_eq!(results, [Ok(()), Ok(())]);
    assert_eq!(aws.calls().len(), 1);
    aws.clear_calls();
    // One unknown ID fails the call for all.
    let unknown = "i-0123456789abcdef0".to_owned();
    let results = join_all([&ids[2], &ids[3], &unknown].map(|id| batcher.terminate(id))).await;
    assert_eq!(aws.calls().len(), 4);
    assert_eq!((&results[0], &results[1]), (&Ok(()), &Ok(())));
    assert!(results[2].as_ref().unwrap_err().is_not_found());
    assert!(aws.instances().iter().all(|launched| launched.instance.state == InstanceStateName::ShuttingDown));
}
