//! `kerf crds` (spec 09 section 5).

use insta::assert_snapshot;

use crate::program::{kerf, temp_folder};

/// Returns names and texts of the manifests that ship with Kerf, from `deploy/crds`.
fn deployed_manifests() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_summary_names_every_kind() {
    assert_snapshot!(kerf(&["crds", "-o", "table"]).transcript(), @r"
    exit code 0
    --- stdout
    KIND            APIVERSION                    SCOPE       NAME             SHORT
    CapacityBuffer  autoscaling.x-k8s.io/v1beta1  Namespaced  capacitybuffers  cb
    EC2NodeClass    karpenter.k8s.aws/v1          Cluster     ec2nodeclasses   ec2nc,ec2ncs
    KWOKNodeClass   karpenter.kwok.sh/v1alpha1    Cluster     kwoknodeclasses  kwoknc,kwokncs
    NodeClaim       karpenter.sh/v1               Cluster     nodeclaims
    NodeOverlay     karpenter.sh/v1alpha1         Cluster     nodeoverlays     overlays
    NodePool        karpenter.sh/v1               Cluster     nodepools
    ");
}

#[test]
fn the_default_is_a_stream_of_the_deployed_manifests() {
    let output = kerf(&["crds"]).run();
    let texts: Vec<String> = deployed_manifests().into_iter().map(|(_, text)| text).collect();
    let expected = format!("---\n{}", texts.join("---\n"));
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert!(output.stdout == expected, "kerf crds and deploy/crds differ");
}

#[test]
fn a_folder_gets_the_deployed_files() {
    let folder = temp_folder(&[]);
    let output = kerf(&["crds", "-o", "dir=new/crds"]).current_dir(folder.path()).run();
    let deployed = deployed_manifests();
    let names: Vec<String> = deployed.iter().map(|(name, _)| format!("new/crds/{name}")).collect();
    assert_eq!((output.code, output.stdout), (0, names.join("\n") + "\n"));
    for (name, text) in deployed {
        assert_eq!(std::fs::read_to_string(folder.path().join("new/crds").join(name)).unwrap(), text);
    }
}

#[test]
fn json_is_one_list_of_the_chosen_group() {
    let output = kerf(&["crds", "--group", "karpenter.sh", "-o", "json"]).run();
    let list: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|crd| &crd["spec"]["names"]["kind"]).collect();
    assert_eq!(kinds, ["NodeClaim", "NodeOverlay", "NodePool"]);
    assert_eq!(list["kind"], "List");
}

#[test]
fn providers_differ_in_the_labels_that_they_protect() {
    let manifests_of = |provider: &str| kerf(&["crds", "--provider", provider]).run().stdout;
    assert!(
        manifests_of("kwok").contains("karpenter.kwok.sh/instance-size") && manifests_of("kwok") != manifests_of("aws")
    );
    assert_eq!(manifests_of("aws"), kerf(&["crds"]).run().stdout);
}

#[test]
fn invalid_options_are_errors() {
    assert_snapshot!(kerf(&["crds", "--group", "example.com"]).transcript(), @r"
    exit code 2
    --- stderr
    error: --group: Kerf has no CRD in the API group `example.com`
    hint:  use one of: autoscaling.x-k8s.io, karpenter.k8s.aws, karpenter.kwok.sh, karpenter.sh
    ");
    assert_snapshot!(kerf(&["crds", "-o", "dir="]).transcript(), @r"
    exit code 2
    --- stderr
    error: invalid value 'dir=' for '--output <FORMAT>': `dir=` must be followed by a path, for example dir=deploy/crds

    For more information, try '--help'.
    ");
    let folder = temp_folder(&[("file", "")]);
    assert_snapshot!(kerf(&["crds", "-o", "dir=file/x"]).current_dir(folder.path()).transcript(), @r"
    exit code 1
    --- stderr
    error: cannot create the folder file/x: Not a directory (os error 20)
    ");
}
