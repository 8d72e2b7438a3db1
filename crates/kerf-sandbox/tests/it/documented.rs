//! The Rust example of docs/SANDBOX.md: the page quotes the marked lines of this file.

use std::time::Duration;

use kerf_runtime::Clock;
use kerf_sandbox::sim::InvariantWatcher;
use kerf_sandbox::{CloudFault, CloudFaultRule, Cluster, ClusterConfig, Fault, FaultRule, Timing};

#[tokio::test(start_paused = true)]
async fn the_example_of_the_documentation_runs() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse()?);
    let by = Duration::from_mins(2);
    // Quoted from here:
    let cluster = Cluster::start(ClusterConfig { clock, seed: 7, timing: Timing::INSTANT });
    let watcher = InvariantWatcher::start(&cluster); // checks the invariants above at every change
    cluster.add_nodes(3)?;
    let client = cluster.api().client_as("kerf"); // no sockets
    cluster.instances().kill_kubelet("node-2"); // events that happen to instances
    cluster.cloud().set_faults(vec![CloudFaultRule::new(CloudFault::SlowBoot { by }, 100_000)], 7);
    cluster.api().set_faults(vec![FaultRule::new(Fault::Conflict, 50_000)], 7);
    tokio::time::sleep(Duration::from_secs(90)).await; // virtual time
    assert!(client.apiserver_version().await.is_ok());
    assert_eq!(watcher.violations(), []);
    // Quoted to here.
    Ok(())
}

#[test]
fn the_documentation_quotes_this_file() {
    let page = include_str!("../../../../docs/SANDBOX.md");
    let quoted: Vec<&str> =
        page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap().lines().collect();
    let source = include_str!("documented.rs").lines().map(str::trim);
    let marked: Vec<&str> = source
        .skip_while(|line| *line != "// Quoted from here:")
        .skip(1)
        .take_while(|line| *line != "// Quoted to here.")
        .collect();
    assert_eq!(quoted, marked);
}
