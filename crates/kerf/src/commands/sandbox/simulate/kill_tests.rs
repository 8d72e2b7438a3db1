//! Kills the controller right after each of its writes, in small scenarios with a registration
//! delay. The next process must complete the work: no invariant is violated, and the cluster ends
//! with as many nodes as without a kill.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use kerf_sandbox::ApiServer;
use tokio::sync::Notify;
use tower::Service as _;

use super::*;
use crate::args::Settings;

/// A client of the controller that kills its process after a write.
#[derive(Clone)]
struct KillSwitch {
    writes: Arc<AtomicUsize>,
    /// Index of the write after which the process is killed; `None` only counts writes.
    kill_after: Option<usize>,
    killed: Arc<Notify>,
}

impl KillSwitch {
    fn new(kill_after: Option<usize>) -> Self {
        Self { writes: Arc::default(), kill_after, killed: Arc::default() }
    }

    fn client(&self, server: &ApiServer) -> kube::Client {
        let (server, switch) = (server.clone(), self.clone());
        let service = tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (mut server, switch) = (server.clone(), switch.clone());
            request.headers_mut().insert(http::header::USER_AGENT, http::HeaderValue::from_static("kerf"));
            let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/events");
            async move {
                let response = server.call(request).await;
                if is_write && Some(switch.writes.fetch_add(1, Ordering::SeqCst)) == switch.kill_after {
                    switch.killed.notify_one();
                    std::future::pending::<()>().await;
                }
                response
            }
        });
        kube::Client::new(service, "default")
    }
}

/// Runs a scenario and kills the first process after a write. Returns the report and the number of
/// writes of the first process.
fn run_with_kill(scenario: &str, kill_after: Option<usize>) -> (SimulationReport, usize) {
    let choice = ProviderChoice { selected: None, default: ProviderName::Kwok };
    let NamedScenario { scenario, .. } = read_scenario(scenario, Path::new("scenario"), choice).unwrap();
    let provider = provider::built_in_kwok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Clock::with_jumps(VIRTUAL_START_TIME.parse().unwrap());
        let cluster = Cluster::start(ClusterConfig { clock, seed: 1, timing: Timing::LIFELIKE });
        install_provider_crds(cluster.api(), provider.as_ref()).await.unwrap();
        let switch = KillSwitch::new(kill_after);
        let kerf = SandboxController::new(Settings::defaults(), 1);
        let start = |start: ReplicaStart| {
            let is_first = start.number == 0;
            let mut kerf = kerf.for_replica(start);
            if is_first {
                kerf.client = Some(switch.client(cluster.api()));
            }
            let controllers = controllers_under_test(&cluster, kerf, provider.clone());
            let killed = switch.killed.clone();
            async move {
                tokio::select! {
                    biased;
                    () = killed.notified(), if is_first => {}
                    () = controllers => {}
                }
            }
            .boxed()
        };
        let report = Simulation { scenario, seed: 1, output: None }.run(&cluster, start, async || None, drop).await;
        (report, switch.writes.load(Ordering::SeqCst))
    })
}

/// Returns a scenario with a Deployment of `replicas` pods, and these steps.
fn scenario(replicas: u32, until: &str, steps: &str) -> String {
    format!(
        "
name: Killed after a write
until: {until}
steps:
  - at: 0s
    apply:
      - apiVersion: karpenter.kwok.sh/v1alpha1
        kind: KWOKNodeClass
        metadata: {{name: default}}
        spec: {{nodeRegistrationDelay: 20s}}
      - apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {{name: default}}
        spec:
          disruption: {{consolidateAfter: 30s}}
          template:
            spec:
              nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}
              requirements:
                - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
                - {{key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['2']}}
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: web}}
        spec:
          replicas: {replicas}
          selector: {{matchLabels: {{app: web}}}}
          template:
            metadata: {{labels: {{app: web}}}}
            spec:
              containers: [{{name: c, image: i, resources: {{requests: {{cpu: 900m, memory: 1Gi}}}}}}]
{steps}"
    )
}

/// Kills the controller after each write of a scenario.
fn kill_after_each_write(scenario: &str, min_writes: usize) {
    let (expected, writes) = run_with_kill(scenario, None);
    assert_eq!(expected.violations, []);
    assert!(writes >= min_writes, "{writes} writes");
    for write in 0..writes {
        let (report, _) = run_with_kill(scenario, Some(write));
        assert_eq!(report.violations, [], "killed after write {write} of {writes}");
        assert_eq!(report.nodes.at_end, expected.nodes.at_end, "killed after write {write} of {writes}");
    }
}

// spec 04 §15; "the controller is killed between any two of its writes"
#[test]
fn a_kill_after_any_write_of_a_scale_out_loses_nothing() {
    let steps = "  - {at: 9m, expect: {podsRunning: 3, podsPending: 0}}\n";
    kill_after_each_write(&scenario(3, "10m", steps), 10);
}

#[test]
fn a_kill_after_any_write_of_a_scale_in_loses_nothing() {
    let steps = "  - {at: 4m, scale: {kind: Deployment, name: web, replicas: 1}}\n";
    kill_after_each_write(&scenario(3, "15m", steps), 15);
}

#[test]
fn a_kill_after_any_write_of_a_drift_loses_nothing() {
    let patch = "{spec: {template: {metadata: {labels: {generation: two}}}}}";
    let steps = format!("  - {{at: 4m, patch: {{kind: NodePool, name: default, merge: {patch}}}}}\n");
    kill_after_each_write(&scenario(2, "15m", &steps), 15);
}
