//! Content and format of log lines, and which lines are omitted (spec 07 §7).

use k8s_openapi::api::core::v1::Node;
use kerf_api::nodeclaim::NodeClaim;
use tracing::{debug, error, info};

use super::*;

/// Returns the lines that `work` logs.
fn captured_lines(level: Level, format: LineFormat, work: impl FnOnce()) -> Vec<String> {
    let (subscriber, lines) = capturing_subscriber(level, format);
    tracing::subscriber::with_default(subscriber, work);
    lines.text().lines().map(ToOwned::to_owned).collect()
}

fn enter_claim_span() -> tracing::span::EnteredSpan {
    span(ControllerName::of_kind("nodeclaim.lifecycle", ObjectKind::of::<NodeClaim>()), &"default-5dt5n".into(), "6f0d")
        .entered()
}

// spec 07 #21 and #23: the example of spec 07 §7.1, key by key.
#[tokio::test(start_paused = true)]
async fn a_line_of_an_object_controller_has_all_fields_in_order() {
    let lines = captured_lines(Level::Info, LineFormat::Json, || {
        let _span = enter_claim_span();
        info!("provider-id" = "aws:///i-1", allocatable = %json(serde_json::json!({"cpu": "7910m"})), "launched nodeclaim");
    });
    let expected = r#"{"level":"INFO","time":"2026-08-01T10:00:24.530Z","logger":"controller","message":"launched nodeclaim","commit":"COMMIT","controller":"nodeclaim.lifecycle","controllerGroup":"karpenter.sh","controllerKind":"NodeClaim","NodeClaim":{"name":"default-5dt5n"},"namespace":"","name":"default-5dt5n","reconcileID":"6f0d","provider-id":"aws:///i-1","allocatable":{"cpu":"7910m"}}"#;
    assert_eq!(lines, [expected.replace("COMMIT", COMMIT)]);
}

// spec 07 #22 and #23
#[tokio::test(start_paused = true)]
async fn lines_of_singletons_and_core_kinds_have_the_right_fields() {
    let lines = captured_lines(Level::Info, LineFormat::Json, || {
        span(ControllerName::singleton("provisioner"), &"".into(), "1")
            .in_scope(|| info!("found provisionable pod(s)"));
        let node = span(ControllerName::of_kind("node.termination", ObjectKind::of::<Node>()), &"n1".into(), "2");
        node.in_scope(|| error!(error = "no \"quotes\"", Pod = %namespaced_reference("ns", "p"), "Reconciler error"));
    });
    let parsed: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&parsed[0]["namespace"], &parsed[0]["name"]), (&"".into(), &"".into()));
    assert!(parsed[0].get("controllerKind").is_none());
    assert_eq!(parsed[1]["controllerGroup"], "");
    assert_eq!(parsed[1]["Node"]["name"], "n1");
    assert_eq!(parsed[1]["Pod"], serde_json::json!({"name": "p", "namespace": "ns"}));
    assert_eq!(parsed[1]["error"], "no \"quotes\"");
}

// spec 07 #24
#[tokio::test(start_paused = true)]
async fn the_level_selects_lines_and_debug_adds_callers() {
    let work = || {
        debug!("d");
        info!("i");
        error!("e");
        info!(target: "hyper", "not ours");
    };
    let messages = |level| {
        let lines = captured_lines(level, LineFormat::Json, work);
        assert_eq!(lines.iter().all(|line| line.contains("\"caller\":\"")), level == Level::Debug);
        lines
            .iter()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["message"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(messages(Level::Error), ["e"]);
    assert_eq!(messages(Level::Info), ["i", "e"]);
    assert_eq!(messages(Level::Debug), ["d", "i", "e", "not ours"]);
}

#[tokio::test(start_paused = true)]
async fn two_layers_of_one_subscriber_have_a_level_each() {
    use tracing_subscriber::layer::SubscriberExt as _;

    let clock = kerf_runtime::Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    for (first, second) in [(Level::Info, Level::Debug), (Level::Info, Level::Error), (Level::Error, Level::Info)] {
        let outputs = [CapturedLog::default(), CapturedLog::default()];
        let layer = |level: Level, other: Level, output: &CapturedLog| {
            let settings = LogSettings { level, format: LineFormat::Console };
            LogLayer::new(settings, clock, vec![Box::new(output.clone())]).beside(other)
        };
        let layers = (layer(first, second, &outputs[0]), layer(second, first, &outputs[1]));
        let subscriber = tracing_subscriber::registry().with(layers.0).with(layers.1);
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        tracing::subscriber::with_default(subscriber, || {
            let _span = enter_claim_span();
            debug!("d");
            info!("i");
            error!("e");
        });
        for (level, output) in [(first, &outputs[0]), (second, &outputs[1])] {
            let text = output.text();
            let logged = ["DEBUG d", "INFO  i", "ERROR e"].map(|line| text.contains(line));
            assert_eq!(logged, [level == Level::Debug, level != Level::Error, true], "{level:?}: {text}");
        }
    }
}

// spec 07 #27
#[tokio::test(start_paused = true)]
async fn repeated_lines_are_sampled() {
    let lines = captured_lines(Level::Info, LineFormat::Json, || {
        for i in 0..1000 {
            info!(i, "again");
            if i == 500 {
                info!("other");
            }
        }
    });
    assert_eq!(lines.len(), 109 + 1);
}

#[tokio::test(start_paused = true)]
async fn the_console_format_lists_key_value_pairs() {
    let lines = captured_lines(Level::Info, LineFormat::Console, || {
        let _span = enter_claim_span();
        info!(zone = "a", count = 3, "launched nodeclaim");
    });
    assert_eq!(
        lines,
        [
            r#"2026-08-01T10:00:24.530Z INFO  launched nodeclaim controller="nodeclaim.lifecycle" controllerGroup="karpenter.sh" controllerKind="NodeClaim" NodeClaim={"name":"default-5dt5n"} name="default-5dt5n" reconcileID="6f0d" zone="a" count=3"#
        ]
    );
}

// spec 07 #26
#[test]
fn long_lists_are_truncated() {
    assert_eq!(join_names_truncated(&["a", "b"], 5), "a, b");
    assert_eq!(join_names_truncated(&["a", "b", "c", "d", "e", "f", "g"], 5), "a, b, c, d, e and 2 other(s)");
}
