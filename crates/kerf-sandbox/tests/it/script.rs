//! Scripts of kubectl steps against a whole cluster. A script reads like a terminal session:
//!
//! ```text
//! $ kubectl get nodes -o name     must succeed and print the following lines, in this order
//! node/node-1
//! ! kubectl get node x            must fail and print the following lines
//! (NotFound)
//! ~ kubectl get pods              is repeated until it prints the following lines
//! Running
//! ```
//! An expected line matches an output line that contains it; runs of blanks count as one. The
//! manifests are files beside the scripts.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use kerf_runtime::Clock;
use kerf_sandbox::{Cluster, ClusterConfig, ServerHandle, Timing};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Maximum number of attempts of a `~` step.
const MAX_EVENTUALLY_ATTEMPTS: usize = 120;

/// A cluster with three nodes, served on a socket for other programs.
pub(crate) struct TestCluster {
    _cluster: Cluster,
    _serving: ServerHandle,
    home: TempDir,
}

impl TestCluster {
    pub(crate) async fn start() -> Self {
        let config = ClusterConfig { clock: Clock::system(), seed: 1, timing: Timing::INSTANT };
        let cluster = Cluster::start(config);
        cluster.add_nodes(3).unwrap();
        let serving = cluster.api().serve(0).await.unwrap();
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("kubeconfig"), serving.kubeconfig()).unwrap();
        Self { _cluster: cluster, _serving: serving, home }
    }

    /// Returns a command with the cluster's kubeconfig, in the folder of the scripts.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder()).env("KUBECONFIG", self.home.path().join("kubeconfig"));
        command.env("HOME", self.home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Writes a file into the home folder of the commands.
    pub(crate) fn write_file(&self, name: &str, content: &[u8]) {
        std::fs::write(self.home.path().join(name), content).unwrap();
    }

    /// Returns the cluster's kubeconfig without its token.
    pub(crate) fn kubeconfig_without_user(&self) -> String {
        let kubeconfig = std::fs::read_to_string(self.home.path().join("kubeconfig")).unwrap();
        let is_token = |line: &str| line.trim_start().starts_with("token:");
        let without_user = kubeconfig.replace("  user:\n", "  user: {}\n");
        without_user.lines().filter(|line| !is_token(line)).collect::<Vec<_>>().join("\n")
    }

    /// Runs a command line in the folder of the scripts. Returns true if it succeeded, and its
    /// output on stdout and stderr.
    async fn run(&self, line: &str) -> (bool, String) {
        self.run_in(&folder(), line).await
    }

    /// Runs a command line in the home folder. Returns true if it succeeded, and its output on
    /// stdout and stderr.
    pub(crate) async fn run_at_home(&self, line: &str) -> (bool, String) {
        self.run_in(self.home.path(), line).await
    }

    async fn run_in(&self, folder: &Path, line: &str) -> (bool, String) {
        let mut words = words(line).into_iter();
        let program = words.next().unwrap();
        let output = self.command(program).current_dir(folder).args(words).output().await.unwrap_or_else(|problem| {
            panic!("`{program}` is needed for this test and cannot be run ({problem}): `make tools` installs it")
        });
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    }

    /// Runs a script and returns the number of its steps.
    pub(crate) async fn run_script(&self, name: &str) -> usize {
        let script = std::fs::read_to_string(folder().join(name)).unwrap();
        let steps = steps(&script);
        for step in &steps {
            self.run_step(name, step).await;
        }
        steps.len()
    }

    async fn run_step(&self, script: &str, step: &ScriptStep<'_>) {
        for attempt in 1.. {
            let (succeeded, text) = self.run(step.line).await;
            let missing = missing(&text, &step.expected);
            if succeeded == (step.expectation != Expectation::Fails) && missing.is_none() {
                return;
            }
            // Each attempt starts a process, which takes long enough: no wait is needed in between.
            if step.expectation == Expectation::Eventually && attempt < MAX_EVENTUALLY_ATTEMPTS {
                continue;
            }
            let missing = missing.unwrap_or_default();
            panic!(
                "{script}, line {}: {}\nsucceeded: {succeeded}; not said: {missing:?}; said:\n{text}",
                step.number, step.line
            );
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scripts")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation {
    Succeeds,
    Fails,
    Eventually,
}

struct ScriptStep<'a> {
    number: usize,
    expectation: Expectation,
    line: &'a str,
    expected: Vec<&'a str>,
}

fn steps(script: &str) -> Vec<ScriptStep<'_>> {
    let mut steps: Vec<ScriptStep<'_>> = Vec::new();
    for (index, line) in script.lines().enumerate() {
        let (expectation, rest) = match line.split_at_checked(2) {
            Some(("$ ", rest)) => (Expectation::Succeeds, rest),
            Some(("! ", rest)) => (Expectation::Fails, rest),
            Some(("~ ", rest)) => (Expectation::Eventually, rest),
            _ if line.trim().is_empty() || line.starts_with('#') => continue,
            _ => {
                steps.last_mut().expect("a script begins with a step").expected.push(line);
                continue;
            }
        };
        steps.push(ScriptStep { number: index + 1, expectation, line: rest, expected: Vec::new() });
    }
    steps
}

/// Returns the first expected line that the text does not contain in the given order.
fn missing(text: &str, expected: &[&str]) -> Option<String> {
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    let mut rest = lines.iter();
    expected.iter().map(|line| squeezed(line)).find(|wanted| !rest.any(|line| line.contains(wanted.as_str())))
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a command line. Single quotes group words.
fn words(line: &str) -> Vec<&str> {
    line.split('\'')
        .enumerate()
        .flat_map(|(index, part)| if index % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_with_workloads() {
    assert!(TestCluster::start().await.run_script("workloads.steps").await >= 55);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_with_nodes_and_drains() {
    assert!(TestCluster::start().await.run_script("nodes.steps").await >= 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_with_the_api_itself() {
    assert!(TestCluster::start().await.run_script("api.steps").await >= 35);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_works_in_the_first_hour() {
    assert!(TestCluster::start().await.run_script("first-hour.steps").await >= 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_describe_shows_events_of_both_api_versions() {
    let cluster = TestCluster::start().await;
    assert!(cluster.run_at_home("kubectl run web --image=nginx").await.0);
    let (_, uid) = cluster.run_at_home("kubectl get pod web -o jsonpath={.metadata.uid}").await;
    let event = std::fs::read_to_string(folder().join("events-v1.yaml")).unwrap();
    let event = event.replace("name: db-0", &format!("name: web, uid: {uid}"));
    cluster.write_file("event.yaml", event.as_bytes());
    let (succeeded, text) = cluster.run_at_home("kubectl create -f event.yaml").await;
    assert!(succeeded, "{text}");
    let (_, text) = cluster.run_at_home("kubectl describe pod web").await;
    let expected = ["Events:", "Normal Nominated", "karpenter Pod should schedule on: nodeclaim/default-abc"];
    let events: Vec<String> = text.lines().skip_while(|line| !line.starts_with("Events:")).map(squeezed).collect();
    for part in expected {
        assert!(events.iter().any(|line| line.contains(part)), "no {part:?} in\n{text}");
    }
    assert!(events.iter().any(|line| line.contains("Scheduled")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_watches() {
    let cluster = TestCluster::start().await;
    let mut watch = cluster.command("kubectl").args(["get", "pods", "--watch", "--no-headers"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let (succeeded, text) = cluster.run("kubectl run watched --image=nginx").await;
    assert!(succeeded, "{text}");
    let mut seen = Vec::new();
    while !seen.iter().any(|line: &String| line.contains("1/1 Running")) {
        seen.push(squeezed(&lines.next_line().await.unwrap().expect("the watch continues")));
    }
    assert!(seen.iter().all(|line| line.starts_with("watched ")), "{seen:?}");
    watch.kill().await.unwrap();
}
