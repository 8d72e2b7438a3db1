//! Reads the live cluster: one list of each kind that decisions read, as if it were a file. This
//! module can only list objects, so its types guarantee that a plan changes nothing (spec 09 #15).
//!
//! Workloads create no pods here: on a live cluster their controllers do, and Kerf's controllers
//! decide on existing pods only. Selectors of Services and workloads are read only if a decision
//! depends on them.

use kerf_runtime::Causes;
use kube::{Client, Config};

use super::cluster_config::{cluster_config, kubeconfig_variable};
use super::kind::InputKind;
use super::source::Source;
use crate::args::Settings;
use crate::exit::{CommandFailure, Problem};

/// A kind and the path of its list.
type ListedKind = (InputKind, &'static str);

/// Kinds that are always read.
const LISTED_KINDS: &[ListedKind; 14] = &[
    (InputKind::NodePool, "/apis/karpenter.sh/v1/nodepools"),
    (InputKind::NodeClaim, "/apis/karpenter.sh/v1/nodeclaims"),
    (InputKind::KwokNodeClass, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"),
    (InputKind::Ec2NodeClass, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
    (InputKind::Node, "/api/v1/nodes"),
    (InputKind::Pod, "/api/v1/pods"),
    (InputKind::DaemonSet, "/apis/apps/v1/daemonsets"),
    (InputKind::PersistentVolumeClaim, "/api/v1/persistentvolumeclaims"),
    (InputKind::PersistentVolume, "/api/v1/persistentvolumes"),
    (InputKind::StorageClass, "/apis/storage.k8s.io/v1/storageclasses"),
    (InputKind::CsiNode, "/apis/storage.k8s.io/v1/csinodes"),
    (InputKind::VolumeAttachment, "/apis/storage.k8s.io/v1/volumeattachments"),
    (InputKind::PodDisruptionBudget, "/apis/policy/v1/poddisruptionbudgets"),
    (InputKind::Namespace, "/api/v1/namespaces"),
];

/// Kinds that are read in addition if selectors are needed.
const SELECTOR_KINDS: &[ListedKind; 4] = &[
    (InputKind::Service, "/api/v1/services"),
    (InputKind::ReplicaSet, "/apis/apps/v1/replicasets"),
    (InputKind::StatefulSet, "/apis/apps/v1/statefulsets"),
    (InputKind::ReplicationController, "/api/v1/replicationcontrollers"),
];

/// Selects whether Services and workloads are read for their selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectorKinds {
    /// Read them: default spread constraints depend on them.
    Read,
    /// Do not read them.
    Skip,
}

impl SelectorKinds {
    /// Returns `Read` if the settings contain default spread constraints.
    pub(crate) fn needed_by(settings: &Settings) -> Self {
        if settings.default_spread.is_empty() { Self::Skip } else { Self::Read }
    }
}

/// Reads the cluster of the current kubeconfig context, or of the pod in which this process runs.
pub(super) fn read(selectors: SelectorKinds) -> Result<Vec<Source>, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| {
        CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context("cannot start the runtime"))
    })?;
    runtime.block_on(async {
        let no_cluster =
            Problem::new("no input: give manifests with -f, or a cluster with KUBECONFIG or ~/.kube/config").with_hint(
                "kubectl get nodepools,nodeclaims,kwoknodeclasses,nodes,pods,daemonsets -A -o json | kerf plan -f -",
            );
        let hint = "fix the file, set KUBECONFIG to another file, or give manifests with -f";
        let config = cluster_config(no_cluster, hint).await.map_err(CommandFailure::bad_input)?;
        let server = describe_server(&config);
        let client = Client::try_from(config).map_err(|cause| {
            CommandFailure::ExecutionFailed(anyhow::Error::new(cause).context("cannot use the kubeconfig"))
        })?;
        read_with_client(client, &server, selectors).await
    })
}

/// Returns the address of the server for messages, with the value of `KUBECONFIG` and the address
/// of the proxy if there are any. The address of the proxy is without its password.
fn describe_server(config: &Config) -> String {
    let url = config.cluster_url.to_string();
    let url = url.trim_end_matches('/');
    let paths = kubeconfig_variable().map(|paths| format!("KUBECONFIG {paths}"));
    let proxy = config.proxy_url.as_ref().and_then(http::Uri::authority).map(|authority| {
        let address = authority.as_str();
        format!("proxy {}", address.rsplit_once('@').map_or(address, |(_, address)| address))
    });
    let details: Vec<String> = paths.into_iter().chain(proxy).collect();
    if details.is_empty() { url.to_owned() } else { format!("{url} ({})", details.join(", ")) }
}

/// Reads the cluster of a client. `server` is the name of its API server in messages.
pub(super) async fn read_with_client(
    client: Client,
    server: &str,
    selectors: SelectorKinds,
) -> Result<Vec<Source>, CommandFailure> {
    let selector_kinds = if selectors == SelectorKinds::Read { SELECTOR_KINDS.as_slice() } else { &[] };
    ListOnlyClient { client, server }.list_all(LISTED_KINDS.iter().chain(selector_kinds)).await
}

/// A client that can only list.
struct ListOnlyClient<'s> {
    client: Client,
    /// Name of the API server in messages.
    server: &'s str,
}

impl ListOnlyClient<'_> {
    /// Lists every kind. The error names all kinds that may not be read, not only the first.
    async fn list_all(&self, kinds: impl Iterator<Item = &'static ListedKind>) -> Result<Vec<Source>, CommandFailure> {
        let mut sources = Vec::new();
        let mut problems = Vec::new();
        for &(kind, path) in kinds {
            let name = format!("the cluster's {}", kind.plural());
            match self.list(path).await {
                Ok(text) => sources.push(Source { name, text, is_from_folder: false }),
                // A cluster has only the node classes of its own provider, and may have no storage
                // API.
                Err(kube::Error::Api(status)) if status.code == 404 && is_optional_kind(kind) => {}
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    problems.push(Problem::new(format!("not allowed to list {}: {}", kind.plural(), status.message)));
                }
                Err(kube::Error::Api(status)) if status.code == 404 => problems.push(
                    Problem::new(format!("the cluster does not serve the kind {}", kind.name()))
                        .with_hint("kerf crds | kubectl apply --server-side -f -"),
                ),
                Err(cause @ (kube::Error::Service(_) | kube::Error::HyperError(_))) => {
                    let problem = unreachable_server_problem(self.server, &cause);
                    return Err(CommandFailure::ExecutionFailed(anyhow::Error::new(problem)));
                }
                Err(cause) => {
                    let cause = anyhow::Error::msg(Causes(&cause).to_string()).context(format!("cannot list {name}"));
                    return Err(CommandFailure::ExecutionFailed(cause));
                }
            }
        }
        if problems.is_empty() { Ok(sources) } else { Err(CommandFailure::BadInput(problems)) }
    }

    async fn list(&self, path: &str) -> Result<String, kube::Error> {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await
    }
}

/// Describes a failed connection by its innermost cause: the other errors name parts of libraries.
fn unreachable_server_problem(server: &str, error: &kube::Error) -> Problem {
    let error: &(dyn std::error::Error + 'static) = error;
    let innermost = std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error);
    let text = innermost.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    Problem::new(format!("cannot reach {server}: {first}{}", chars.as_str()))
        .with_hint("check with `kubectl version` that the API server runs, or set KUBECONFIG to another file")
}

fn is_optional_kind(kind: InputKind) -> bool {
    matches!(
        kind,
        InputKind::KwokNodeClass
            | InputKind::Ec2NodeClass
            | InputKind::CsiNode
            | InputKind::VolumeAttachment
            | InputKind::StorageClass
    )
}
