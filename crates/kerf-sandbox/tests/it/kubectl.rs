//! kubectl, an independent client, against the server on a socket.

use std::process::Stdio;

use kerf_api::crds::{self, CrdVariant};
use kerf_runtime::Clock;
use kerf_sandbox::{ApiServer, ApiServerConfig, ServerHandle};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// A server and a folder with its kubeconfig.
struct KubectlFixture {
    _serving: ServerHandle,
    home: TempDir,
}

impl KubectlFixture {
    async fn start() -> Self {
        let serving = ApiServer::new(ApiServerConfig::new(Clock::system(), 1)).serve(0).await.unwrap();
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("kubeconfig"), serving.kubeconfig()).unwrap();
        Self { _serving: serving, home }
    }

    /// Runs kubectl. Returns true if it succeeded, and its output on stdout and stderr.
    async fn run(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", self.home.path().join("kubeconfig")).env("HOME", self.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .expect("kubectl is needed for this test: install it with `apt-get install kubernetes-client` (Debian) and see that it is in PATH");
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    }

    /// Runs kubectl, which must succeed and print each of `parts`.
    async fn expect_success(&self, line: &str, input: &str, parts: &[&str]) {
        let (succeeded, text) = self.run(&words(line), input).await;
        assert!(succeeded, "kubectl {line}\n{text}");
        for part in parts {
            assert!(text.contains(part), "kubectl {line} does not say {part:?}:\n{text}");
        }
    }

    /// Runs kubectl, which must fail and print each of `parts`.
    async fn expect_failure(&self, line: &str, input: &str, parts: &[&str]) {
        let (succeeded, text) = self.run(&words(line), input).await;
        assert!(!succeeded, "kubectl {line}\n{text}");
        for part in parts {
            assert!(text.contains(part), "kubectl {line} does not say {part:?}:\n{text}");
        }
    }
}

/// Splits a command line. Single quotes group words.
fn words(line: &str) -> Vec<&str> {
    line.split('\'')
        .enumerate()
        .flat_map(|(index, part)| if index % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
        .collect()
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'nginx:1.25', ports: [{containerPort: 80}], resources: {requests: {cpu: 500m, memory: 1536Mi}}}
";

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {node-role.kubernetes.io/worker: ''}}
status:
  capacity: {cpu: '4', memory: 8Gi, pods: '110'}
  conditions: [{type: Ready, status: 'True', reason: KubeletReady, message: ready, lastHeartbeatTime: '2026-01-01T00:00:00Z', lastTransitionTime: '2026-01-01T00:00:00Z'}]
  nodeInfo: {kubeletVersion: v1.36.0, architecture: amd64, bootID: '', containerRuntimeVersion: 'kerf://1', kernelVersion: '6', kubeProxyVersion: '', machineID: '', operatingSystem: linux, osImage: Kerf, systemUUID: ''}
";

#[tokio::test(flavor = "multi_thread")]
async fn workloads_are_applied_shown_changed_and_deleted() {
    let cluster = KubectlFixture::start().await;
    cluster
        .expect_success(
            "get ns -o name",
            "",
            &["namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n"],
        )
        .await;
    cluster.expect_success("version", "", &["Server Version: v1.36.0+kerf"]).await;
    cluster.expect_success("apply -f -", DEPLOYMENT, &["deployment.apps/web created"]).await;
    cluster.expect_success("apply -f -", DEPLOYMENT, &["deployment.apps/web unchanged"]).await;
    cluster
        .expect_success("apply -f -", &DEPLOYMENT.replace("1.25", "1.26"), &["deployment.apps/web configured"])
        .await;
    cluster
        .expect_success(
            "get deploy",
            "",
            &["NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    0/2     0            0"],
        )
        .await;
    cluster
        .expect_success(
            "get deploy -o wide",
            "",
            &["CONTAINERS   IMAGES       SELECTOR", "web          nginx:1.26   app=web"],
        )
        .await;
    cluster.expect_success("get deploy web -o jsonpath={.metadata.generation}", "", &["2"]).await;
    cluster
        .expect_success(
            "get deploy web -o jsonpath={.spec.template.spec.containers[0].resources.requests}",
            "",
            &[r#"{"cpu":"500m","memory":"1536Mi"}"#],
        )
        .await;
    cluster.expect_success("scale deploy web --replicas=5", "", &["deployment.apps/web scaled"]).await;
    cluster
        .expect_success("scale deploy web --current-replicas=5 --replicas=3", "", &["deployment.apps/web scaled"])
        .await;
    cluster.expect_success("get deploy web -o jsonpath={.spec.replicas}", "", &["3"]).await;
    cluster
        .expect_success(
            "describe deploy web",
            "",
            &[
                "Replicas:               3 desired",
                "StrategyType:           RollingUpdate",
                "25% max unavailable, 25% max surge",
            ],
        )
        .await;
    cluster.expect_success("label deploy web tier=front", "", &["deployment.apps/web labeled"]).await;
    cluster.expect_success("get deploy -l tier=front -o name", "", &["deployment.apps/web"]).await;
    cluster.expect_success("label deploy web tier-", "", &["deployment.apps/web unlabeled"]).await;
    cluster.expect_success("annotate deploy web note=hello", "", &["deployment.apps/web annotated"]).await;
    cluster.expect_success("set image deploy/web web=nginx:1.27", "", &["deployment.apps/web image updated"]).await;
    cluster
        .expect_success(
            "patch deploy web --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":7}]'",
            "",
            &["deployment.apps/web patched"],
        )
        .await;
    cluster.expect_success("patch deploy web --type=merge -p '{\"spec\":{\"replicas\":8}}'", "", &["patched"]).await;
    cluster.expect_success("patch deploy web -p '{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"side\",\"image\":\"s\"}]}}}}'", "", &["patched"]).await;
    cluster.expect_success("get deploy web -o jsonpath={.spec.template.spec.containers[*].name}", "", &["side"]).await;
    cluster
        .expect_failure(
            "patch deploy web -p '{\"spec\":{\"selector\":{\"matchLabels\":{\"x\":\"y\"}}}}'",
            "",
            &["field is immutable"],
        )
        .await;
    cluster
        .expect_failure("create -f -", DEPLOYMENT, &["(AlreadyExists)", "deployments.apps \"web\" already exists"])
        .await;
    cluster
        .expect_failure(
            "apply -f -",
            &DEPLOYMENT.replace("replicas: 2", "replicaz: 2"),
            &["strict decoding error: unknown field \"spec.replicaz\""],
        )
        .await;
    cluster.expect_success("explain deployment.spec.strategy", "", &["KIND:       Deployment", "rollingUpdate"]).await;
    cluster
        .expect_success("wait --for=jsonpath={.spec.replicas}=8 deploy/web --timeout=5s", "", &["condition met"])
        .await;
    cluster.expect_success("delete deploy web --wait --timeout=5s", "", &["deployment.apps \"web\" deleted"]).await;
    cluster
        .expect_failure("get deploy web", "", &["Error from server (NotFound): deployments.apps \"web\" not found"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_tainted_cordoned_and_described() {
    let cluster = KubectlFixture::start().await;
    cluster.expect_success("create -f -", NODE, &["node/n1 created"]).await;
    cluster.expect_success("get nodes", "", &["NAME   STATUS   ROLES    AGE", "n1     Ready    worker"]).await;
    cluster.expect_success("get nodes -o wide", "", &["CONTAINER-RUNTIME", "Kerf", "6 (amd64)", "kerf://1"]).await;
    cluster.expect_success("taint node n1 a=b:NoSchedule", "", &["node/n1 tainted"]).await;
    cluster.expect_success("taint node n1 node.kubernetes.io/not-ready-", "", &["node/n1 untainted"]).await;
    cluster.expect_success("cordon n1", "", &["node/n1 cordoned"]).await;
    cluster.expect_success("get nodes", "", &["Ready,SchedulingDisabled"]).await;
    cluster
        .expect_success(
            "describe node n1",
            "",
            &["Taints:             a=b:NoSchedule", "Unschedulable:      true", "KubeletReady", "memory:  8Gi"],
        )
        .await;
    cluster.expect_success("uncordon n1", "", &["node/n1 uncordoned"]).await;
    cluster.expect_success("get node n1 -o jsonpath={.spec.taints[*].key}", "", &["a"]).await;
    cluster.expect_success("get --raw /api/v1/nodes/n1", "", &["\"kind\":\"Node\""]).await;
    cluster.expect_success("get --raw /readyz", "", &["ok"]).await;
    cluster.expect_success("auth can-i delete nodes", "", &["yes"]).await;
    cluster.expect_success("run p --image=nginx --restart=Never", "", &["pod/p created"]).await;
    cluster
        .expect_success(
            "get pod p -o wide",
            "",
            &["p      0/1     Pending   0", "<none>   <none>   <none>           <none>"],
        )
        .await;
    cluster.expect_success("describe pod p", "", &["Status:           Pending", "QoS Class:", "BestEffort"]).await;
    cluster.expect_success("drain n1 --ignore-daemonsets", "", &["node/n1 drained"]).await;
    cluster.expect_success("delete pod p --now", "", &["pod \"p\" deleted"]).await;
    cluster.expect_success("delete node n1", "", &["node \"n1\" deleted"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_have_owners_and_custom_kinds_are_served() {
    let cluster = KubectlFixture::start().await;
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {k: one}\n";
    cluster
        .expect_success("apply --server-side --field-manager=one -f -", map, &["configmap/m serverside-applied"])
        .await;
    cluster
        .expect_failure(
            "apply --server-side --field-manager=two -f -",
            &map.replace("one", "two"),
            &["Apply failed with 1 conflict: conflict with \"one\": .data.k"],
        )
        .await;
    cluster
        .expect_success(
            "apply --server-side --field-manager=two --force-conflicts -f -",
            &map.replace("one", "two"),
            &["serverside-applied"],
        )
        .await;
    cluster.expect_success("get cm m -o jsonpath={.data.k}", "", &["two"]).await;
    for crd in crds::all(CrdVariant::Kwok) {
        cluster.expect_success("apply -f -", &crd.to_yaml(), &["created"]).await;
    }
    cluster
        .expect_success(
            "wait --for=condition=Established crd --all --timeout=5s",
            "",
            &["nodepools.karpenter.sh condition met"],
        )
        .await;
    cluster.expect_success("explain nodepool.spec", "", &["KIND:       NodePool", "disruption", "template"]).await;
    let pool = "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
";
    cluster.expect_success("apply -f -", pool, &["nodepool.karpenter.sh/default created"]).await;
    cluster
        .expect_success("get nodepools", "", &["NAME      NODECLASS   NODES   READY   AGE", "default   default"])
        .await;
    cluster
        .expect_success(
            "api-resources --api-group=karpenter.sh -o name",
            "",
            &["nodeclaims.karpenter.sh\nnodeoverlays.karpenter.sh\nnodepools.karpenter.sh"],
        )
        .await;
    cluster
        .expect_failure(
            "apply -f -",
            &pool.replace("In,", "Maybe,"),
            &["spec.template.spec.requirements[0].operator: Unsupported value: \"Maybe\""],
        )
        .await;
    cluster.expect_success("delete crd nodepools.karpenter.sh --wait --timeout=5s", "", &["deleted"]).await;
    cluster.expect_failure("get nodepools", "", &["the server could not find the requested resource"]).await;
}
