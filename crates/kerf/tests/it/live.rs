//! Commands that use a live cluster, which is here the sandbox's API server on the loopback
//! address.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use kerf_api::crds::CrdVariant;
use kerf_api::kwoknodeclass::KWOKNodeClass;
use kerf_api::nodeclaim::NodeClaim;
use kerf_api::nodepool::NodePool;
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig, ServerHandle, install_crds};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::program::{kerf, temp_folder};

struct LiveCluster {
    server: ApiServer,
    server_handle: ServerHandle,
    folder: tempfile::TempDir,
}

impl LiveCluster {
    /// Starts a cluster with Kerf's CRDs, a pool and three pending pods.
    async fn start() -> Self {
        let server = ApiServer::new(ApiServerConfig::new(Clock::system(), 7));
        let server_handle = server.serve(0).await.unwrap();
        let folder = temp_folder(&[("kubeconfig", server_handle.kubeconfig())]);
        let cluster = Self { server, server_handle, folder };
        let client = cluster.server.client();
        install_crds(&client, CrdVariant::Kwok).await.unwrap();
        let class = json!({"metadata": {"name": "default"}, "spec": {}});
        let classes: Api<KWOKNodeClass> = Api::all(client.clone());
        classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
        let pool = json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}});
        let pools: Api<NodePool> = Api::all(client.clone());
        pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
        for name in ["a", "b", "c"] {
            cluster.create_pending_pod(name).await;
        }
        cluster
    }

    async fn create_pending_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.server.client());
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "1"}}}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status =
            json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    fn kubeconfig(&self) -> String {
        self.folder.path().join("kubeconfig").display().to_string()
    }

    async fn count_claims(&self) -> usize {
        let claims: Api<NodeClaim> = Api::all(self.server.client());
        claims.list(&ListParams::default()).await.unwrap().items.len()
    }
}

// spec 09 #15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_reads_the_live_cluster_and_writes_nothing() {
    let cluster = LiveCluster::start().await;
    cluster.server.start_audit();
    let before = cluster.server.revision();
    let kubeconfig = cluster.kubeconfig();
    let plan = || kerf(&["plan", "-o", "json", "--no-stats"]).env("KUBECONFIG", &kubeconfig);
    let output = tokio::task::block_in_place(|| plan().run());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let plan: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(plan["provisioning"]["nodeClaims"][0]["pods"], json!(["default/a", "default/b", "default/c"]));
    assert_eq!(cluster.server.take_audit(), [], "the API server's audit has no write");
    assert_eq!(cluster.server.revision(), before);
    drop(cluster.server_handle);
}

// spec 12 section 5: proxies
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_not_used_for_a_loopback_address() {
    let cluster = LiveCluster::start().await;
    let kubeconfig = cluster.kubeconfig();
    let plan = kerf(&["plan", "-o", "json"]).env("KUBECONFIG", &kubeconfig).env("HTTPS_PROXY", "http://127.0.0.1:1");
    let output = tokio::task::block_in_place(|| plan.run());
    assert_eq!(output.code, 0, "{}", output.stderr);
}

// spec 12 section 5: proxies
#[test]
fn a_proxy_is_used_for_the_api_server_and_named_if_it_fails() {
    const KUBECONFIG: &str = "
clusters: [{name: c, cluster: {server: 'https://api.example.invalid:6443'}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap();
    let requests = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1000];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
        String::from_utf8(request[..length].to_vec()).unwrap()
    });
    let folder = temp_folder(&[("config", KUBECONFIG)]);
    let plan = |proxy: &str, no_proxy: &str| {
        let plan = kerf(&["plan"]).env("KUBECONFIG", "config").env("HTTPS_PROXY", proxy).env("NO_PROXY", no_proxy);
        plan.current_dir(folder.path()).transcript()
    };
    let transcript = plan(&format!("http://user:secret@{proxy}"), "localhost,10.0.0.0/8");
    insta::assert_snapshot!(transcript.replace(&proxy.to_string(), "PROXY"), @r"
    exit code 1
    --- stderr
    error: cannot reach https://api.example.invalid:6443 (KUBECONFIG config, proxy PROXY): tunnel error: unsuccessful
    hint:  check with `kubectl version` that the API server runs, or set KUBECONFIG to another file
    ");
    let request = requests.join().unwrap();
    assert!(request.starts_with("CONNECT api.example.invalid:6443 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("\r\nproxy-authorization: basic "), "{request}");
    insta::assert_snapshot!(plan("http://proxy", "a,,b"), @r"
    exit code 2
    --- stderr
    error: the value of NO_PROXY cannot be used: comma-separated value is empty
    hint:  NO_PROXY lists names, addresses and ranges with commas between them, for example localhost,10.0.0.0/8,.svc
    ");
}

const ZONE_SPREAD_CONFIG: &str = "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}";

// spec 02 #105, on the command line
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_spreads_as_the_scheduler_of_the_live_cluster_is_configured() {
    let cluster = LiveCluster::start().await;
    let kubeconfig = cluster.kubeconfig();
    let count_planned_claims = || {
        let plan =
            kerf(&["plan", "-o", "json", "--scheduler-config", ZONE_SPREAD_CONFIG]).env("KUBECONFIG", &kubeconfig);
        let output = tokio::task::block_in_place(|| plan.run());
        assert_eq!(output.code, 0, "{}", output.stderr);
        let plan: Value = serde_json::from_str(&output.stdout).unwrap();
        plan["provisioning"]["nodeClaims"].as_array().unwrap().len()
    };
    assert_eq!(count_planned_claims(), 1, "no workload selects the pods");
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let services: Api<Service> = Api::default_namespaced(cluster.server.client());
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    assert_eq!(count_planned_claims(), 3);
}

/// A child process that is killed when the test ends.
struct RunningKerf(Child);

impl Drop for RunningKerf {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// spec 09 section 4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controller_runs_on_the_cluster_of_the_kubeconfig_and_stops_cleanly() {
    let cluster = LiveCluster::start().await;
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("kerf"));
    command.args(["controller", "-metrics-port=0", "--health-probe-port=0", "--batch-idle-duration=100ms"]);
    command.args(["--leader-election-namespace", "kube-system"]);
    // No Service or workload selects the pods, so they are not spread. The controller still logs
    // the default constraints at its start (spec 07 section 2.5).
    command
        .env_clear()
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("SCHEDULER_CONFIG", ZONE_SPREAD_CONFIG)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut controller = RunningKerf(command.spawn().unwrap());
    // Wait as long as a busy machine takes; the timeout of the test runner is the only limit.
    while cluster.count_claims().await == 0 {
        assert!(controller.0.try_wait().unwrap().is_none(), "the controller ended by itself");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cluster.count_claims().await, 1);
    let kill_status = Command::new("kill").args(["-TERM", &controller.0.id().to_string()]).status().unwrap();
    assert!(kill_status.success());
    let code = tokio::task::block_in_place(|| controller.0.wait().unwrap()).code();
    assert_eq!(code, Some(0), "SIGTERM ends it well");
    let mut log = String::new();
    std::io::Read::read_to_string(controller.0.stdout.as_mut().unwrap(), &mut log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages[0], "spreading pods without constraints of their own by default", "{log}");
    let constraints =
        r#"[{"maxSkew":1,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]"#;
    assert_eq!((&lines[0]["level"], &lines[0]["constraints"]), (&json!("INFO"), &json!(constraints)));
    assert_eq!(messages[1], "successfully acquired lease", "{log}");
    assert!(messages.contains(&"created nodeclaim"), "{log}");
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(cluster.server.client(), "kube-system");
    let lease = leases.get("karpenter-leader-election").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some(""), "the lease is released");
}

// spec 07 section 3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_use_is_reported_with_the_flag_that_changes_it() {
    let cluster = LiveCluster::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for flag in ["--metrics-bind-address", "--health-probe-bind-address"] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("kerf"));
        command.args(["controller", "--metrics-port=0", "--health-probe-port=0", "--debug-address=0"]);
        command.arg(format!("{flag}={address}")).env_clear().env("KUBECONFIG", cluster.kubeconfig());
        let output = tokio::task::block_in_place(|| command.output().unwrap());
        let expected = format!(
            "error: {flag} {address}: cannot listen on the address: Address already in use (os error 98)\n\
             hint:  stop the program that uses the port, or give another address with {flag}\n"
        );
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()), (Some(1), expected));
    }
}

// spec 07 #12: nothing is started
#[test]
fn an_invalid_scheduler_configuration_is_fatal() {
    let invalid_config = ZONE_SPREAD_CONFIG.replace("maxSkew: 1", "maxSkew: 0").replace("DoNot", "Do");
    for command in [&["controller"][..], &["sandbox", "--", "true"], &["plan", "-f", "-"]] {
        let arguments = [&command[..1], &["--scheduler-config", &invalid_config], &command[1..]].concat();
        let output = kerf(&arguments).run();
        assert_eq!(output.code, 2, "{command:?}");
        let at = "parsing scheduler config, validating scheduler config, podTopologySpread.defaultConstraints[0]";
        for why in [".maxSkew must be greater than 0", ".whenUnsatisfiable \"DoSchedule\" must be one of"] {
            assert!(output.stderr.contains(&format!("{at}{why}")), "{command:?}: {}", output.stderr);
        }
    }
}

#[test]
fn the_controller_without_a_cluster_prints_a_hint() {
    let output = kerf(&["controller"]).run();
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("hint:  set KUBECONFIG, or run in a pod with a service account"),
        "{}",
        output.stderr
    );
}

// spec 07 #4 and #5, on the command line
#[test]
fn all_invalid_settings_are_reported_together() {
    let output = kerf(&["controller", "-log-level=trace", "-disable-leader-election=yes"]).run();
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("invalid LOG_LEVEL \"trace\"") && output.stderr.contains("must be true or false"),
        "{}",
        output.stderr
    );
}
