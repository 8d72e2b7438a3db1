//! Comparison of the sandbox with kube-apiserver. One script of requests runs against the sandbox
//! in virtual time, and its responses are compared field by field with those of the real server. A
//! difference that docs/SANDBOX.md does not list fails the test, and so does a listed difference
//! that no longer exists.
//!
//! The real server's responses are in `answers.jsonl`. `hack/controlplane/cluster.sh` sets
//! `KERF_CONTROLPLANE`: the script then runs against the real server first, whose responses must
//! equal the file. `KERF_RECORD=1` writes the file instead.

mod compare;
mod run;
mod script;
mod step;

use kerf_runtime::Clock;
use kerf_sandbox::{Cluster, ClusterConfig, Timing};

use compare::{differences, known_differences};
use run::{RecordedResponse, run};
use step::{RequestStep, SpecExpectation};

const RECORDED_RESPONSES_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fidelity/answers.jsonl");

fn read_recorded() -> Vec<RecordedResponse> {
    let text = std::fs::read_to_string(RECORDED_RESPONSES_PATH).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn write_recorded(responses: &[RecordedResponse]) {
    let lines: Vec<String> = responses.iter().map(|response| serde_json::to_string(response).unwrap() + "\n").collect();
    std::fs::write(RECORDED_RESPONSES_PATH, lines.concat()).unwrap();
}

/// Returns the responses of the server that the kubeconfig names.
fn real_responses(script: &[RequestStep]) -> Vec<RecordedResponse> {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut config = kube::Config::infer().await.unwrap();
        // A rejected eviction is a result here, so it must not be retried.
        config.default_retry = false;
        run(&kube::Client::try_from(config).unwrap(), script).await
    })
}

fn sandbox_responses(script: &[RequestStep]) -> Vec<RecordedResponse> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let cluster = Cluster::start(ClusterConfig { clock, seed: 1, timing: Timing::INSTANT });
        run(&cluster.api().client_as("script"), script).await
    })
}

/// Checks the responses that the specification of the API demands of any server.
fn check_spec_expectations(script: &[RequestStep], responses: &[RecordedResponse]) {
    for (step, response) in script.iter().zip(responses) {
        let Some(expectation) = &step.spec_expectation else { continue };
        let message = response.body["message"].as_str().unwrap_or_default();
        let is_met = match expectation {
            SpecExpectation::Accepted => response.code < 300,
            SpecExpectation::Rejected(text) => response.code == 422 && message.contains(text.as_str()),
        };
        assert!(
            is_met,
            "{}: the specification says {expectation:?}, the server {} {}",
            step.id, response.code, response.body
        );
    }
}

#[test]
fn the_sandbox_answers_as_the_real_server() {
    let script = script::all();
    assert!(script.len() >= 300, "{} requests", script.len());
    let mut ids: Vec<&str> = script.iter().map(|step| step.id.as_str()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "two steps of one name");

    if std::env::var_os("KERF_CONTROLPLANE").is_some() {
        let current = real_responses(&script);
        if std::env::var_os("KERF_RECORD").is_some() {
            write_recorded(&current);
        } else {
            let changed = differences(&current, &read_recorded());
            assert!(changed.is_empty(), "the real server answers otherwise than recorded:\n{}", list(&changed));
        }
    }
    let real = read_recorded();
    let sandbox = sandbox_responses(&script);
    check_spec_expectations(&script, &real);
    check_spec_expectations(&script, &sandbox);

    let (known, actual) = (known_differences(), differences(&real, &sandbox));
    let (_, unknown): (Vec<_>, Vec<_>) =
        actual.iter().partition(|difference| known.iter().any(|row| row.covers(difference)));
    assert!(
        unknown.is_empty(),
        "{} differences that docs/SANDBOX.md does not list:\n{}",
        unknown.len(),
        list(&unknown)
    );
    for row in &known {
        assert!(
            actual.iter().any(|difference| row.covers(difference)),
            "{row:?} is no more: take it out of docs/SANDBOX.md"
        );
    }
}

fn list<D: std::fmt::Display>(differences: &[D]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
