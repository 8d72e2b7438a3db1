//! Rendered user data (spec 05 §14).

use super::*;
use crate::instance_types::kubelet::KubeletSettings;
use kerf_api::ec2nodeclass::{Ami, AmiSelectorTerm};
use serde_json::json;

fn al2023() -> &'static AmiFamilyRules {
    AmiFamilyRules::of(&AmiFamily::Al2023)
}

fn facts() -> ClusterFacts {
    ClusterFacts {
        region: "us-west-2".into(),
        endpoint: "https://test-cluster".into(),
        ca_bundle: Some("Y2EtYnVuZGxlCg==".into()),
        dns_address: "10.100.0.10".parse().ok(),
        kubernetes_version: "1.34".into(),
        service_cidr: Some("10.100.0.0/16".into()),
    }
}

fn labels_of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn taint(key: &str, value: Option<&str>, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: value.map(Into::into), effect, ..Taint::default() }
}

/// Renders user data of AL2023 with these kubelet settings and this custom user data.
fn rendered(cluster: &ClusterFacts, kubelet: Value, custom: Option<&str>) -> Result<String, UserDataError> {
    let kubelet = kubelet.as_object();
    let resolved = KubeletSettings::parse(kubelet).unwrap().without_expressions();
    let labels = node_labels(&labels_of(&[("team", "a")]), "on-demand", al2023());
    let input = UserDataInput {
        cluster_name: "test-cluster",
        cluster,
        kubelet,
        resolved_kubelet: &resolved,
        max_pods: 29,
        labels: &labels,
        taints: &node_taints(&[], &[]),
        custom,
        uses_raid0: false,
        bind_command: BindCommand::default(),
    };
    render(al2023(), &input)
}

/// Returns the archive without the generated part.
fn custom_part(custom: &str) -> String {
    let text = rendered(&facts(), json!({}), Some(custom)).unwrap();
    let (custom, generated) = text.rsplit_once("--//\nContent-Type: application/node.eks.aws\n\n").unwrap();
    assert!(generated.starts_with("# Kerf Generated NodeConfig\n"));
    let header = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n";
    custom.strip_prefix(header).unwrap().to_owned()
}

// spec 05 §14.3; Karpenter 1.14.1 renders the same document for these inputs
#[test]
fn user_data_of_al2023() {
    let kubelet = json!({
        "evictionSoft": { "memory.available": "1Gi" },
        "evictionSoftGracePeriod": { "memory.available": "90s" },
        "kubeReserved": { "cpu": "1" },
        "systemReserved": {},
        "cpuCFSQuota": false,
        "imageGCHighThresholdPercent": 80,
        "topologyManagerPolicy": "best-effort",
    });
    let kubelet = kubelet.as_object();
    let resolved = KubeletSettings::parse(kubelet).unwrap().without_expressions();
    let claim_labels = labels_of(&[
        ("team", "a"),
        ("kubernetes.io/os", "linux"),
        ("x.k8s.io/a", "b"),
        ("topology.k8s.aws/zone-id", "z"),
        ("karpenter.sh/nodepool", "default"),
    ]);
    let taints =
        node_taints(&[taint("a", Some("b"), TaintEffect::NoSchedule)], &[taint("s", None, TaintEffect::NoExecute)]);
    let input = UserDataInput {
        cluster_name: "test-cluster",
        cluster: &facts(),
        kubelet,
        resolved_kubelet: &resolved,
        max_pods: 29,
        labels: &node_labels(&claim_labels, "on-demand", al2023()),
        taints: &taints,
        custom: None,
        uses_raid0: true,
        bind_command: BindCommand::default(),
    };
    insta::assert_snapshot!(render(al2023(), &input).unwrap(), @r#"
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary="//"

    --//
    Content-Type: application/node.eks.aws

    # Kerf Generated NodeConfig
    apiVersion: node.eks.aws/v1alpha1
    kind: NodeConfig
    metadata: {}
    spec:
      cluster:
        apiServerEndpoint: https://test-cluster
        certificateAuthority: Y2EtYnVuZGxlCg==
        cidr: 10.100.0.0/16
        name: test-cluster
      containerd: {}
      instance:
        localStorage:
          strategy: RAID0
      kubelet:
        config:
          clusterDNS:
          - 10.100.0.10
          cpuCFSQuota: false
          evictionSoft:
            memory.available: 1Gi
          evictionSoftGracePeriod:
            memory.available: 1m30s
          imageGCHighThresholdPercent: 80
          kubeReserved:
            cpu: '1'
          maxPods: 29
          registerWithTaints:
          - effect: NoSchedule
            key: a
            value: b
          - effect: NoExecute
            key: s
          - effect: NoExecute
            key: karpenter.sh/unregistered
          topologyManagerPolicy: best-effort
        flags:
        - --node-labels="karpenter.sh/capacity-type=on-demand,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default,team=a,topology.k8s.aws/zone-id=z"

    --//--
    "#);
}

// spec 05 #44, #100, §14.1
#[test]
fn resolved_values_replace_those_of_the_class() {
    let kubelet = json!({
        "maxPods": "7",
        "clusterDNS": ["10.0.0.1"],
        "kubeReserved": { "memory": "max_pods * 11" },
        "systemReserved": { "cpu": "100m", "memory": "vcpus" },
        "registerWithTaints": [{ "key": "mine" }],
    });
    let text = rendered(&facts(), kubelet, None).unwrap();
    assert!(text.contains("      maxPods: 29\n"), "{text}");
    assert!(text.contains("      clusterDNS:\n      - 10.0.0.1\n"), "{text}");
    assert!(text.contains("      systemReserved:\n        cpu: 100m\n"), "{text}");
    assert!(!text.contains("kubeReserved") && !text.contains("vcpus") && !text.contains("mine"), "{text}");
    assert!(rendered(&facts(), json!({ "maxPods": 5 }), None).unwrap().contains("maxPods: 5\n"));
    let no_facts = ClusterFacts { ca_bundle: None, dns_address: None, ..facts() };
    let text = rendered(&no_facts, json!({}), None).unwrap();
    assert!(!text.contains("certificateAuthority") && !text.contains("clusterDNS"), "{text}");
}

// spec 05 #99
#[test]
fn user_data_of_al2023_needs_the_service_cidr() {
    let cluster = ClusterFacts { service_cidr: None, ..facts() };
    let error = rendered(&cluster, json!({}), None).unwrap_err();
    assert_eq!(error.to_string(), "resolving cluster CIDR: the range of Service addresses is not known yet");
}

// spec 05 #96, #97
#[test]
fn labels_that_a_kubelet_may_not_set_are_dropped() {
    let claim = labels_of(&[
        ("kubernetes.io/os", "linux"),
        ("a.kubernetes.io/x", "1"),
        ("k8s.io/x", "1"),
        ("node-restriction.kubernetes.io/x", "1"),
        ("mykubernetes.io/x", "1"),
        ("plain", "1"),
        ("karpenter.k8s.aws/instance-cpu", "2"),
    ]);
    let keys = |family| node_labels(&claim, "spot", AmiFamilyRules::of(&family)).into_keys().collect::<Vec<_>>();
    let kept = ["karpenter.k8s.aws/instance-cpu", "karpenter.sh/capacity-type", "mykubernetes.io/x", "plain"];
    assert_eq!(keys(AmiFamily::Custom), kept);
    assert!(keys(AmiFamily::Al2023).contains(&DO_NOT_SYNC_TAINTS.to_owned()));
    let own = [taint(taints::UNREGISTERED, None, TaintEffect::NoExecute)];
    assert_eq!(node_taints(&own, &[]).len(), 1);
}

// spec 05 §14.3: the answers of Karpenter 1.14.1 for the same inputs
#[test]
fn custom_user_data_comes_first() {
    let script = "Content-Type: text/x-shellscript; charset=\"us-ascii\"";
    assert_eq!(custom_part("#!/bin/bash\necho hi\n"), format!("--//\n{script}\n\n#!/bin/bash\necho hi\n\n"));
    let config = "Content-Type: application/node.eks.aws";
    let document = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n";
    assert_eq!(custom_part(document), format!("--//\n{config}\n\n{document}\n"));
    assert_eq!(custom_part("  \n"), format!("--//\n{config}\n\n  \n\n"));
    let archive = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BB\"\n\n--BB\n\
                   Content-Type: text/x-shellscript; charset=\"us-ascii\"\nX-Foo: bar\n\n#!/bin/bash\r\necho 1\n\
                   --BB\n\nno header\n--BB--\n";
    let expected = format!("--//\n{script}\n\n#!/bin/bash\necho 1\n--//\nContent-Type: \n\nno header\n");
    assert_eq!(custom_part(archive), expected);
    let quoted = "Content-Type: multipart/mixed; boundary=BB\n\n--BB\nContent-Type: text/plain\n\
                  Content-Transfer-Encoding: quoted-printable\n\na=3Db\n--BB";
    assert_eq!(custom_part(quoted), "--//\nContent-Type: text/plain\n\na=b\n");
    assert_eq!(custom_part("Content-Type: multipart/mixed; boundary=BB\n\n"), "");
    assert_eq!(custom_part(""), "");
}

#[test]
fn archives_that_cannot_be_read_are_errors() {
    let multipart = "Content-Type: multipart/mixed; boundary=\"BB\"\n\n";
    for (custom, text) in [
        (format!("\n{multipart}--BB--\n"), "archive doesn't have Content-Type header"),
        (
            "Content-Type: text/plain\n\nhello".into(),
            "archive is not in multipart format: its Content-Type is \"text/plain\"",
        ),
        ("Content-Type: multipart/mixed\n\nhello".into(), "the Content-Type of the archive has no boundary"),
        (
            format!("{multipart}--BB\nContent-Type: a\n\nx\n"),
            "unexpected end: the last part needs a line \"--BB--\" after it",
        ),
        (format!("{multipart}--BB\nno colon\n\nx\n--BB--"), "malformed header line \"no colon\""),
    ] {
        let error = rendered(&facts(), json!({}), Some(&custom)).unwrap_err();
        assert_eq!(error.to_string(), format!("parsing custom UserData, {text}"));
    }
}

// spec 05 §14.6
#[test]
fn custom_images_get_the_user_data_as_it_is() {
    let custom = AmiFamilyRules::of(&AmiFamily::Custom);
    let resolved = ResolvedKubelet::default();
    let cluster = ClusterFacts::default();
    let mut input = UserDataInput {
        cluster_name: "test-cluster",
        cluster: &cluster,
        kubelet: None,
        resolved_kubelet: &resolved,
        max_pods: 29,
        labels: &BTreeMap::new(),
        taints: &[],
        custom: Some("anything\r\n"),
        uses_raid0: false,
        bind_command: BindCommand::default(),
    };
    assert_eq!(render(custom, &input).unwrap(), "anything\r\n");
    input.custom = None;
    assert_eq!(render(custom, &input).unwrap(), "");
}

/// Renders user data of a family for a claim with labels and taints, with all kubelet settings that
/// the family interprets.
fn rendered_for(family: &AmiFamily, custom: Option<&str>) -> Result<String, UserDataError> {
    let kubelet = json!({
        "maxPods": 20, "podsPerCore": 4, "systemReserved": {"cpu": "100m"}, "kubeReserved": {"memory": "1Gi", "cpu": "200m"},
        "evictionHard": {"memory.available": "5%"}, "evictionSoft": {"memory.available": "1Gi"},
        "evictionSoftGracePeriod": {"memory.available": "90s"}, "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 20, "cpuCFSQuota": false,
    });
    let kubelet = kubelet.as_object();
    let resolved = KubeletSettings::parse(kubelet).unwrap().without_expressions();
    let family = AmiFamilyRules::of(family);
    let taints = node_taints(&[taint("a", Some("b"), TaintEffect::NoSchedule)], &[]);
    let input = UserDataInput {
        cluster_name: "test-cluster",
        cluster: &facts(),
        kubelet,
        resolved_kubelet: &resolved,
        max_pods: 29,
        labels: &node_labels(&labels_of(&[("team", "a")]), "spot", family),
        taints: &taints,
        custom,
        uses_raid0: true,
        bind_command: BindCommand::DefaultFolders,
    };
    render(family, &input)
}

// spec 05 §14.2
#[test]
fn user_data_of_al2_calls_the_bootstrap_script_after_the_parts_of_the_user() {
    let custom = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\nContent-Type: text/plain\n\
                  Content-Transfer-Encoding: 7bit\n\nhello\n--X--\n";
    insta::assert_snapshot!(rendered_for(&AmiFamily::Al2, Some(custom)).unwrap());
}

// spec 05 #98
#[test]
fn custom_data_of_al2_gives_one_archive_whatever_its_form() {
    let archive = |head: &str| {
        format!(
            "{head}\n\n--X\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n\
                                        #!/bin/bash\necho 1\n--X--\n"
        )
    };
    let version = "MIME-Version: 1.0";
    let kind = "Content-Type: multipart/mixed; boundary=\"X\"";
    let forms = [
        "#!/bin/bash\necho 1".to_owned(),
        archive(&format!("{version}\n{kind}")),
        archive(&format!("{kind}\n{version}")),
    ];
    let rendered = forms.map(|custom| rendered_for(&AmiFamily::Al2, Some(&custom)).unwrap());
    assert_eq!(rendered[0], rendered[1]);
    assert_eq!(rendered[1], rendered[2]);
    assert_eq!(rendered[0].matches("Content-Type: text/x-shellscript").count(), 2, "two parts: {}", rendered[0]);
}

// spec 05 §14.4
#[test]
fn user_data_of_bottlerocket_is_merged_into_the_settings_of_the_user() {
    let custom = "[settings.kubernetes]\nmax-pods = 5\nkube-api-qps = 30\nunknown = 1\n\
                  [settings.kubernetes.node-labels]\nteam = 'theirs'\nother = 'x'\n\
                  [settings.kernel]\nlockdown = 'integrity'\n[dropped]\na = 1\n";
    insta::assert_snapshot!(rendered_for(&AmiFamily::Bottlerocket, Some(custom)).unwrap());
}

// spec 05 #101
#[test]
fn bottlerocket_keeps_settings_of_the_user_that_kerf_does_not_generate() {
    let custom = "[settings.network]\nhostname = 'mine'\n[settings.kubernetes]\nunknown = 1\n\
                  [settings.kubernetes.node-labels]\nteam = 'theirs'\nother = 'x'\n\
                  [settings.kubernetes.node-taints]\nmine = ['x:NoSchedule']\n";
    let text = rendered_for(&AmiFamily::Bottlerocket, Some(custom)).unwrap();
    let settings: toml::Table = text.parse().unwrap();
    let at = |path: &[&str]| {
        let mut value = &settings["settings"];
        for key in path {
            value = value.get(key)?;
        }
        Some(value.clone())
    };
    let text_at = |path: &[&str]| at(path).and_then(|value| value.as_str().map(str::to_owned));
    assert_eq!(text_at(&["network", "hostname"]).as_deref(), Some("mine"));
    assert_eq!(at(&["kubernetes", "unknown"]), None);
    assert_eq!(text_at(&["kubernetes", "node-labels", "other"]).as_deref(), Some("x"));
    assert_eq!(text_at(&["kubernetes", "node-labels", "team"]).as_deref(), Some("a"), "the generated label wins");
    assert_eq!(at(&["kubernetes", "node-taints", "mine"]), None);
    assert!(at(&["kubernetes", "node-taints", "a"]).is_some());
}

#[test]
fn wrong_settings_of_bottlerocket_name_their_path() {
    let error = |custom: &str| rendered_for(&AmiFamily::Bottlerocket, Some(custom)).unwrap_err().to_string();
    assert_eq!(
        error("[settings.kubernetes]\nmax-pods = 'seven'\n"),
        "invalid UserData toml: settings.kubernetes.max-pods: expected an integer, found string"
    );
    assert_eq!(
        error("[settings.kubernetes.node-taints]\na = ['b', 1]\n"),
        "invalid UserData toml: settings.kubernetes.node-taints.a[1]: expected a string, found integer"
    );
    assert_eq!(error("settings = 1\n"), "invalid UserData toml: settings: expected a table, found integer");
    assert!(error("a = = 1").starts_with("invalid UserData toml: "), "{}", error("a = = 1"));
    assert!(error("a = 1\na = 2\n").starts_with("invalid UserData toml: duplicate key"), "{}", error("a = 1\na = 2\n"));
}

// spec 05 #102, #130
#[test]
fn the_version_of_a_bottlerocket_image_decides_how_local_disks_are_mounted() {
    let term = |field: &str, text: &str| serde_json::from_value::<AmiSelectorTerm>(json!({ field: text })).unwrap();
    let ami =
        |name: &str| serde_json::from_value::<Ami>(json!({"id": "ami-1", "name": name, "requirements": []})).unwrap();
    let alias = |version: &str| bind_command(&[term("alias", &format!("bottlerocket@{version}"))], &[]);
    for version in ["latest", "1.46.0", "v1.46.0", "v1.46.0-rc1", "1.47.x", "v1.52.1", "2.0.0"] {
        assert_eq!(alias(version), BindCommand::DefaultFolders, "{version}");
    }
    for version in ["1.45.9", "v1.45.0", "1.46", "v1.46", "1.x.0", "x.y.z", "invalid", ""] {
        assert_eq!(alias(version), BindCommand::ListedFolders, "{version}");
    }
    let image = "bottlerocket-aws-k8s-1.34-x86_64-v1.46.0-431fe75a";
    assert_eq!(bind_command(&[term("name", image)], &[]), BindCommand::DefaultFolders);
    assert_eq!(bind_command(&[term("id", "ami-1")], &[ami(image)]), BindCommand::DefaultFolders);
    assert_eq!(bind_command(&[term("id", "ami-2")], &[ami("other-v1.46.0")]), BindCommand::ListedFolders);
    assert_eq!(bind_command(&[], &[]), BindCommand::ListedFolders);
}

// spec 05 §14.5
#[test]
fn user_data_of_windows_is_one_powershell_block() {
    insta::assert_snapshot!(rendered_for(&AmiFamily::Windows2022, Some("Write-Host 'a'")).unwrap());
}

// spec 05 #138: scripts in such parts hold plain `=`
#[test]
fn spec_05_138_a_sign_without_digits_stands_for_itself_in_quoted_printable() {
    let archive = |content: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/x-shellscript\n\
             Content-Transfer-Encoding: quoted-printable\n\n{content}\n--B--\n"
        )
    };
    for (content, expected) in [
        ("export X=foo", "export X=foo"),
        ("if [ \"$a\" = \"b\" ]; then x=1; fi", "if [ \"$a\" = \"b\" ]; then x=1; fi"),
        ("a=3D=C3=A9=3db", "a=é=b"),
        ("a==b=+a=é", "a==b=+a=é"),
        ("a=\nb=4", "ab=4"),
    ] {
        let part = custom_part(&archive(content));
        let expected = format!("--//\nContent-Type: text/x-shellscript\n\n{expected}\n");
        assert_eq!(part, expected, "{content}");
    }
    // Two hexadecimal digits are a byte, here one that begins no character.
    let error = rendered(&facts(), json!({}), Some(&archive("X=AB"))).unwrap_err();
    assert!(error.to_string().contains("X=AB"), "{error}");
}

// spec 05 #139
#[test]
fn spec_05_139_known_keys_of_bottlerocket_are_found_in_any_case() {
    let kubernetes = |custom: &str| {
        let text = rendered_for(&AmiFamily::Bottlerocket, Some(&format!("[settings.kubernetes]\n{custom}"))).unwrap();
        text.parse::<toml::Table>().unwrap()["settings"]["kubernetes"].clone()
    };
    let own = kubernetes("Log-Level = 4\nLOG-LEVELS = 5");
    assert_eq!((own["log-level"].as_integer(), own.get("Log-Level"), own.get("LOG-LEVELS")), (Some(4), None, None));
    for options in ["{}", "{x = 1}"] {
        let own = kubernetes(&format!("topology-manager-policy-options = {options}\nstatic-pods = {{}}"));
        assert_eq!(own["topology-manager-policy-options"].as_table().map(toml::Table::len), Some(0), "{options}");
        assert!(own.get("static-pods").is_none());
    }
    let own = kubernetes("[settings.kubernetes.credential-providers.ecr]\nEnabled = true");
    let provider = &own["credential-providers"]["ecr"];
    assert_eq!(provider["image-patterns"].as_array().map(Vec::len), Some(0));
    assert_eq!(provider["enabled"].as_bool(), Some(true));
}
