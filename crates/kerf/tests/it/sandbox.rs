//! `kerf sandbox` as users and scripts see it.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use crate::program::kerf;

/// Runs a shell script with `kerf sandbox --no-controller`.
fn run_in_sandbox(arguments: &[&str], script: &str) -> crate::program::RunResult {
    let mut all = vec!["sandbox", "--no-controller"];
    all.extend_from_slice(arguments);
    all.extend_from_slice(&["--", "/bin/sh", "-c", script]);
    kerf(&all).run()
}

#[test]
fn a_command_gets_a_private_kubeconfig_and_its_exit_code_is_returned() {
    let output = run_in_sandbox(
        &[],
        "stat -c '%a %F' \"$KUBECONFIG\" \"$(dirname \"$KUBECONFIG\")\"; grep server: \"$KUBECONFIG\"; echo at $KUBECONFIG; exit 7",
    );
    assert_eq!(output.code, 7, "{}", output.stderr);
    let lines: Vec<&str> = output.stdout.lines().map(str::trim).collect();
    assert_eq!(lines[0], "600 regular file");
    assert_eq!(lines[1], "700 directory");
    assert!(lines[2].starts_with("server: https://127.0.0.1:"), "{}", lines[2]);
    let path = lines[3].strip_prefix("at ").unwrap();
    assert!(!std::path::Path::new(path).exists(), "{path} is left behind");
    assert_eq!(output.stderr, "");
}

#[test]
fn a_killed_command_and_a_missing_command_set_the_exit_code() {
    assert_eq!(run_in_sandbox(&[], "kill -TERM $$").code, 128 + 15);
    let output = kerf(&["sandbox", "--no-controller", "--", "/nonexistent/program"]).run();
    assert_eq!(output.code, 1);
    assert!(output.stderr.starts_with("error: cannot run `/nonexistent/program`: "), "{}", output.stderr);
}

#[test]
fn an_existing_kubeconfig_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "mine").unwrap();
    let text = path.to_str().unwrap();
    let output = run_in_sandbox(&["--kubeconfig", text], "true");
    assert_eq!(output.code, 2);
    assert_eq!(
        output.stderr,
        format!("error: --kubeconfig: {text} already exists\nhint:  give another path, or delete the file first\n")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_file(&path).unwrap();
    let output = run_in_sandbox(&["--kubeconfig", text], "echo $KUBECONFIG");
    assert_eq!((output.code, output.stdout.trim()), (0, text));
    assert!(!path.exists());
}

#[test]
fn kubectl_lists_nodes_that_become_ready() {
    let kubectl = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent";
    let output = run_in_sandbox(
        &["--nodes", "2", "--instant"],
        &format!(
            "{kubectl} kubectl wait node --all --for=condition=Ready --timeout=60s && {kubectl} kubectl get nodes -o name"
        ),
    );
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.ends_with("node/node-1\nnode/node-2\n"), "{}", output.stdout);
}

#[test]
fn a_sandbox_prints_how_to_use_it_and_stops_cleanly() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
        .args(["sandbox", "--no-controller", "--nodes", "1", "--instant"])
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "A Kubernetes cluster runs in this process. In another terminal:");
    let export = lines.find(|line| line.contains("export KUBECONFIG=")).unwrap();
    let path = export.trim().strip_prefix("export KUBECONFIG=").unwrap().to_owned();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(lines.any(|line| line == "node node-1 is ready (1 node, $0.0000/h)"));
    let kill_status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill_status.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!std::path::Path::new(&path).exists(), "{path} is left behind");
}

// kubectl watches one kind at a time, so the hint must name one kind.
#[test]
fn the_demo_prints_how_to_watch_it() {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
        .args(["sandbox", "--demo"])
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let hints: Vec<String> =
        lines.skip_while(|line| !line.contains("KUBECONFIG=")).skip(1).take_while(|line| !line.is_empty()).collect();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    insta::assert_snapshot!(hints.join("\n"), @r"
      kubectl get nodeclaims -w
      kerf plan                                     # what Kerf would do now
    ");
}

#[test]
fn a_port_in_use_is_reported_with_its_flag() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for (flag, arguments) in [("--port", &["--no-controller"][..]), ("--metrics-port", &[])] {
        let output = kerf(&[&["sandbox", flag, &port], arguments, &["--", "sleep", "60"]].concat()).run();
        let expected = format!(
            "error: {flag} {port}: cannot listen on the port: Address already in use (os error 98)\n\
             hint:  stop the program that uses the port, or give another port with {flag}\n"
        );
        assert_eq!((output.code, output.stderr), (1, expected));
    }
}

#[test]
fn a_controller_without_crds_logs_how_to_install_them() {
    let kerf = assert_cmd::cargo::cargo_bin!("kerf");
    let mut child = Command::new(kerf)
        .args(["sandbox", "--no-controller", "--instant", "--"])
        .arg(kerf)
        .args(["controller", "--disable-leader-election", "--metrics-port=0", "--health-probe-port=0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("kind is not installed") && line.contains("NodePool")).unwrap();
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["hint"], "kerf crds | kubectl apply --server-side -f -");
}

// A signal to the sandbox also ends the command, and the command can stop its own children first.
#[test]
fn a_command_gets_sigterm_before_it_is_killed() {
    let script = "trap 'echo tidied up; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("kerf"))
        .args(["sandbox", "--no-controller", "--", "/bin/sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "ready"));
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(lines.next().as_deref(), Some("tidied up"));
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// A pool and a deployment of twelve pods with one CPU each.
const POOL_AND_DEPLOYMENT: &str = r#"
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: []
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 12
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx, resources: {requests: {cpu: "1"}}}]
"#;

// Spec 09 section 3: the sandbox includes Kerf. Pods are pending, Kerf creates claims and nodes,
// and the pods run. Deleting a claim drains its node, and the node's pods run on another.
#[test]
fn kerf_grows_the_cluster_and_drains_a_node_that_is_deleted() {
    let folder = crate::program::temp_folder(&[("growing.yaml", POOL_AND_DEPLOYMENT)]);
    let script = format!(
        "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent; set -e
        kubectl apply -f {} >&2
        kubectl rollout status deployment/web --timeout=300s >&2
        kubectl delete $(kubectl get nodeclaims -o name | head -1) --timeout=300s >&2
        kubectl rollout status deployment/web --timeout=300s >&2
        kubectl get pods --no-headers | awk '{{print $3}}' | sort | uniq -c
        kubectl get nodeclaims -o jsonpath='{{.items[*].status.conditions[?(@.type==\"Ready\")].status}}'",
        folder.path().join("growing.yaml").display(),
    );
    let output = kerf(&["sandbox", "--instant", "--", "/bin/sh", "-c", &script]).run();
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let (pods, claims) = output.stdout.trim().split_once('\n').unwrap();
    assert_eq!(pods.trim(), "12 Running", "{}", output.stderr);
    assert!(!claims.is_empty() && claims.split(' ').all(|ready| ready == "True"), "{claims}");
}

/// Runs a shell script with `kerf sandbox --provider aws`, without controllers. `$KERF` is the
/// program.
fn run_in_aws_sandbox(script: &str) -> crate::program::RunResult {
    let kerf_path = env!("CARGO_BIN_EXE_kerf");
    run_in_sandbox(&["--provider", "aws"], &format!("KERF='{kerf_path}'; {script}"))
}

#[test]
fn the_account_of_a_running_sandbox_is_changed_by_hand() {
    let output = run_in_aws_sandbox(
        "$KERF sandbox aws; $KERF sandbox aws 'deny: [ec2:CreateFleet]' && \
         $KERF sandbox aws 'publishImages: {release: \"20260115\", bottlerocket: 1.53.0}' && echo changed",
    );
    let expected = "[]\ndeny: done\npublishImages: `@latest` is 20260115 and 1.53.0 of Bottlerocket\nchanged\n";
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, expected, ""));
}

#[test]
fn a_zonal_shift_by_hand_needs_a_controller_that_honours_it() {
    let script = format!("'{}' sandbox aws 'zonalShift: {{zone: us-west-2a, for: 10m}}'", env!("CARGO_BIN_EXE_kerf"));
    let output = run_in_aws_sandbox(&script);
    assert!(
        output.stdout.starts_with("zonalShift: away from us-west-2a (usw2-az"),
        "{}{}",
        output.stdout,
        output.stderr
    );
    let output = run_in_sandbox(&["--provider", "aws", "--enable-zonal-shift=false"], &script);
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (2, "error: zonalShift: Kerf does not honour zonal shifts here; start the sandbox with --enable-zonal-shift\n")
    );
}

#[test]
fn a_wrong_change_of_the_account_says_what_is_wrong() {
    let problem = |change: &str| {
        let output = run_in_aws_sandbox(&format!("$KERF sandbox aws '{change}'"));
        assert_eq!(output.code, 2, "{change}: {}", output.stderr);
        output.stderr
    };
    assert_eq!(
        problem("{reclaim: {pool: default}, deleteQueue: other}"),
        "error: reclaim: no live instance matches, or the action does not apply to it; deleteQueue: there is no queue \
         other\n"
    );
    assert!(
        problem("reclaims: {}").starts_with("error: reclaims: there is no such field; the fields are addReservation")
    );
    assert!(problem("stockOut: {for: soon}").starts_with("error: stockOut.for: time: invalid duration \"soon\""));
    assert_eq!(
        problem("price: {instanceType: 5, perHour: \"1\"}"),
        "error: price.capacityType: is missing; price.instanceType: must be a text, is 5\n"
    );
    assert!(problem("[]").starts_with("error: the change is no mapping: write for example"));
    let older = problem("publishImages: {release: \"20200101\", bottlerocket: 1.53.0}");
    assert!(older.starts_with("error: publishImages: release: 20200101 is not newer than 2025"), "{older}");
    assert!(problem("{}").starts_with("error: has no action: add for example reclaim"));
    assert!(
        problem("zonalShift: {zone: nowhere, for: 1h}").contains("there is no zone nowhere; use one of us-west-2a")
    );
    let output = run_in_sandbox(&[], &format!("'{}' sandbox aws 'reclaim: {{}}'", env!("CARGO_BIN_EXE_kerf")));
    assert!(output.stderr.contains("start it with --provider aws"), "{}", output.stderr);
}
