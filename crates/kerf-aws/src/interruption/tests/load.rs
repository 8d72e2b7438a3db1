//! The work of the interruption queue for many messages, counted. `cargo bench -p kerf-aws --bench
//! load` measures the time.

use super::*;

/// Returns API writes, AWS calls and Events for spot interruptions of `count` nodes.
async fn work(count: usize) -> (usize, usize, usize) {
    let env = InterruptionEnv::new().await;
    env.add_claims(0..count).await;
    for number in 0..count {
        env.send(&spot_interruption(number));
    }
    env.env.server.start_audit();
    env.env.aws.clear_calls();
    while !env.env.aws.queued_messages(QUEUE).is_empty() {
        env.receive().await.unwrap();
    }
    assert_eq!(env.live_claims().await, [""; 0]);
    let writes = env.env.server.take_audit().len();
    (writes, env.env.operations().len(), env.env.events.texts().len())
}

// Per message one deletion of a claim and one of the message, and a tenth of a receive call.
#[tokio::test(start_paused = true)]
async fn the_work_per_message_does_not_grow_with_the_messages() {
    for count in [100, 200, 400] {
        let queue_url = 1;
        assert_eq!(work(count).await, (count, queue_url + count / 10 + count, 4 * count), "{count} messages");
    }
}
