//! Tests of the processing order, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::shutdown::Shutdown;

fn settings(workers: usize) -> QueueSettings {
    QueueSettings {
        workers,
        backoff: Backoff { base: Duration::from_millis(100), max: Duration::from_secs(10) },
        retry_rate: None,
    }
}

/// Runs a queue for `millis` milliseconds. Returns each processed key with its start time in
/// milliseconds.
async fn run_and_record<R: Future<Output = ReconcileAction>>(
    queue: &Queue<&'static str>,
    millis: u64,
    reconcile: impl Fn(&'static str) -> R,
) -> Vec<(&'static str, u128)> {
    let start = Instant::now();
    let processed = Rc::new(RefCell::new(Vec::new()));
    let (shutdown, stop) = Shutdown::new();
    let run = queue.run(stop, |key, _| {
        processed.borrow_mut().push((key, start.elapsed().as_millis()));
        reconcile(key)
    });
    let end = async {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        shutdown.request();
    };
    futures::join!(run, end);
    Rc::into_inner(processed).map(RefCell::into_inner).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn keys_are_processed_in_the_order_in_which_they_are_due() {
    let queue = Queue::new(settings(1));
    queue.add_after("c", Duration::from_millis(30));
    queue.add("b");
    queue.add("a");
    queue.add("b");
    queue.add_after("a", Duration::from_millis(500));
    assert_eq!((queue.len(), queue.depth()), (3, 2));
    let processed = run_and_record(&queue, 1000, |_| async { ReconcileAction::Done }).await;
    assert_eq!(processed, [("b", 0), ("a", 0), ("c", 30)], "each key once, at its earliest due time");
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_processed_is_processed_again_afterwards() {
    let queue = Queue::new(settings(8));
    queue.add("a");
    queue.add("b");
    let again = queue.clone();
    let processed = run_and_record(&queue, 1000, |key| {
        let again = again.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if key == "b" {
                again.add("a");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            ReconcileAction::Done
        }
    });
    assert_eq!(processed.await, [("a", 0), ("b", 0), ("a", 20)]);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_by_key_and_are_reset_by_success() {
    let queue = Queue::new(settings(2));
    queue.add("bad");
    let tries = Rc::new(RefCell::new(0));
    let processed = run_and_record(&queue, 3000, |_| {
        let tries = tries.clone();
        async move {
            *tries.borrow_mut() += 1;
            match *tries.borrow() {
                1..=3 => ReconcileAction::RequeueWithBackoff,
                4 => ReconcileAction::RequeueAfter(Duration::from_millis(300)),
                5 => ReconcileAction::RequeueWithBackoff,
                _ => ReconcileAction::Done,
            }
        }
    });
    let times: Vec<u128> = processed.await.into_iter().map(|(_, at)| at).collect();
    assert_eq!(times, [0, 100, 300, 700, 1000, 1100]);
}

#[tokio::test(start_paused = true)]
async fn the_retry_rate_limits_all_keys_together() {
    let queue = Queue::new(QueueSettings { retry_rate: Some(Rate { per_second: 1, burst: 2 }), ..settings(8) });
    for key in ["a", "b", "c", "d"] {
        queue.add(key);
    }
    let first = RefCell::new(Vec::new());
    let processed = run_and_record(&queue, 5000, |key| {
        let is_first = !first.borrow().contains(&key);
        first.borrow_mut().push(key);
        async move { if is_first { ReconcileAction::RequeueWithBackoff } else { ReconcileAction::Done } }
    });
    let requeued: Vec<_> = processed.await.split_off(4);
    assert_eq!(requeued, [("a", 100), ("b", 100), ("c", 1000), ("d", 2000)]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_a_failure_and_does_not_stop_other_keys() {
    let queue = Queue::new(settings(2));
    queue.add("bad");
    queue.add("good");
    let processed = run_and_record(&queue, 150, |key| async move {
        assert_ne!(key, "bad", "on purpose");
        ReconcileAction::Done
    });
    assert_eq!(processed.await, [("bad", 0), ("good", 0), ("bad", 100)]);
}

#[tokio::test(start_paused = true)]
async fn running_reconciles_finish_after_shutdown_is_requested() {
    let queue = Queue::new(settings(1));
    queue.add("a");
    queue.add("b");
    let finished = Rc::new(RefCell::new(0));
    let processed = run_and_record(&queue, 10, |_| {
        let finished = finished.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            *finished.borrow_mut() += 1;
            ReconcileAction::Done
        }
    });
    assert_eq!(processed.await, [("a", 0)]);
    assert_eq!(*finished.borrow(), 1);
}

#[test]
fn soonest_returns_the_earlier_of_two_actions() {
    let (long, short) = (Duration::from_secs(9), Duration::from_secs(1));
    assert_eq!(ReconcileAction::Done.soonest(ReconcileAction::RequeueAfter(long)), ReconcileAction::RequeueAfter(long));
    assert_eq!(
        ReconcileAction::RequeueAfter(short).soonest(ReconcileAction::RequeueAfter(long)),
        ReconcileAction::RequeueAfter(short)
    );
    assert_eq!(
        ReconcileAction::RequeueAfter(short).soonest(ReconcileAction::RequeueWithBackoff),
        ReconcileAction::RequeueWithBackoff
    );
    assert_eq!(ReconcileAction::Done.soonest(ReconcileAction::Done), ReconcileAction::Done);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_receives_the_time_since_its_key_became_due() {
    let queue = Queue::new(settings(1));
    queue.add("first");
    queue.add("second");
    queue.add_after("late", Duration::from_millis(250));
    let waits = RefCell::new(Vec::new());
    let (shutdown, stop) = Shutdown::new();
    let run = queue.run(stop, |key, waited| {
        waits.borrow_mut().push((key, waited.as_millis()));
        async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ReconcileAction::Done
        }
    });
    let end = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        shutdown.request();
    };
    futures::join!(run, end);
    assert_eq!(waits.into_inner(), [("first", 0), ("second", 100), ("late", 0)]);
}
