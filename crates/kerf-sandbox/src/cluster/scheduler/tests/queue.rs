//! Order and timing of the scheduling queue, on a paused clock.

use std::collections::BTreeSet;
use std::time::Duration;

use smol_str::SmolStr;
use tokio::time::{Instant, advance};

use crate::cluster::scheduler::filter::Plugin;
use crate::cluster::scheduler::scheduling_queue::SchedulingQueue;

fn add(queue: &mut SchedulingQueue, name: &str, priority: i32) {
    queue.add(&name.into(), &name.into(), priority, Instant::now());
}

fn pop(queue: &mut SchedulingQueue) -> Option<SmolStr> {
    queue.advance(Instant::now());
    queue.pop().map(|(key, _)| key)
}

/// Pops the next pod and adds it as rejected by `plugin`.
fn reject_next(queue: &mut SchedulingQueue, plugin: Plugin) {
    let (key, entry) = queue.pop().unwrap();
    queue.add_unschedulable(key, entry, BTreeSet::from([plugin]), Instant::now());
}

#[tokio::test(start_paused = true)]
async fn pods_are_ordered_by_priority_then_age() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    add(&mut queue, "b", 10);
    advance(Duration::from_secs(1)).await;
    add(&mut queue, "c", 10);
    add(&mut queue, "d", 0);
    let order: Vec<SmolStr> = std::iter::from_fn(|| pop(&mut queue)).collect();
    assert_eq!(order, ["b", "c", "a", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_waits_for_an_event_that_concerns_it() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    reject_next(&mut queue, Plugin::NodeResourcesFit);
    advance(Duration::from_mins(1)).await;
    assert_eq!(pop(&mut queue), None);
    queue.requeue_if(&[Plugin::TaintToleration], Instant::now(), |_, _| true);
    assert_eq!(pop(&mut queue), None, "no pod was rejected because of a taint");
    queue.requeue_if(&[Plugin::NodeResourcesFit], Instant::now(), |_, _| false);
    assert_eq!(pop(&mut queue), None, "the event does not help");
    queue.requeue_if(&[Plugin::NodeResourcesFit], Instant::now(), |_, _| true);
    assert_eq!(pop(&mut queue).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn back_off_doubles_from_one_second_to_ten() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    for expected in [1, 2, 4, 8, 10, 10] {
        reject_next(&mut queue, Plugin::NodeResourcesFit);
        queue.requeue_if(&[Plugin::NodeResourcesFit], Instant::now(), |_, _| true);
        let wait = queue.next_due().unwrap() - Instant::now();
        assert_eq!(wait, Duration::from_secs(expected));
        advance(wait.checked_sub(Duration::from_millis(1)).unwrap()).await;
        queue.advance(Instant::now());
        assert!(!queue.has_ready(), "before its time");
        advance(Duration::from_millis(1)).await;
        queue.advance(Instant::now());
        assert!(queue.has_ready());
    }
}

#[tokio::test(start_paused = true)]
async fn after_its_back_off_a_requeued_pod_is_ready_at_once() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    reject_next(&mut queue, Plugin::NodeResourcesFit);
    advance(Duration::from_secs(2)).await;
    queue.requeue_if(&[Plugin::NodeResourcesFit], Instant::now(), |_, _| true);
    assert!(queue.has_ready());
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_retried_after_five_minutes() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    reject_next(&mut queue, Plugin::InterPodAffinity);
    assert_eq!(queue.next_due(), Some(Instant::now() + Duration::from_mins(5)));
    advance(Duration::from_secs(299)).await;
    assert_eq!(pop(&mut queue), None);
    advance(Duration::from_secs(1)).await;
    assert_eq!(pop(&mut queue).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn an_error_backs_off_without_an_event() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    let (key, entry) = queue.pop().unwrap();
    queue.add_failed(key, entry, Instant::now());
    assert_eq!(pop(&mut queue), None);
    advance(Duration::from_secs(1)).await;
    assert_eq!(pop(&mut queue).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_replaces_the_old_entry() {
    let mut queue = SchedulingQueue::default();
    add(&mut queue, "a", 0);
    reject_next(&mut queue, Plugin::NodeResourcesFit);
    queue.add(&"a".into(), &"another".into(), 0, Instant::now());
    let (_, entry) = queue.pop().unwrap();
    assert_eq!(entry.uid, "another");
    queue.requeue_if(&[Plugin::NodeResourcesFit], Instant::now(), |_, _| true);
    assert!(!queue.has_ready(), "nothing of the first is left");
}

#[tokio::test(start_paused = true)]
async fn a_removed_pod_leaves_no_entry() {
    let mut queue = SchedulingQueue::default();
    for name in ["ready", "parked", "failed"] {
        add(&mut queue, name, 0);
    }
    let (ready, entry) = queue.pop().unwrap();
    queue.add(&ready, &entry.uid, 0, Instant::now());
    reject_next(&mut queue, Plugin::NodePorts);
    let (key, entry) = queue.pop().unwrap();
    queue.add_failed(key, entry, Instant::now());
    for name in ["ready", "parked", "failed"] {
        queue.remove(&name.into());
    }
    assert_eq!(queue.next_due(), None);
    assert!(!queue.has_ready() && !queue.has_rejected_by(&[Plugin::NodePorts]));
}
