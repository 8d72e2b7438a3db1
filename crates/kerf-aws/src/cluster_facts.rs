//! Facts about the cluster that nodes need to join it (spec 05 §6, spec 06 §16.3, §20.1).

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kerf_api::slim::Str;
use kerf_operator::{Reconcile, ReconcileError};
use kerf_runtime::{ApiError, Clock, ReconcileAction, with_retries};
use kube::{Api, Client};

use crate::change_log::ChangeLog;
use crate::ports::{AwsError, AwsPorts, Fault};
use crate::settings::{AwsSettings, ClusterFacts};

/// Name of the controller that refreshes the Kubernetes version.
pub(crate) const VERSION_CONTROLLER: &str = "providers.version";
/// Time between two refreshes of the Kubernetes version.
const VERSION_REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// Minor versions of Kubernetes 1 that are supported.
const SUPPORTED_MINORS: std::ops::RangeInclusive<u32> = 31..=37;

/// The facts about the cluster, shared by everything that reads them. Clones share one value.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterFactsHolder(Arc<RwLock<Arc<ClusterFacts>>>);

impl ClusterFactsHolder {
    /// Creates the holder with facts that are known already.
    pub(crate) fn new(facts: ClusterFacts) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(facts))))
    }

    /// Returns the facts as they are now.
    pub(crate) fn get(&self) -> Arc<ClusterFacts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the facts. Readers keep the facts that they have.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ClusterFacts)) {
        let mut facts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut facts));
    }
}

/// Reason why a fact about the cluster is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterFactsError {
    /// EKS did not describe the cluster.
    #[error("describing cluster {cluster}, {cause}")]
    DescribeCluster {
        /// Name of the cluster.
        cluster: String,
        /// The answer of EKS.
        #[source]
        cause: AwsError,
    },
    /// EKS reports no endpoint.
    #[error("EKS reports no endpoint of cluster {0}; set --cluster-endpoint")]
    NoEndpoint(String),
    /// EKS reports no ARN.
    #[error("EKS reports no ARN of cluster {0}")]
    NoArn(String),
    /// EKS reports no version.
    #[error("EKS reports no Kubernetes version of cluster {0}")]
    NoVersion(String),
    /// EKS reports no range of Service addresses.
    #[error("no CIDR found in DescribeCluster response")]
    NoServiceCidr,
    /// The API server did not report its version.
    #[error("reading the version of the API server, {0}")]
    ServerVersion(#[source] ApiError),
    /// The version is outside the supported range.
    #[error("validating kubernetes version, karpenter is not compatible with kubernetes version (version={0})")]
    UnsupportedVersion(String),
}

impl ClusterFactsError {
    /// Returns true if AWS failed, so that a retry may succeed without any change.
    pub(crate) fn is_server_fault(&self) -> bool {
        matches!(self, Self::DescribeCluster { cause, .. } if cause.fault == Fault::Server)
    }

    /// Returns the failed AWS call, if there is one.
    pub(crate) fn aws_error(&self) -> Option<&AwsError> {
        match self {
            Self::DescribeCluster { cause, .. } => Some(cause),
            Self::NoEndpoint(_)
            | Self::NoArn(_)
            | Self::NoVersion(_)
            | Self::NoServiceCidr
            | Self::ServerVersion(_)
            | Self::UnsupportedVersion(_) => None,
        }
    }
}

/// Finds the facts about the cluster.
pub(crate) struct ClusterDiscovery {
    ports: AwsPorts,
    settings: AwsSettings,
    client: Client,
    facts: ClusterFactsHolder,
    /// The version that was last logged.
    logged_version: ChangeLog,
    /// Held while the range of Service addresses is read, so that many launches share one call.
    cidr_call: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for ClusterDiscovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterDiscovery").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl ClusterDiscovery {
    /// Creates the discovery. Its facts hold only the region until [`Self::load`] was called.
    pub(crate) fn new(ports: AwsPorts, settings: AwsSettings, client: Client, clock: Clock) -> Self {
        let facts = ClusterFacts { region: ports.region.clone(), ..ClusterFacts::default() };
        Self {
            ports,
            settings,
            client,
            facts: ClusterFactsHolder::new(facts),
            logged_version: ChangeLog::new(clock),
            cidr_call: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the facts that this discovery finds.
    pub(crate) fn facts(&self) -> &ClusterFactsHolder {
        &self.facts
    }

    /// Asks EKS for the ARN of the cluster. Fails if it reports none.
    pub(crate) async fn cluster_arn(&self) -> Result<String, ClusterFactsError> {
        let arn = self.describe_cluster().await?.arn;
        arn.ok_or_else(|| ClusterFactsError::NoArn(self.settings.cluster_name.clone()))
    }

    /// Finds endpoint, DNS address, Kubernetes version and CA certificate at start-up. After an
    /// error the process must end.
    pub(crate) async fn load(&self) -> Result<(), ClusterFactsError> {
        let endpoint = match &self.settings.cluster_endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                let endpoint = self.describe_cluster().await?.endpoint;
                endpoint.ok_or_else(|| ClusterFactsError::NoEndpoint(self.settings.cluster_name.clone()))?
            }
        };
        let dns_address = self.dns_address().await;
        let version = self.version().await?;
        self.logged_version.is_new("version", &version);
        tracing::debug!(version, "discovered kubernetes version");
        self.facts.update(|facts| {
            facts.endpoint = endpoint;
            facts.dns_address = dns_address;
            facts.kubernetes_version = version;
            facts.ca_bundle.clone_from(&self.settings.cluster_ca_bundle);
        });
        Ok(())
    }

    async fn describe_cluster(&self) -> Result<crate::ports::ClusterInfo, ClusterFactsError> {
        let cluster = &self.settings.cluster_name;
        let answer = self.ports.eks.describe_cluster(cluster).await;
        answer.map_err(|cause| ClusterFactsError::DescribeCluster { cluster: cluster.clone(), cause })
    }

    /// Returns the address of the cluster's DNS service. A cluster may have none, or another one.
    async fn dns_address(&self) -> Option<IpAddr> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "kube-system");
        match with_retries(|| services.get("kube-dns")).await {
            Ok(service) => service.spec?.cluster_ip?.parse().ok(),
            Err(error) => {
                tracing::debug!(%error, "unable to detect the IP of the kube-dns service, services may not be reachable");
                None
            }
        }
    }

    async fn version(&self) -> Result<String, ClusterFactsError> {
        if self.settings.eks_control_plane {
            let version = self.describe_cluster().await?.version;
            return version.ok_or_else(|| ClusterFactsError::NoVersion(self.settings.cluster_name.clone()));
        }
        let info = with_retries(|| self.client.apiserver_version()).await.map_err(ClusterFactsError::ServerVersion)?;
        Ok(format!("{}.{}", info.major, info.minor.trim_end_matches('+')))
    }

    /// Reads the Kubernetes version again. After an error of the call the old version stays. An
    /// unsupported version is used, and returned as an error once per version and day.
    pub(crate) async fn refresh_version(&self) -> Result<(), ClusterFactsError> {
        let version = self.version().await?;
        self.facts.update(|facts| facts.kubernetes_version.clone_from(&version));
        let is_new = self.logged_version.is_new("version", &version);
        if is_new {
            tracing::debug!(version, "discovered kubernetes version");
            if !is_supported(&version) {
                return Err(ClusterFactsError::UnsupportedVersion(version));
            }
        }
        Ok(())
    }

    /// Finds the range of Service addresses, unless it is known already.
    pub(crate) async fn resolve_service_cidr(&self) -> Result<(), ClusterFactsError> {
        if self.facts.get().service_cidr.is_some() {
            return Ok(());
        }
        let _call = self.cidr_call.lock().await;
        if self.facts.get().service_cidr.is_some() {
            return Ok(());
        }
        let cluster = self.describe_cluster().await?;
        let cidr = cluster.service_ipv4_cidr.or(cluster.service_ipv6_cidr).ok_or(ClusterFactsError::NoServiceCidr)?;
        tracing::debug!("cluster-cidr" = cidr, "discovered cluster CIDR");
        self.facts.update(|facts| facts.service_cidr = Some(cidr));
        Ok(())
    }
}

fn is_supported(version: &str) -> bool {
    let Some((major, minor)) = version.split_once('.') else { return false };
    major == "1" && minor.parse().is_ok_and(|minor: u32| SUPPORTED_MINORS.contains(&minor))
}

/// `providers.version`: refreshes the Kubernetes version every five minutes.
#[derive(Debug)]
pub(crate) struct VersionRefresh(pub(crate) Arc<ClusterDiscovery>);

/// The failed refresh of the version.
#[derive(Debug, thiserror::Error)]
#[error("updating version, {0}")]
pub(crate) struct VersionRefreshError(#[from] ClusterFactsError);

impl ReconcileError for VersionRefreshError {
    fn log_fields(&self) -> Vec<(String, serde_json::Value)> {
        self.0.aws_error().map(AwsError::log_fields).unwrap_or_default()
    }
}

impl Reconcile for VersionRefresh {
    type Error = VersionRefreshError;

    async fn reconcile(&self, _: &Str) -> Result<ReconcileAction, VersionRefreshError> {
        self.0.refresh_version().await?;
        Ok(ReconcileAction::RequeueAfter(VERSION_REFRESH_INTERVAL))
    }
}

#[cfg(test)]
mod tests;
