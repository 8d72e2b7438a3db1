//! User data of every family as an instance reads it at its boot.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use serde_json::json;

use super::*;

const AL2023: &str = "amazon-eks-node-al2023-x86_64-standard-1.36-v20251120";
const AL2: &str = "amazon-eks-node-1.36-v20251120";
const BOTTLEROCKET: &str = "bottlerocket-aws-k8s-1.36-x86_64-v1.52.0";
const WINDOWS: &str = "Windows_Server-2022-English-Core-EKS_Optimized-1.36-20251120";
const HEAD: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n";

fn read(image_name: &str, user_data: &str) -> Result<BootConfig, UserDataProblem> {
    BootConfig::read(image_name, &STANDARD.encode(user_data))
}

fn problem(image_name: &str, user_data: &str) -> String {
    read(image_name, user_data).unwrap_err().to_string()
}

fn archive(parts: &[(&str, &str)]) -> String {
    let mut text = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n".to_owned();
    for (content_type, content) in parts {
        text.extend(["--//\nContent-Type: ", content_type, "\n\n", content, "\n"]);
    }
    text + "--//--\n"
}

fn labels(config: &BootConfig) -> Vec<String> {
    config.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn later_node_configs_win_and_flags_are_appended() {
    let first = format!(
        "{HEAD}  cluster: {{name: other, cidr: 10.0.0.0/16}}\n  kubelet:\n    config: {{maxPods: 5, registryPullQPS: 9}}\n    flags: ['--node-labels=a=1']\n"
    );
    let second = format!(
        "{HEAD}  cluster: {{name: demo, apiServerEndpoint: 'https://x'}}\n  instance: {{localStorage: {{strategy: RAID0}}}}\n  kubelet:\n    config: {{maxPods: 29}}\n    flags: ['--node-labels=\"b=2,c=\"', '--v=2']\n"
    );
    let user_data = archive(&[
        ("text/x-shellscript", "#!/bin/sh"),
        ("application/node.eks.aws", &first),
        ("application/node.eks.aws; charset=utf-8", &second),
    ]);
    let config = read(AL2023, &user_data).unwrap();
    assert_eq!((config.cluster_name.as_str(), config.cidr.as_str()), ("demo", "10.0.0.0/16"));
    assert_eq!((config.endpoint.as_deref(), config.certificate_authority.as_deref()), (Some("https://x"), Some("")));
    assert_eq!(labels(&config), ["a=1", "b=2", "c="]);
    assert!(config.uses_raid0);
    assert_eq!(Value::Object(config.kubelet), json!({"maxPods": 29, "registryPullQPS": 9}));
}

// spec 05 §14.2
#[test]
fn al2_joins_by_the_last_call_of_its_bootstrap_script() {
    let custom = "#!/bin/bash\n/etc/eks/bootstrap.sh other\n";
    let script = "#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log) 2>&1\n\
        /etc/eks/bootstrap.sh 'demo' --apiserver-endpoint 'https://x' --b64-cluster-ca 'Q0E=' \\\n\
        --use-max-pods false \\\n--kubelet-extra-args '--node-labels=\"a=1,b=2\" \
        --register-with-taints=\"k=v:NoSchedule,karpenter.sh/unregistered:NoExecute\" --max-pods=29 \
        --kube-reserved=\"cpu=200m\" --eviction-hard=\"memory.available<5%\"' \\\n--local-disks raid0";
    let user_data = archive(&[("text/x-shellscript; charset=\"us-ascii\"", custom), ("text/x-shellscript", script)]);
    let config = read(AL2, &user_data).unwrap();
    assert_eq!(config.software, BootSoftware::BootstrapScript);
    assert_eq!((config.cluster_name.as_str(), config.endpoint.as_deref()), ("demo", Some("https://x")));
    assert_eq!((config.certificate_authority.as_deref(), config.uses_raid0), (Some("Q0E="), true));
    assert_eq!(labels(&config), ["a=1", "b=2"]);
    assert_eq!(
        Value::Object(config.kubelet),
        json!({
            "evictionHard": {"memory.available": "5%"},
            "kubeReserved": {"cpu": "200m"},
            "maxPods": 29,
            "registerWithTaints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            ],
        })
    );
    // What EKS knows about the cluster need not be written.
    let short = read(AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh demo\n").unwrap();
    assert_eq!((short.cluster_name.as_str(), short.endpoint, short.certificate_authority), ("demo", None, None));
}

// spec 05 §14.4
#[test]
fn bottlerocket_joins_by_its_settings() {
    let text = r#"
[settings.kubernetes]
api-server = "https://x"
cluster-name = "demo"
cluster-certificate = "Q0E="
max-pods = 29
[settings.kubernetes.node-labels]
a = "1"
[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
k = ["v:NoSchedule"]
[settings.kubernetes.kube-reserved]
cpu = "200m"
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [["apiclient", "ephemeral-storage", "init"]]
mode = "always"
"#;
    let config = read(BOTTLEROCKET, text).unwrap();
    assert_eq!((config.cluster_name.as_str(), config.endpoint.as_deref()), ("demo", Some("https://x")));
    assert_eq!((labels(&config), config.uses_raid0), (vec!["a=1".to_owned()], true));
    assert_eq!(
        Value::Object(config.kubelet),
        json!({
            "kubeReserved": {"cpu": "200m"},
            "maxPods": 29,
            "registerWithTaints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "karpenter.sh/unregistered", "value": null, "effect": "NoExecute"},
            ],
        })
    );
    assert!(problem(BOTTLEROCKET, "settings = [").starts_with("Bottlerocket does not boot: "));
    let missing = "Bottlerocket does not boot: settings.kubernetes.cluster-name is missing";
    assert_eq!(problem(BOTTLEROCKET, "[settings.kubernetes]\napi-server = \"https://x\"\n"), missing);
    let unknown = problem(BOTTLEROCKET, "[settings.kubernetes]\ncluster-nmae = \"x\"\n");
    assert!(unknown.contains("unknown setting settings.kubernetes.cluster-nmae"), "{unknown}");
}

// spec 05 §14.5
#[test]
fn windows_joins_by_the_call_of_its_bootstrap_script() {
    let text = "<powershell>\nWrite-Host 'hello'\n\
        [string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n\
        & $EKSBootstrapScriptFile -EKSClusterName 'demo' -APIServerEndpoint 'https://x' -Base64ClusterCA 'Q0E=' \
        -KubeletExtraArgs '--node-labels=\"a=it''s\" --max-pods=7' -DNSClusterIP '10.100.0.10'\n</powershell>";
    let config = read(WINDOWS, text).unwrap();
    assert_eq!((config.cluster_name.as_str(), config.endpoint.as_deref()), ("demo", Some("https://x")));
    assert_eq!((labels(&config), config.kubelet["maxPods"].as_i64()), (vec!["a=it's".to_owned()], Some(7)));
    assert!(problem(WINDOWS, "<powershell>\nWrite-Host 1\n</powershell>").contains("Start-EKSBootstrap.ps1"));
    assert_eq!(windows_build(WINDOWS), Some("10.0.20348"));
    assert_eq!(windows_build(AL2), None);
}

// spec 05 §14.6
#[test]
fn an_image_of_the_user_boots_by_the_form_of_its_user_data() {
    let software = |text: &str| read("my-image", text).map(|config| config.software);
    let node_config = archive(&[("application/node.eks.aws", &format!("{HEAD}  cluster: {{name: demo}}\n"))]);
    assert_eq!(software(&node_config), Ok(BootSoftware::Nodeadm));
    assert_eq!(software("#!/bin/bash\n/etc/eks/bootstrap.sh demo\n"), Ok(BootSoftware::BootstrapScript));
    let settings = "[settings.kubernetes]\napi-server = \"https://x\"\ncluster-name = \"demo\"\n";
    assert_eq!(software(settings), Ok(BootSoftware::Bottlerocket));
    let windows = "<powershell>\n& $script -EKSClusterName demo\n</powershell>";
    assert_eq!(software(windows), Ok(BootSoftware::Windows));
    assert_eq!(software(""), Err(UserDataProblem::Empty));
}

#[test]
fn user_data_that_a_node_cannot_read_says_why() {
    let raw = |user_data: &str| BootConfig::read(AL2023, user_data).unwrap_err().to_string();
    assert_eq!(raw("§"), "the user data is not base64");
    assert_eq!(raw(&STANDARD.encode([0xff])), "the user data is not UTF-8 text");
    assert!(problem(AL2023, "#!/bin/sh\n").starts_with("the user data is no MIME archive"));
    let script = archive(&[("text/x-shellscript", "true")]);
    assert!(problem(AL2023, &script).starts_with("the user data has no part of type application/node.eks.aws"));
    assert_eq!(problem(AL2, &script), "the user data does not call /etc/eks/bootstrap.sh, so no kubelet starts");
    assert!(problem(AL2, "#!/bin/sh\n/etc/eks/bootstrap.sh\n").ends_with("has no cluster name"));
    assert!(problem(AL2, "#!/bin/sh\necho '").ends_with("a single quote is not closed"));
    let broken = archive(&[("application/node.eks.aws", "a: [")]);
    assert!(problem(AL2023, &broken).starts_with("a NodeConfig is not YAML"));
    let other = archive(&[("application/node.eks.aws", "apiVersion: v2\n")]);
    let expected = "a document of type application/node.eks.aws has apiVersion \"v2\" instead of node.eks.aws/v1alpha1";
    assert_eq!(problem(AL2023, &other), expected);
    let other = archive(&[("application/node.eks.aws", "apiVersion: node.eks.aws/v1alpha1\nkind: Foo\n")]);
    let expected = "a document of type application/node.eks.aws has kind \"Foo\" instead of NodeConfig";
    assert_eq!(problem(AL2023, &other), expected);
}

#[test]
fn settings_and_flags_that_do_not_exist_keep_an_instance_from_joining() {
    let settings = "[settings.kubernetes]\napi-server = \"https://x\"\ncluster-name = \"demo\"\n";
    assert!(read(BOTTLEROCKET, &format!("{settings}[settings.host-containers.admin]\nenabled = true\n")).is_ok());
    assert_eq!(
        problem(BOTTLEROCKET, &format!("{settings}[settings.foo]\nbar = 1\n")),
        "Bottlerocket does not boot: unknown setting settings.foo"
    );
    let flag = "the kubelet does not start: unknown flag: --no-such-flag";
    let config = |flags: &str| {
        archive(&[(
            "application/node.eks.aws",
            &format!("{HEAD}  cluster: {{name: demo}}\n  kubelet: {{flags: {flags}}}\n"),
        )])
    };
    assert!(read(AL2023, &config("['--node-labels=a=1', '--v=2', '--register-node']")).is_ok());
    assert_eq!(problem(AL2023, &config("['--v=2', '--no-such-flag=1']")), flag);
    let script = "#!/bin/sh\n/etc/eks/bootstrap.sh demo --kubelet-extra-args '--max-pods=7 --no-such-flag 1'\n";
    assert_eq!(problem(AL2, script), flag);
    let windows = "<powershell>\n& $script -EKSClusterName demo -KubeletExtraArgs '--no-such-flag=1'\n</powershell>";
    assert_eq!(problem(WINDOWS, windows), flag);
}
